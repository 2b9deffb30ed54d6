package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"agentserver/harness"
)

// mark is the first argument of a process that is to play.
const mark = "harnesstest-agent"

// An Agent is a script that drivers can start, and what its processes left behind. It is safe for concurrent use.
type Agent struct {
	t    testing.TB
	dir  string
	path string
	// Version is what Resolve tells.
	Version string
}

// New writes the script down. The test's processes must all be gone at its end; it fails otherwise, and kills them.
func New(t testing.TB, script Script) *Agent {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{t: t, dir: t.TempDir(), path: path, Version: "1.0.0"}
	data, err := json.Marshal(script)
	if err == nil {
		err = os.WriteFile(filepath.Join(a.dir, "script"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range a.Alive() {
			t.Errorf("process %d of the agent is left", pid)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return a
}

// Executable is what a driver starts.
func (a *Agent) Executable() harness.Executable {
	return harness.Executable{Path: a.path, Args: []string{mark, a.dir}, Version: a.Version}
}

// Resolve is a [harness.Resolver].
func (a *Agent) Resolve(context.Context, func(harness.Notice)) (harness.Executable, error) {
	return a.Executable(), nil
}

// Wrapper writes a shell script that starts the agent, for drivers that take a path only, and returns its path.
func (a *Agent) Wrapper() string {
	path := filepath.Join(a.dir, "agent.sh")
	text := "#!/bin/sh\nexec '" + a.path + "' " + mark + " '" + a.dir + "' \"$@\"\n"
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// Received returns the lines that the agent's processes read from stdin, in order.
func (a *Agent) Received() []string { return a.lines("received") }

// Arguments returns the arguments with which the agent's processes were started, in order; each is one line of JSON.
func (a *Agent) Arguments() [][]string {
	var all [][]string
	for _, line := range a.lines("arguments") {
		var args []string
		if err := json.Unmarshal([]byte(line), &args); err != nil {
			a.t.Errorf("agent: %v", err)
		}
		all = append(all, args)
	}
	return all
}

// Alive returns the processes of the agent, grandchildren included, that are still there.
func (a *Agent) Alive() []int {
	var alive []int
	for _, line := range a.lines("pids") {
		if pid, err := strconv.Atoi(line); err == nil && isAlive(pid) {
			alive = append(alive, pid)
		}
	}
	return alive
}

func isAlive(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || !hasProc()
	}
	// pid (name) state …: a zombie is gone, it waits to be noticed
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

func (a *Agent) lines(name string) []string {
	f, err := os.Open(filepath.Join(a.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		a.t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	in := bufio.NewScanner(f)
	in.Buffer(nil, 256<<20)
	for in.Scan() {
		lines = append(lines, in.Text())
	}
	if err := in.Err(); err != nil {
		a.t.Errorf("agent: %v", err)
	}
	return lines
}
