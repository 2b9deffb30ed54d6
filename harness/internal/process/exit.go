package process

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// ExitState is how a child ended.
type ExitState struct {
	// Code is the exit status, 0 to 255; -1 if a signal ended the child or the status is unknown.
	Code int
	// Signal is what killed the child; 0 if it exited by itself.
	Signal syscall.Signal
	// CoreDumped tells that the kernel wrote a core file.
	CoreDumped bool
}

// Success reports whether the child exited with status 0.
func (s ExitState) Success() bool { return s.Code == 0 && s.Signal == 0 }

// String says it in words: "exited with status 3", "killed by SIGKILL".
func (s ExitState) String() string {
	switch {
	case s.Signal != 0 && s.CoreDumped:
		return fmt.Sprintf("killed by %s (core dumped)", signalName(s.Signal))
	case s.Signal != 0:
		return "killed by " + signalName(s.Signal)
	case s.Code < 0:
		return "ended with an unknown status"
	}
	return fmt.Sprintf("exited with status %d", s.Code)
}

// Hint says what the status usually means and what to do about it; empty if it means nothing in particular.
func (s ExitState) Hint() string {
	switch {
	case s.Code == 126:
		return "a wrapper script found its command but could not execute it: make the command executable (chmod +x) and check that it is built for this machine"
	case s.Code == 127:
		return "a wrapper script could not find its command, or a shared library is missing: install the command or add its folder to PATH, and read stderr for the name"
	case s.Signal == unix.SIGKILL:
		return "it was killed from outside: if nobody did so, the system was out of memory (see the kernel log); give it more memory or run fewer sessions"
	case s.Signal == unix.SIGSYS, s.Signal == unix.SIGILL:
		return "the program is not fit for this machine (processor or sandbox): install a build for it"
	case s.Code < 0 && s.Signal == 0:
		return "another part of this program waits for all children (wait4(-1)) and took the status: make it wait only for its own"
	}
	return ""
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig))
}
