package eventlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"agentserver/engine/eventlog"
	"agentserver/protocol"
)

// TestModel compares a store with a simple one, over random appends, closes, limits and followers.
func TestModel(t *testing.T) {
	for seed := range 60 {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		limits := eventlog.Limits{SessionEvents: 1 + r.IntN(20), TotalEvents: 5 + r.IntN(60)}
		s := eventlog.NewStore(limits)
		last := map[protocol.SessionID]uint64{}
		var followers []*tracker
		for step := range 2000 {
			id := protocol.SessionID(fmt.Sprint("s", r.IntN(6)))
			switch r.IntN(20) {
			case 0:
				s.CloseSession(id)
			case 1:
				if len(followers) < 8 {
					followers = append(followers, newTracker(s, r))
				}
			case 2, 3:
				for _, f := range followers {
					if r.IntN(2) == 0 {
						f.read(t)
					}
				}
			case 4:
				p, err := s.Replay(id, 1+uint64(r.IntN(50)), r.IntN(5))
				if err != nil {
					continue
				}
				for i, e := range p.Entries {
					if e.SessionID() != id || e.Seq() != p.Entries[0].Seq()+uint64(i) || e.Seq() < p.First || e.Seq() > last[id] {
						t.Fatalf("seed %d step %d: replay %+v", seed, step, p)
					}
				}
			default:
				e := s.Append(id, event(id, ""))
				if last[id]++; e.Seq() != last[id] {
					t.Fatalf("seed %d step %d: number %d, want %d", seed, step, e.Seq(), last[id])
				}
				if r.IntN(3) == 0 {
					e.Frame()
				}
				if n := s.Stats().Events; n > max(limits.TotalEvents, 6) {
					t.Fatalf("seed %d step %d: %d events", seed, step, n)
				}
			}
		}
		for _, f := range followers {
			f.read(t)
			f.checkEnd(t, s)
		}
	}
}

// A tracker is a follower that checks what it gets.
type tracker struct {
	f    *eventlog.Follower
	only map[protocol.SessionID]bool
	seen map[protocol.SessionID]uint64
	gaps map[protocol.SessionID]bool // a gap was told since the session's last entry
}

func newTracker(s *eventlog.Store, r *rand.Rand) *tracker {
	tr := &tracker{only: map[protocol.SessionID]bool{}, seen: map[protocol.SessionID]uint64{}, gaps: map[protocol.SessionID]bool{}}
	var ids []protocol.SessionID
	for i := range r.IntN(4) {
		id := protocol.SessionID(fmt.Sprint("s", i))
		ids = append(ids, id)
		tr.only[id] = true
	}
	tr.f = s.Follow(ids...)
	for i := range 6 {
		id := protocol.SessionID(fmt.Sprint("s", i))
		tr.seen[id] = 0
	}
	return tr
}

func (tr *tracker) read(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for {
		b, err := tr.f.Next(ctx)
		if err != nil {
			return
		}
		for id := range tr.seen {
			tr.gaps[id] = tr.gaps[id] || b.Gap
		}
		for _, e := range b.Entries {
			id, before := e.SessionID(), tr.seen[e.SessionID()]
			switch {
			case len(tr.only) > 0 && !tr.only[id]:
				t.Fatalf("got an entry of %s", id)
			case e.Seq() <= before:
				t.Fatalf("%s went from %d to %d", id, before, e.Seq())
			case e.Seq() != before+1 && before != 0 && !tr.gaps[id]:
				t.Fatalf("%s jumped from %d to %d without a gap", id, before, e.Seq())
			}
			tr.seen[id] = e.Seq()
			delete(tr.gaps, id)
		}
	}
}

// checkEnd makes sure that nothing that is held was passed over.
func (tr *tracker) checkEnd(t *testing.T, s *eventlog.Store) {
	t.Helper()
	for id, seen := range tr.seen {
		if _, latest := s.Range(id); seen != 0 && (len(tr.only) == 0 || tr.only[id]) && latest > seen {
			t.Errorf("%s ended at %d of %d", id, seen, latest)
		}
	}
}

// TestManyFollowersAndAppenders is for the race detector: nothing is lost, doubled or out of order while all run at once.
func TestManyFollowersAndAppenders(t *testing.T) {
	const sessions, events = 4, 500
	s := eventlog.NewStore(eventlog.Limits{})
	var readers, writers sync.WaitGroup
	for i := range 12 {
		var f *eventlog.Follower
		total := sessions * events
		if i%2 == 0 {
			f = s.Follow()
		} else {
			f = s.Follow("s1")
			total = events
		}
		readers.Go(func() {
			defer f.Close()
			seen := map[protocol.SessionID]uint64{}
			for n := 0; n < total; {
				b, err := f.Next(t.Context())
				if err != nil || b.Gap {
					t.Errorf("gap %v, %v", b.Gap, err)
					return
				}
				for _, e := range b.Entries {
					if e.Seq() != seen[e.SessionID()]+1 || len(e.Frame()) == 0 {
						t.Errorf("%s/%d after %d", e.SessionID(), e.Seq(), seen[e.SessionID()])
					}
					seen[e.SessionID()] = e.Seq()
				}
				n += len(b.Entries)
			}
		})
	}
	for i := range sessions {
		id := protocol.SessionID(fmt.Sprint("s", i))
		writers.Go(func() {
			for range events {
				s.Append(id, event(id, "x"))
			}
		})
	}
	writers.Wait()
	readers.Wait()
}
