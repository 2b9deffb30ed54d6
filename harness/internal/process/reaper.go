package process

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// reaperVar carries the instance to clean up after, and marks the process as a reaper together with reaperName in argv[0].
	reaperVar  = "AGENT_SERVER_REAPER"
	reaperName = "agent-server-reaper"
	// noReaperVar, if it is set to anything, turns the reaper off.
	noReaperVar = "AGENT_SERVER_NO_REAPER"
	// reaperPipe is the file descriptor on which the reaper waits.
	reaperPipe = 3
	// reapBudget bounds the work of the reaper.
	reapBudget = 10 * time.Second
)

// init is where a reaper's life begins and ends: this program, executed again, never reaches main. There is no other way to have a second process
// of a single static binary; container runtimes do the same.
func init() {
	if id := os.Getenv(reaperVar); id != "" && len(os.Args) > 0 && os.Args[0] == reaperName {
		os.Exit(reap(id))
	}
}

// reap waits for the end of the pipe, which the kernel brings about however the server ends, and kills every process of that instance.
func reap(id string) int {
	// What ends a server ends its reaper too early: only the pipe counts.
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2)
	var b [64]byte
	for {
		n, err := unix.Read(reaperPipe, b[:])
		if n == 0 || err != nil && err != unix.EINTR {
			break
		}
	}
	prefix := []byte(id + "-")
	t := &tree{
		match: func(element []byte) bool { return bytes.HasPrefix(element, prefix) },
		known: map[int]uint64{},
		// No memory of strangers: a child that the server was starting still has the server's environment.
	}
	if t.kill(time.Now().Add(reapBudget)) != nil {
		return 1
	}
	return 0
}

// guard is this program's reaper.
var guard reaper

// A reaper is the server's side of the reaper process.
type reaper struct {
	mu     sync.Mutex
	pipe   *os.File // its closing, by us or by the kernel, sets the reaper off
	proc   *os.Process
	warned bool
}

// ensure starts the reaper if there is none, or if it has died. Failure is logged once: children run without that protection then.
func (r *reaper) ensure(log *slog.Logger) {
	if os.Getenv(noReaperVar) != "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pipe != nil {
		if r.alive() {
			return
		}
		r.stop()
	}
	if err := r.start(); err != nil && !r.warned {
		r.warned = true
		log.Warn("no reaper: agents would outlive a server that is killed with SIGKILL; set "+noReaperVar+"=1 to silence this", "error", err)
	}
}

// alive reports whether the other end of the pipe is still open.
func (r *reaper) alive() bool {
	ok := true
	raw, err := r.pipe.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, 0)
		ok = err != nil || n == 0 || fds[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) == 0
	})
	return ok
}

func (r *reaper) start() error {
	self, err := selfPath()
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	read, write, err := os.Pipe() // close-on-exec: no child can hold the write end
	if err != nil {
		return err
	}
	defer read.Close()
	proc, err := os.StartProcess(self, []string{reaperName}, &os.ProcAttr{
		Dir:   "/",
		Env:   reaperEnv(),
		Files: []*os.File{null, null, null, read},
		Sys:   &syscall.SysProcAttr{Setsid: true}, // out of reach of signals to the server's group and terminal
	})
	if err != nil {
		_ = write.Close()
		return fmt.Errorf("start %s again: %w", self, err)
	}
	r.pipe, r.proc = write, proc
	return nil
}

// reaperEnv is next to nothing, and asks the runtime to stay small. An outer server's marker stays: it sweeps this reaper with the rest.
func reaperEnv() []string {
	env := []string{reaperVar + "=" + instanceID(), "GOMAXPROCS=1", "GOGC=20", "GOTRACEBACK=none"}
	if outer := os.Getenv(markerVar); outer != "" {
		env = append(env, markerVar+"="+outer)
	}
	return env
}

func selfPath() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil // right even if the file was replaced by an upgrade
	}
	return os.Executable()
}

// stop ends the reaper and waits for it.
func (r *reaper) stop() {
	_ = r.pipe.Close()
	_, _ = r.proc.Wait()
	r.pipe, r.proc = nil, nil
}

// StopReaper ends this program's reaper and waits for it. There is no need to call it: the reaper ends with the program. It kills what still
// carries this program's marker, so close all processes first. A later [Start] starts a new one.
func StopReaper() {
	guard.mu.Lock()
	defer guard.mu.Unlock()
	if guard.pipe != nil {
		guard.stop()
	}
}
