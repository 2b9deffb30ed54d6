package process

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// rootPidHeld: a dead child stays a zombie until its tree has been swept, so the number of its group cannot be recycled.
const rootPidHeld = true

// maxEnviron bounds what is read of one environment; the kernel's own limit for arguments and environment is about 2 MiB.
const maxEnviron = 4 << 20

// ioctlInQueue asks how many bytes a pipe holds.
const ioctlInQueue = unix.TIOCINQ

// processTable reads /proc. Processes that end meanwhile are left out.
func processTable() ([]proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	table := make([]proc, 0, len(names))
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		row, err := readProc(pid)
		if isShortage(err) {
			return nil, err // it would look like a process that is gone
		}
		if err == nil && row.ppid != kthreadd && pid != kthreadd {
			table = append(table, row)
		}
	}
	return table, nil
}

// kthreadd is the parent of all kernel threads, in the first pid namespace. Elsewhere pid 2 is an ordinary process, see readProc.
var kthreadd = func() int {
	comm, err := os.ReadFile("/proc/2/comm")
	if err == nil && string(bytes.TrimSpace(comm)) == "kthreadd" {
		return 2
	}
	return -1
}()

// readProc reads one row; an error means that the process is gone, or a shortage.
func readProc(pid int) (proc, error) {
	var buf [1024]byte
	stat, err := readInto("/proc/"+strconv.Itoa(pid)+"/stat", buf[:0], len(buf))
	if err != nil {
		return proc{}, err
	}
	if row, ok := parseStat(pid, stat); ok {
		return row, nil
	}
	return proc{}, unix.ESRCH
}

// parseStat reads the fields of /proc/PID/stat, see proc_pid_stat(5). The command name, in parentheses, may hold anything, parentheses included.
func parseStat(pid int, stat []byte) (row proc, ok bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return proc{}, false
	}
	f := bytes.Fields(stat[end+1:])
	const state, ppid, pgrp, session, threads, start = 0, 1, 2, 3, 17, 19
	if len(f) <= start {
		return proc{}, false
	}
	number := func(i int) int {
		n, err := strconv.Atoi(string(f[i]))
		if err != nil {
			ok = false
		}
		return n
	}
	ok = true
	row = proc{pid: pid, ppid: number(ppid), pgrp: number(pgrp), session: number(session)}
	row.start, _ = strconv.ParseUint(string(f[start]), 10, 64)
	// A process whose first thread has ended shows as a zombie while its other threads run on.
	row.dead = (f[state][0] == 'Z' || f[state][0] == 'X') && number(threads) <= 1
	return row, ok
}

// readEnviron reads the environment that the process was started with into buf; empty if it may not be read.
func readEnviron(pid int, buf []byte) ([]byte, error) {
	return readInto("/proc/"+strconv.Itoa(pid)+"/environ", buf[:0], maxEnviron)
}

// programOf returns the name under which a process was started: the last element of argv[0]; "" when it is gone.
func programOf(pid int) string {
	var buf [1024]byte
	line, err := readInto("/proc/"+strconv.Itoa(pid)+"/cmdline", buf[:0], len(buf))
	if err != nil {
		return ""
	}
	name, _, _ := bytes.Cut(line, []byte{0})
	return string(name[bytes.LastIndexByte(name, '/')+1:])
}

// readInto reads a file of /proc with plain system calls: os.File would register each with the poller.
func readInto(path string, buf []byte, limit int) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return buf[:0], err
	}
	defer unix.Close(fd)
	for len(buf) < limit {
		if len(buf) == cap(buf) {
			buf = append(buf, make([]byte, max(4096, cap(buf)))...)[:len(buf)]
		}
		n, err := unix.Read(fd, buf[len(buf):min(cap(buf), limit)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return buf, err
		}
		if n <= 0 {
			break
		}
		buf = buf[:len(buf)+n]
	}
	return buf, nil
}

// signalProc sends sig to the process that was scanned, never to one that took its pid since. It reports whether that was still there.
func signalProc(p proc, sig unix.Signal) bool {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) {
		return false
	}
	held := err == nil
	if held {
		defer unix.Close(fd)
	}
	if now, err := readProc(p.pid); err != nil || now.start != p.start {
		return false
	}
	if held {
		if err = unix.PidfdSendSignal(fd, sig, nil, 0); err == nil || errors.Is(err, unix.ESRCH) {
			return err == nil
		}
	}
	return unix.Kill(p.pid, sig) == nil // an old kernel, a sandbox or no file descriptors: the check above must do
}
