package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sweepBudget bounds one kill of a tree. It ends in milliseconds unless a process cannot be killed.
	sweepBudget = 5 * time.Second
	// maxPause bounds the pause between two scans of a sweep.
	maxPause = 20 * time.Millisecond
)

// SurvivorsError reports processes that outlived SIGKILL for the whole budget of a sweep: stuck in the kernel, or not ours to kill.
type SurvivorsError struct {
	Pids []int
}

// Error names the pids and says what to do.
func (e *SurvivorsError) Error() string {
	return fmt.Sprintf("process: %d processes survived SIGKILL for %v (pids %v): they wait in the kernel, or run as another user; check disks and network mounts, and kill them by hand",
		len(e.Pids), sweepBudget, e.Pids)
}

// proc is one row of the system's process table. pid and start together name a process for ever.
type proc struct {
	pid, ppid, pgrp, session int
	start                    uint64 // opaque, grows with time
	dead                     bool   // a zombie: it runs no more and cannot be killed
}

// A tree finds and kills the processes that belong together. It remembers every process it has ever taken for a member, so that those which lose
// their parent later are still known.
type tree struct {
	mu        sync.Mutex
	root      proc                      // pid 0: the tree has no root, only marks
	match     func(element []byte) bool // of a marker element
	known     map[int]uint64            // pid → start of members, dead ones included
	strangers map[int]uint64            // pid → start of processes whose environment is not ours; nil: do not remember
	buf       []byte                    // for environments
	err       error                     // what kept the running scan from seeing all
}

// newTree returns the tree of the child pid, which has just been started and not yet been reaped.
func newTree(pid int, marker string) *tree {
	element := []byte(ownMarker(marker))
	t := &tree{
		match:     func(e []byte) bool { return bytes.Equal(e, element) },
		known:     map[int]uint64{},
		strangers: map[int]uint64{},
	}
	t.root = proc{pid: pid}
	if row, err := readProc(pid); err == nil {
		t.root = row
	}
	t.known[pid] = t.root.start
	return t
}

// kill ends every member, repeating until two scans in a row find none: one scan is not atomic, and a process that forks may slip through it.
func (t *tree) kill(deadline time.Time) error {
	pause := time.Millisecond
	for quiet := 0; ; {
		before := t.size()
		members, err := t.scan()
		if err != nil && (!isShortage(err) || time.Now().After(deadline)) {
			return err
		}
		if err == nil && len(members) == 0 {
			if quiet++; quiet == 2 {
				return nil
			}
			pause = time.Millisecond
		} else {
			quiet = 0
			t.signal(members, unix.SIGKILL)
		}
		if time.Now().After(deadline) {
			return survivors(members)
		}
		if t.size() > before {
			pause = time.Millisecond / 2 // it still forks: outrun it
		}
		time.Sleep(pause)
		pause = min(2*pause, maxPause)
	}
}

// terminate asks the members to end with SIGTERM and waits until they have, at most for grace.
func (t *tree) terminate(grace time.Duration, hurry <-chan struct{}) {
	members, err := t.scan()
	if err != nil || len(members) == 0 {
		return
	}
	t.signal(members, unix.SIGTERM)
	for deadline := time.Now().Add(grace); time.Now().Before(deadline); {
		select {
		case <-hurry:
			return
		case <-time.After(maxPause / 2):
		}
		if members, err = t.scan(); err != nil || len(members) == 0 {
			return
		}
	}
}

// signal sends sig to each member, if it is still the process that was scanned, and with SIGKILL to its process group as well: a group cannot
// outrun the signal by forking.
func (t *tree) signal(members []proc, sig syscall.Signal) {
	self := os.Getpid()
	ownGroup := unix.Getpgrp()
	groups := map[int]bool{}
	for _, m := range members {
		if m.pid == self || !signalProc(m, sig) {
			continue
		}
		if sig == unix.SIGKILL && m.pgrp > 1 && m.pgrp != ownGroup && !groups[m.pgrp] && t.knows(m.pgrp) {
			groups[m.pgrp] = true
			_ = unix.Kill(-m.pgrp, sig)
		}
	}
}

func (t *tree) knows(pid int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.known[pid]
	return ok
}

func (t *tree) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known)
}

// scan returns the living members. Dead ones that this process has inherited, as pid 1 of a container does, are reaped on the way.
func (t *tree) scan() ([]proc, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	table, err := processTable()
	if err != nil {
		return nil, fmt.Errorf("process: read the process table, children may remain: %w", err)
	}
	t.err = nil
	self := os.Getpid()
	rows := make(map[int]*proc, len(table))
	in := make(map[int]bool)
	for i := range table {
		row := &table[i]
		rows[row.pid] = row
		if t.eligible(row, self) && (t.isKnown(row) || t.inRootGroup(row) || t.marked(row)) {
			in[row.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for i := range table {
			row := &table[i]
			if !in[row.pid] && t.eligible(row, self) && (in[row.ppid] || t.inMemberSession(row, rows, in)) {
				in[row.pid], grown = true, true
			}
		}
	}
	var members []proc
	for i := range table {
		row := &table[i]
		switch {
		case !in[row.pid]:
			continue
		case !row.dead:
			members = append(members, *row)
		case row.ppid == self && row.pid != t.root.pid:
			_, _ = unix.Wait4(row.pid, nil, unix.WNOHANG, nil)
		}
		t.known[row.pid] = row.start
	}
	return members, t.err
}

// isShortage reports whether the system lacks something, such as file descriptors, that it may have again in a moment.
func isShortage(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EAGAIN)
}

// eligible rules out what cannot be a member: this process, the system's first, and what is older than the root.
func (t *tree) eligible(row *proc, self int) bool {
	return row.pid > 1 && row.pid != self && row.start >= t.root.start
}

func (t *tree) isKnown(row *proc) bool {
	start, ok := t.known[row.pid]
	return ok && start == row.start
}

// inRootGroup reports whether the process is in the group or session that the child leads, or led.
func (t *tree) inRootGroup(row *proc) bool {
	return t.root.pid > 1 && rootPidHeld && (row.pgrp == t.root.pid || row.session == t.root.pid)
}

// inMemberSession reports whether the row is in a session or group that a member leads or led. A number that a stranger has taken over since does not count.
func (t *tree) inMemberSession(row *proc, rows map[int]*proc, in map[int]bool) bool {
	for _, id := range [2]int{row.session, row.pgrp} {
		start, ok := t.known[id]
		if !ok && !in[id] {
			continue
		}
		leader, exists := rows[id]
		if !exists && ok || exists && (in[id] || leader.start == start) {
			return true
		}
	}
	return false
}

// marked reports whether the process carries this tree's marker. What it read is remembered: a stranger cannot become a member.
func (t *tree) marked(row *proc) bool {
	if row.dead {
		return false
	}
	if start, ok := t.strangers[row.pid]; ok && start == row.start {
		return false
	}
	var err error
	if t.buf, err = readEnviron(row.pid, t.buf); isShortage(err) {
		t.err = err
	}
	if len(t.buf) == 0 {
		return false // not ours to read, a kernel thread, or in the middle of an exec: the next scan sees it
	}
	if environHas(t.buf, t.match) {
		return true
	}
	if t.strangers != nil {
		t.strangers[row.pid] = row.start
	}
	return false
}

func survivors(members []proc) error {
	if len(members) == 0 {
		return nil // the budget ended between two clean scans
	}
	e := &SurvivorsError{}
	for _, m := range members {
		e.Pids = append(e.Pids, m.pid)
	}
	return e
}
