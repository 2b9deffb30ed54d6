package eventlog

import (
	"container/list"
	"errors"
	"sync"

	"agentserver/protocol"
)

// Errors of the package.
var (
	// ErrUnknown says that the session has no open log.
	ErrUnknown = errors.New("eventlog: the session has no log")
	// ErrClosed says that the store, or the follower, was closed and all that it held was read.
	ErrClosed = errors.New("eventlog: closed")
)

// A Store holds the logs of all sessions of a process. It is safe for concurrent use. Create one with [NewStore].
type Store struct {
	limits Limits

	mu     sync.Mutex // guards everything below, and what their types say; a leaf: nothing is called under it
	logs   map[protocol.SessionID]*sessionLog
	order  order
	pos    uint64 // the last position given
	lost   uint64 // the highest position that was evicted
	bytes  int64
	memory *memory
	closed bool

	quiet list.List // open logs with something to evict, quiet for longest first
	gone  list.List // closed logs that still hold entries, first closed first
	// goneEvents and goneBytes sum up what gone holds.
	goneEvents int
	goneBytes  int64

	wide   []*Follower // followers that may want any session
	narrow map[protocol.SessionID][]*Follower
	idle   int // wide followers that wait
}

// NewStore returns an empty store.
func NewStore(limits Limits) *Store {
	limits = limits.withDefaults()
	return &Store{
		limits: limits,
		logs:   make(map[protocol.SessionID]*sessionLog),
		narrow: make(map[protocol.SessionID][]*Follower),
		memory: newMemory(limits.RememberedSessions),
	}
}

// Open makes sure that the session has an open log. Its numbers go on where they were, if the session had a log before.
func (s *Store) Open(id protocol.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open(id)
}

func (s *Store) open(id protocol.SessionID) *sessionLog {
	l := s.logs[id]
	if l == nil {
		r := s.memory.get(id)
		l = &sessionLog{store: s, id: id, last: r.seq, floor: r.seq, lost: r.lost}
		s.logs[id] = l
	}
	if l.closed {
		l.closed, l.floor = false, l.last
		s.goneEvents -= l.len()
		s.goneBytes -= l.bytes
		s.settle(l)
	}
	return l
}

// Append adds an event to the session's log, opening it if need be, and wakes the followers that wait for it. The event is shared from now on
// and must not be changed. Append never waits for a reader.
func (s *Store) Append(id protocol.SessionID, event protocol.Event) *Entry {
	size := entryOverhead + Estimate(event)
	s.mu.Lock()
	l := s.open(id)
	l.last++
	s.pos++
	e := &Entry{log: l, seq: l.last, pos: s.pos, size: size, event: event}
	l.push(e)
	s.order.push(e)
	s.bytes += int64(size)
	s.settle(l)
	s.enforce(l)
	woken := s.waiting(id)
	s.mu.Unlock()
	wake(woken)
	return e
}

// CloseSession drops the session's log: replay no longer knows it. Followers still get what it held, for as long as that fits the limits of one
// session. It reports whether the log was open.
func (s *Store) CloseSession(id protocol.SessionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[id]
	if l == nil || l.closed {
		return false
	}
	l.closed = true
	s.goneEvents += l.len()
	s.goneBytes += l.bytes
	s.settle(l)
	s.enforce(l)
	return true
}

// Close ends the store: followers read what is held and then get [ErrClosed]. Nothing may be appended afterwards.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	woken := wakeList()
	for _, f := range s.wide {
		woken = f.appendIfIdle(woken)
	}
	for _, all := range s.narrow {
		for _, f := range all {
			woken = f.appendIfIdle(woken)
		}
	}
	s.mu.Unlock()
	wake(woken)
}

// A Page is an answer of [Store.Replay].
type Page struct {
	Entries []*Entry
	// First and Latest are the numbers of the oldest and the newest entry held; both 0 while the log holds none.
	First, Latest uint64
}

// Replay returns the session's entries with a number of at least from, in order, at most limit of them (0 means all). The error is [ErrUnknown].
func (s *Store) Replay(id protocol.SessionID, from uint64, limit int) (Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[id]
	if l == nil || l.closed {
		return Page{}, ErrUnknown
	}
	held := l.held()
	if len(held) == 0 {
		return Page{}, nil
	}
	p := Page{First: held[0].seq, Latest: l.last}
	if from > p.Latest {
		return p, nil
	}
	if from > p.First {
		held = held[from-p.First:]
	}
	if limit > 0 && limit < len(held) {
		held = held[:limit]
	}
	p.Entries = append([]*Entry(nil), held...)
	return p, nil
}

// Range returns the numbers of the oldest and the newest entry that the session's log holds; both 0 while there is none.
func (s *Store) Range(id protocol.SessionID) (first, latest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[id]; l != nil && !l.closed {
		if held := l.held(); len(held) > 0 {
			return held[0].seq, l.last
		}
	}
	return 0, 0
}

// Stats says what a store holds.
type Stats struct {
	Sessions, Events, Followers int
	// Bytes counts the encoded events, and an estimate for those that nobody asked for yet.
	Bytes int64
}

// Stats returns what the store holds.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.wide)
	for _, all := range s.narrow {
		n += len(all)
	}
	return Stats{Sessions: len(s.logs), Events: s.order.live, Followers: n, Bytes: s.bytes}
}

// resize corrects the size of an entry that was encoded.
func (s *Store) resize(e *Entry, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.size < 0 {
		return // evicted meanwhile
	}
	d := int64(size - e.size)
	e.size = size
	e.log.bytes += d
	s.bytes += d
	if e.log.closed {
		s.goneBytes += d
	}
	s.enforce(e.log)
}

// enforce evicts until the limits hold again, after l changed.
func (s *Store) enforce(l *sessionLog) {
	for !l.closed && l.len() > 1 && (l.len() > s.limits.SessionEvents || l.bytes > s.limits.SessionBytes) {
		s.evict(l)
	}
	for s.gone.Len() > 0 && (s.goneEvents > s.limits.SessionEvents || s.goneBytes > s.limits.SessionBytes) {
		s.evict(s.gone.Front().Value.(*sessionLog))
	}
	for s.order.live > s.limits.TotalEvents || s.bytes > s.limits.TotalBytes {
		oldest := s.gone.Front()
		if oldest == nil {
			oldest = s.quiet.Front()
		}
		if oldest == nil {
			return // nothing is left but the newest entry of each session
		}
		s.evict(oldest.Value.(*sessionLog))
	}
}

// evict drops the oldest entry of l.
func (s *Store) evict(l *sessionLog) {
	e := l.pop()
	s.order.remove(e)
	s.bytes -= int64(e.size)
	if l.closed {
		s.goneEvents--
		s.goneBytes -= int64(e.size)
	}
	e.size = -1
	s.lost = max(s.lost, e.pos)
	if l.len() == 0 || !l.closed && l.len() == 1 {
		s.settle(l)
	}
}

// settle puts l into the list where it belongs, at the end. A closed log without entries is forgotten, but for its last number.
func (s *Store) settle(l *sessionLog) {
	switch {
	case l.closed && l.len() == 0:
		l.moveTo(nil)
		s.memory.put(l.id, remnant{seq: l.last, lost: l.lost})
		delete(s.logs, l.id)
	case l.closed:
		l.moveTo(&s.gone)
	case l.len() > 1:
		l.moveTo(&s.quiet)
	default:
		l.moveTo(nil)
	}
}
