package process

import (
	"golang.org/x/sys/unix"
)

// rootPidHeld: the child is reaped when it ends, so the number of its group may be recycled.
const rootPidHeld = false

// ioctlInQueue is FIONREAD, which x/sys does not name here: how many bytes a pipe holds.
const ioctlInQueue = 0x4004667f

// zombieState is SZOMB of sys/proc.h.
const zombieState = 5

// processTable asks the kernel for the processes of this user.
func processTable() ([]proc, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.uid", unix.Getuid())
	if err != nil {
		return nil, err
	}
	table := make([]proc, 0, len(list))
	for i := range list {
		table = append(table, rowOf(&list[i]))
	}
	return table, nil
}

// readProc reads one row; an error means that the process is gone, or a shortage.
func readProc(pid int) (proc, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return proc{}, err
	}
	if int(k.Proc.P_pid) != pid {
		return proc{}, unix.ESRCH
	}
	return rowOf(k), nil
}

func rowOf(k *unix.KinfoProc) proc {
	start := k.Proc.P_starttime
	return proc{
		pid:   int(k.Proc.P_pid),
		ppid:  int(k.Eproc.Ppid),
		pgrp:  int(k.Eproc.Pgid),
		start: uint64(start.Sec)*1_000_000 + uint64(start.Usec),
		dead:  k.Proc.P_stat == zombieState,
	}
}

// readEnviron returns the arguments and environment of a process, as far as the system shows them: not for protected programs.
func readEnviron(pid int, _ []byte) ([]byte, error) {
	return unix.SysctlRaw("kern.procargs2", pid)
}

// programOf is not told here.
func programOf(int) string { return "" }

// signalProc sends sig to the process that was scanned. It reports whether that was still there.
func signalProc(p proc, sig unix.Signal) bool {
	now, err := readProc(p.pid)
	return err == nil && now.start == p.start && unix.Kill(p.pid, sig) == nil
}
