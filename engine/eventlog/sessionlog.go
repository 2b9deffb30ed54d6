package eventlog

import (
	"container/list"
	"sort"

	"agentserver/protocol"
)

// A sessionLog is one session's entries. All of it is guarded by Store.mu.
type sessionLog struct {
	store *Store
	id    protocol.SessionID

	entries []*Entry // entries[head:] are held; their numbers have no hole
	head    int
	bytes   int64

	last   uint64 // the last number given
	floor  uint64 // the last number given before the session was last opened: replay starts above it
	lost   uint64 // the position of the newest entry that was evicted
	closed bool

	list *list.List // the store's list that the log is in, if any
	elem *list.Element
}

func (l *sessionLog) len() int { return len(l.entries) - l.head }

// held returns the entries that replay may see.
func (l *sessionLog) held() []*Entry {
	all := l.entries[l.head:]
	if len(all) == 0 || all[0].seq > l.floor {
		return all
	}
	return all[min(l.floor+1-all[0].seq, uint64(len(all))):]
}

// after returns the entries whose position is above pos.
func (l *sessionLog) after(pos uint64) []*Entry {
	all := l.entries[l.head:]
	if n := len(all); n > 0 && all[n-1].pos <= pos {
		return nil
	}
	return all[sort.Search(len(all), func(i int) bool { return all[i].pos > pos }):]
}

func (l *sessionLog) push(e *Entry) {
	if l.head > 0 && len(l.entries) == cap(l.entries) && l.head >= len(l.entries)/2 {
		n := copy(l.entries, l.entries[l.head:])
		clear(l.entries[n:])
		l.entries, l.head = l.entries[:n], 0
	}
	l.entries = append(l.entries, e)
	l.bytes += int64(e.size)
}

// pop takes the oldest entry out.
func (l *sessionLog) pop() *Entry {
	e := l.entries[l.head]
	l.entries[l.head] = nil
	l.head++
	l.bytes -= int64(e.size)
	l.lost = e.pos
	if l.head == len(l.entries) {
		l.entries, l.head = nil, 0
	}
	return e
}

// moveTo puts the log at the end of a list, or into none.
func (l *sessionLog) moveTo(to *list.List) {
	switch {
	case l.list == to && to != nil:
		to.MoveToBack(l.elem)
		return
	case l.list != nil:
		l.list.Remove(l.elem)
	}
	l.list, l.elem = to, nil
	if to != nil {
		l.elem = to.PushBack(l)
	}
}
