//go:build !unix

package client

import (
	"os"
	"os/exec"
)

// There are no process groups here: the child alone is ended.

func ownGroup(*exec.Cmd) {}

func terminateGroup(pid int) { killGroup(pid) }

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // an error says that nothing is left
	}
}
