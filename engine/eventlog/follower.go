package eventlog

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"agentserver/protocol"
)

// A Follower is a cursor into the process-wide order of appended entries. Next is called by one goroutine; the other methods are safe for
// concurrent use.
type Follower struct {
	store *Store
	// wake has room for one token, which says that Next should look again.
	wake chan struct{}

	// Guarded by Store.mu.
	cursor uint64 // the position of the last entry that was passed
	only   map[protocol.SessionID]bool
	all    bool // the firehose; only does not count
	idle   bool // Next waits for a token
	gap    bool // entries were lost since the last batch
	closed bool

	batch []*Entry // Next's, reused
	heads [][]*Entry
}

// The limits of one batch. Bytes are counted as the store accounts them, and a batch holds at least one entry.
const (
	batchEntries = 256
	batchBytes   = 1 << 20
)

// narrowest is the greatest number of sessions for which a follower is woken by these alone, and reads their logs one by one. With more it is
// woken by every append and passes over what it does not want.
const narrowest = 16

// scanEntries bounds how far one look goes under the lock.
const scanEntries = 4096

// A Batch is what [Follower.Next] returns.
type Batch struct {
	// Entries are in the order in which they were appended. The slice is valid until the next call of Next.
	Entries []*Entry
	// Gap says that entries after the last batch were evicted before they were read. Compare sequence numbers to learn of which sessions.
	Gap bool
}

