package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A child is one of the servers under measurement.
type child struct {
	cmd  *exec.Cmd
	addr string
	dir  string
}

// start runs a server that writes its address to the file that takes the place of "ADDR" in args.
func start(ctx context.Context, env []string, path string, args ...string) (*child, error) {
	dir, err := os.MkdirTemp("", "agent-server-bench-")
	if err != nil {
		return nil, err
	}
	c := &child{dir: dir}
	file := filepath.Join(dir, "address")
	for i, a := range args {
		if a == "ADDR" {
			args[i] = file
		}
	}
	c.cmd = exec.Command(path, args...)
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stderr = os.Stderr
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(200 * time.Microsecond) {
		if raw, err := os.ReadFile(file); err == nil && strings.Contains(string(raw), ":") {
			c.addr = strings.TrimSpace(string(raw))
			return c, nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			c.stop()
			return nil, fmt.Errorf("%s does not say where it listens", path)
		}
	}
}

func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(15*time.Second, func() { _ = c.cmd.Process.Kill() })
	_ = c.cmd.Wait()
	kill.Stop()
	_ = os.RemoveAll(c.dir)
}

// cpu is the processor time that the server itself, not its children, has used.
func (c *child) cpu() time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100) // USER_HZ is 100
}

// memory is the server's resident memory in bytes.
func (c *child) memory() int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
