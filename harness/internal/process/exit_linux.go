package process

import (
	"errors"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Values of si_code for SIGCHLD, see waitid(2).
const (
	cldExited = 1
	cldDumped = 3
)

// awaitExit blocks until the child has ended and leaves it a zombie: its pid, and with it the id of its group, stays taken until the tree
// has been swept, so that no signal of ours can reach a stranger.
func awaitExit(cmd *exec.Cmd) (state ExitState, reaped bool) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			return decodeSiginfo(&info), false
		}
		if !errors.Is(err, unix.EINTR) {
			// ECHILD: somebody else in this process reaped it. Wait still has to be called, to release what os/exec holds.
			_ = cmd.Wait()
			return ExitState{Code: -1}, true
		}
	}
}

// decodeSiginfo reads si_status, which x/sys leaves unnamed: it follows si_pid and si_uid, which the 64-bit layout aligns to 8.
func decodeSiginfo(info *unix.Siginfo) ExitState {
	words := (*[unsafe.Sizeof(*info) / 4]int32)(unsafe.Pointer(info))
	at := 5
	if unsafe.Sizeof(uintptr(0)) == 8 {
		at = 6
	}
	status := int(words[at])
	if info.Code == cldExited {
		return ExitState{Code: status}
	}
	return ExitState{Code: -1, Signal: syscall.Signal(status), CoreDumped: info.Code == cldDumped}
}
