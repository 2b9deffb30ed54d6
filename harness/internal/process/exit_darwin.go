package process

import (
	"os/exec"
	"syscall"
)

// awaitExit blocks until the child has ended, and reaps it.
func awaitExit(cmd *exec.Cmd) (state ExitState, reaped bool) {
	_ = cmd.Wait()
	if cmd.ProcessState == nil {
		return ExitState{Code: -1}, true
	}
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return ExitState{Code: cmd.ProcessState.ExitCode()}, true
	case ws.Signaled():
		return ExitState{Code: -1, Signal: ws.Signal(), CoreDumped: ws.CoreDump()}, true
	}
	return ExitState{Code: ws.ExitStatus()}, true
}
