//go:build unix

package client

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command the leader of a process group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) } // an error says that nothing is left
func killGroup(pid int)      { _ = syscall.Kill(-pid, syscall.SIGKILL) }
