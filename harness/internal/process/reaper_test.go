//go:build linux

package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A server is another run of this package, with a tree of its own.
type server struct {
	cmd                  *exec.Cmd
	leader, child, guard int
	marker               string
	out                  *bufio.Reader
}

func startServer(t *testing.T, script string, more ...string) *server {
	t.Helper()
	s := &server{cmd: exec.Command("/proc/self/exe", append([]string{script}, more...)...)}
	s.cmd.Env = append(os.Environ(), modeVar+"=server", "GORACE=atexit_sleep_ms=0")
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		for _, pid := range s.tree(t) { // a test that has failed
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	s.out = bufio.NewReader(out)
	if _, err := fmt.Fscanln(s.out, new(string), &s.child, &s.leader, &s.guard, &s.marker); err != nil {
		t.Fatal(err)
	}
	return s
}

// tree lists what of the server's tree lives, its reaper included.
func (s *server) tree(t *testing.T) []int {
	if s.marker == "" {
		return nil
	}
	pids := carriers(t, s.marker)
	if alive(s.guard) {
		pids = append(pids, s.guard)
	}
	return pids
}

// expectGone waits until nothing of the server is left. On a machine with nothing else to do that takes 25 ms; the bound allows for one that is
// busy.
func (s *server) expectGone(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(5 * time.Millisecond) {
		left := s.tree(t)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left after 10 s: %v; the child was %d, the reaper %d", left, s.leader, s.guard)
		}
	}
}

// ignores reports whether a process ignores a signal.
func ignores(t *testing.T, pid int, sig syscall.Signal) bool {
	t.Helper()
	_, rest, _ := strings.Cut(readFile(t, "/proc/"+itoa(pid)+"/status"), "SigIgn:")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(sig-1)) != 0
}

const serverTree = "setsid sleep 600 & echo $!; (setsid sleep 601 &); sleep 602"

func TestNothingOutlivesAKilledServer(t *testing.T) {
	for name, kill := range map[string]func(s *server) error{
		"SIGKILL":              func(s *server) error { return unix.Kill(s.cmd.Process.Pid, unix.SIGKILL) },
		"SIGKILL to the group": func(s *server) error { return unix.Kill(-s.cmd.Process.Pid, unix.SIGKILL) },
		"SIGTERM to the group": func(s *server) error { return unix.Kill(-s.cmd.Process.Pid, unix.SIGTERM) },
		"SIGTERM to the reaper, then SIGKILL": func(s *server) error {
			eventually(t, 5*time.Second, "the reaper ignores it", func() bool { return ignores(t, s.guard, unix.SIGTERM) })
			_ = unix.Kill(s.guard, unix.SIGTERM)
			return unix.Kill(s.cmd.Process.Pid, unix.SIGKILL)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, serverTree)
			eventually(t, 5*time.Second, "the tree is complete", func() bool { return len(s.tree(t)) >= 5 })
			begin := time.Now()
			if err := kill(s); err != nil {
				t.Fatal(err)
			}
			s.expectGone(t)
			t.Logf("gone in %v", time.Since(begin))
		})
	}
}

func TestReaperEndsWithItsServer(t *testing.T) {
	s := startServer(t, serverTree, "end")
	if _, err := s.out.ReadString(0); err == nil {
		t.Error("the server goes on")
	}
	s.expectGone(t)
}

func TestReaperIsReplaced(t *testing.T) {
	start(t, helper("exit", "0"))
	first := guard.proc.Pid
	start(t, helper("exit", "0"))
	if guard.proc.Pid != first {
		t.Error("a second reaper was started")
	}
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the reaper is dead", func() bool { return !alive(first) })
	start(t, helper("exit", "0"))
	if guard.proc.Pid == first || !alive(guard.proc.Pid) {
		t.Error("the dead reaper was not replaced")
	}
	StopReaper()
	StopReaper()
}

func TestReaperCanBeTurnedOff(t *testing.T) {
	StopReaper()
	spec := helper("exit", "0")
	spec.NoReaper = true
	start(t, spec)
	t.Setenv(noReaperVar, "1")
	start(t, helper("exit", "0"))
	if guard.pipe != nil {
		t.Error("a reaper was started")
	}
}