// Follow returns a follower that gets what is appended from now on, of the given sessions or, with no argument, of all. Close it.
func (s *Store) Follow(only ...protocol.SessionID) *Follower {
	f := &Follower{store: s, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.cursor = s.pos
	f.register(only, len(only) == 0)
	return f
}

// FollowOnly changes which sessions the follower gets, from its cursor on. An empty list means none at all.
func (f *Follower) FollowOnly(sessions []protocol.SessionID) { f.change(sessions, false) }

// FollowAll makes the follower get all sessions, from its cursor on.
func (f *Follower) FollowAll() { f.change(nil, true) }

func (f *Follower) change(only []protocol.SessionID, all bool) {
	s := f.store
	s.mu.Lock()
	if !f.closed {
		f.unregister()
		f.register(only, all)
	}
	s.mu.Unlock()
	f.signal()
}

// Close ends the follower: Next returns [ErrClosed]. It is idempotent.
func (f *Follower) Close() {
	s := f.store
	s.mu.Lock()
	if !f.closed {
		f.unregister()
		f.closed = true
	}
	s.mu.Unlock()
	f.signal()
}

// Next waits for entries and returns all that there are, up to a bound. It returns [ErrClosed] when the follower was closed, or the store was and
// everything was read, and ctx's cause when ctx ends first.
func (f *Follower) Next(ctx context.Context) (Batch, error) {
	for {
		b, err := f.take()
		if err != nil || len(b.Entries) > 0 {
			return b, err
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return Batch{}, context.Cause(ctx)
		}
	}
}

// All yields the entries one by one as rows of their sessions' logs, until ctx ends or the follower is closed, and closes the follower when the
// loop is left. It ends with an error only when ctx ended: its cause. A session whose numbers jump has lost what lies between; see [Store.Replay].
func (f *Follower) All(ctx context.Context) iter.Seq2[protocol.Envelope, error] {
	return func(yield func(protocol.Envelope, error) bool) {
		defer f.Close()
		for {
			b, err := f.Next(ctx)
			if err != nil {
				if !errors.Is(err, ErrClosed) {
					yield(protocol.Envelope{}, err)
				}
				return
			}
			for _, e := range b.Entries {
				if !yield(e.Envelope(), nil) {
					return
				}
			}
		}
	}
}

// take returns what there is. When that is nothing, the follower has been marked as waiting, or a token is there.
func (f *Follower) take() (Batch, error) {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.closed {
		return Batch{}, ErrClosed
	}
	f.setIdle(false)
	clear(f.batch)
	f.batch = f.batch[:0]
	var gap, more bool
	if f.isWide() {
		gap, more = f.takeWide()
	} else {
		gap = f.takeNarrow()
	}
	f.gap = f.gap || gap
	switch {
	case len(f.batch) > 0:
		gap, f.gap = f.gap, false
		return Batch{f.batch, gap}, nil
	case more:
		f.signal() // nothing wanted within reach of one look: go on after letting go of the lock
	case s.closed:
		return Batch{}, ErrClosed
	default:
		f.setIdle(true)
	}
	return Batch{}, nil
}

// takeWide walks the process-wide order. More says that it stopped short of the end.
func (f *Follower) takeWide() (gap, more bool) {
	s := f.store
	gap = s.lost > f.cursor
	slots := s.order.slots[s.order.after(f.cursor):]
	bytes := 0
	for i, sl := range slots {
		if i == scanEntries || len(f.batch) == batchEntries || bytes >= batchBytes {
			return gap, true
		}
		f.cursor = sl.pos
		if e := sl.entry; e != nil && (f.all || f.only[e.log.id]) {
			f.batch = append(f.batch, e)
			bytes += e.size
		}
	}
	f.cursor = s.pos
	return gap, false
}

// takeNarrow merges the logs of the few sessions that are wanted.
func (f *Follower) takeNarrow() (gap bool) {
	s := f.store
	f.heads = f.heads[:0]
	for id := range f.only {
		l := s.logs[id]
		if l == nil {
			gap = gap || s.memory.get(id).lost > f.cursor
		} else {
			gap = gap || l.lost > f.cursor
			if rest := l.after(f.cursor); len(rest) > 0 {
				f.heads = append(f.heads, rest)
			}
		}
	}
	bytes := 0
	for len(f.heads) > 0 && len(f.batch) < batchEntries && bytes < batchBytes {
		first := 0
		for i := range f.heads {
			if f.heads[i][0].pos < f.heads[first][0].pos {
				first = i
			}
		}
		e := f.heads[first][0]
		f.batch = append(f.batch, e)
		f.cursor = e.pos
		bytes += e.size
		if f.heads[first] = f.heads[first][1:]; len(f.heads[first]) == 0 {
			f.heads = slices.Delete(f.heads, first, first+1)
		}
	}
	if len(f.heads) == 0 {
		f.cursor = s.pos
	}
	clear(f.heads)
	return gap
}

func (f *Follower) isWide() bool { return f.all || len(f.only) > narrowest }

// register and unregister are called with the store locked.
func (f *Follower) register(only []protocol.SessionID, all bool) {
	s := f.store
	f.all, f.only = all, make(map[protocol.SessionID]bool, len(only))
	for _, id := range only {
		f.only[id] = true
	}
	if f.isWide() {
		s.wide = append(s.wide, f)
		return
	}
	for id := range f.only {
		s.narrow[id] = append(s.narrow[id], f)
	}
}

func (f *Follower) unregister() {
	s := f.store
	f.setIdle(false)
	if f.isWide() {
		s.wide = without(s.wide, f)
		return
	}
	for id := range f.only {
		if rest := without(s.narrow[id], f); len(rest) > 0 {
			s.narrow[id] = rest
		} else {
			delete(s.narrow, id)
		}
	}
}

func without(all []*Follower, f *Follower) []*Follower {
	if i := slices.Index(all, f); i >= 0 {
		return slices.Delete(all, i, i+1)
	}
	return all
}

// setIdle is called with the store locked.
func (f *Follower) setIdle(idle bool) {
	if f.idle == idle {
		return
	}
	f.idle = idle
	if f.isWide() {
		if idle {
			f.store.idle++
		} else {
			f.store.idle--
		}
	}
}

// signal leaves a token for Next.
func (f *Follower) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// waiting returns the followers to wake for an entry of session id, and counts them as woken. It is called with the store locked; the channels
// are touched after it was let go.
func (s *Store) waiting(id protocol.SessionID) *[]*Follower {
	narrow := s.narrow[id]
	if s.idle == 0 && len(narrow) == 0 {
		return nil
	}
	woken := wakeList()
	if s.idle > 0 {
		for _, f := range s.wide {
			woken = f.appendIfIdle(woken)
		}
	}
	for _, f := range narrow {
		woken = f.appendIfIdle(woken)
	}
	return woken
}

func (f *Follower) appendIfIdle(to *[]*Follower) *[]*Follower {
	if f.idle {
		f.setIdle(false)
		*to = append(*to, f)
	}
	return to
}

var wakeLists = sync.Pool{New: func() any { return new([]*Follower) }}

func wakeList() *[]*Follower { return wakeLists.Get().(*[]*Follower) }

func wake(woken *[]*Follower) {
	if woken == nil {
		return
	}
	for _, f := range *woken {
		f.signal()
	}
	clear(*woken)
	*woken = (*woken)[:0]
	wakeLists.Put(woken)
}
