package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/engine/eventlog"
	"agentserver/protocol"
)

// event is a notice with a text, for tests that compare texts.
func event(session protocol.SessionID, text string) protocol.Event {
	return &protocol.SessionNotice{EventHeader: protocol.EventHeader{SessionID: session, Timestamp: 1}, Kind: protocol.NoticeWarning, Message: text}
}

func textOf(e *eventlog.Entry) string { return e.Event().(*protocol.SessionNotice).Message }

// read returns "session/seq text" of all that a follower can have now.
func read(t *testing.T, f *eventlog.Follower) (rows []string, gap bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for {
		b, err := f.Next(ctx)
		gap = gap || b.Gap
		if err != nil {
			return rows, gap
		}
		for _, e := range b.Entries {
			rows = append(rows, fmt.Sprintf("%s/%d %s", e.SessionID(), e.Seq(), textOf(e)))
		}
	}
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestFollowersGetWhatIsAppendedFromNowOn(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{})
	s.Append("a", event("a", "before"))
	all, only, none := s.Follow(), s.Follow("b", "c"), s.Follow("x")
	s.Append("a", event("a", "1"))
	s.Append("b", event("b", "2"))
	s.Append("c", event("c", "3"))
	s.Append("b", event("b", "4"))
	rows, gap := read(t, all)
	want(t, rows, "a/2 1", "b/1 2", "c/1 3", "b/2 4")
	more, gap2 := read(t, only)
	want(t, more, "b/1 2", "c/1 3", "b/2 4")
	if gap || gap2 {
		t.Error("a gap that is none")
	}
	rows, _ = read(t, none)
	want(t, rows)
}

func TestFilterChangesFromTheCursorOn(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{})
	f := s.Follow()
	s.Append("a", event("a", "1"))
	f.FollowOnly([]protocol.SessionID{"b"})
	s.Append("b", event("b", "2"))
	rows, _ := read(t, f)
	want(t, rows, "b/1 2")
	f.FollowOnly(nil)
	s.Append("b", event("b", "3"))
	rows, _ = read(t, f)
	want(t, rows)
	f.FollowAll()
	s.Append("a", event("a", "4"))
	rows, _ = read(t, f)
	want(t, rows, "a/2 4")
	many := []protocol.SessionID{"a"}
	for i := range 100 {
		many = append(many, protocol.SessionID(fmt.Sprint("s", i)))
	}
	f.FollowOnly(many)
	s.Append("b", event("b", "no"))
	s.Append("s7", event("s7", "5"))
	s.Append("a", event("a", "6"))
	rows, _ = read(t, f)
	want(t, rows, "s7/1 5", "a/3 6")
}

func TestWaitingFollowersAreWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventlog.NewStore(eventlog.Limits{})
		var wg sync.WaitGroup
		for _, f := range []*eventlog.Follower{s.Follow(), s.Follow("a"), s.Follow()} {
			wg.Go(func() {
				defer f.Close()
				for i := range 3 {
					b, err := f.Next(t.Context())
					if err != nil || len(b.Entries) != 1 || textOf(b.Entries[0]) != fmt.Sprint(i) {
						t.Errorf("got %v, %v", b.Entries, err)
					}
				}
			})
		}
		other := s.Follow("b")
		for i := range 3 {
			synctest.Wait()
			s.Append("a", event("a", fmt.Sprint(i)))
		}
		wg.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := other.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the follower of another session: %v", err)
		}
	})
}

func TestClosedFollowerAndClosedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventlog.NewStore(eventlog.Limits{})
		f, g := s.Follow(), s.Follow("a")
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := f.Next(t.Context()); !errors.Is(err, eventlog.ErrClosed) {
				t.Errorf("closed while it waits: %v", err)
			}
		})
		synctest.Wait()
		f.Close()
		f.Close()
		wg.Wait()
		s.Append("a", event("a", "1"))
		s.Close()
		rows, _ := read(t, g)
		want(t, rows, "a/1 1")
		if _, err := g.Next(t.Context()); !errors.Is(err, eventlog.ErrClosed) {
			t.Errorf("a store that was closed and read: %v", err)
		}
		if n := s.Stats().Followers; n != 1 {
			t.Errorf("%d followers", n)
		}
	})
}

func TestSessionIsBoundedInEvents(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{SessionEvents: 3})
	f := s.Follow()
	for i := range 10 {
		s.Append("a", event("a", fmt.Sprint(i)))
	}
	rows, gap := read(t, f)
	want(t, rows, "a/8 7", "a/9 8", "a/10 9")
	if !gap {
		t.Error("the gap was not told")
	}
	s.Append("a", event("a", "x"))
	if _, gap = read(t, f); gap {
		t.Error("the same gap was told twice")
	}
	p, err := s.Replay("a", 1, 0)
	if err != nil || p.First != 9 || p.Latest != 11 || len(p.Entries) != 3 {
		t.Errorf("replay: %+v, %v", p, err)
	}
}

func TestSessionIsBoundedInBytes(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{SessionBytes: 10_000})
	s.Append("a", event("a", "small"))
	s.Append("a", event("a", strings.Repeat("x", 50_000)))
	if p, _ := s.Replay("a", 1, 0); len(p.Entries) != 1 || p.First != 2 {
		t.Errorf("the newest alone must stay: %+v", p)
	}
	s.Append("a", event("a", "small"))
	if p, _ := s.Replay("a", 1, 0); len(p.Entries) != 1 || p.First != 3 {
		t.Errorf("the large one must go: %+v", p)
	}
}

func TestSizeIsCorrectedWhenAnEventIsEncoded(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{SessionBytes: 100_000})
	control := strings.Repeat("\x01", 10_000) // six times as long in JSON
	e := s.Append("a", event("a", control))
	s.Append("a", event("a", control))
	e.Frame()
	if n := s.Stats().Bytes; n < 70_000 {
		t.Errorf("accounted %d bytes", n)
	}
	p, _ := s.Replay("a", 1, 0)
	p.Entries[1].Frame()
	if p, _ = s.Replay("a", 1, 0); p.First != 2 {
		t.Errorf("the limit does not hold: first %d, %d bytes", p.First, s.Stats().Bytes)
	}
}

func TestProcessIsBounded(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{TotalEvents: 10})
	for i := range 4 {
		s.Append("quiet", event("quiet", fmt.Sprint(i)))
	}
	for i := range 4 {
		s.Append("closed", event("closed", fmt.Sprint(i)))
	}
	s.CloseSession("closed")
	for i := range 5 {
		s.Append("busy", event("busy", fmt.Sprint(i)))
	}
	if p, _ := s.Replay("quiet", 1, 0); len(p.Entries) != 4 {
		t.Errorf("the closed session must go first: quiet has %d", len(p.Entries))
	}
	for i := range 20 {
		s.Append("busy", event("busy", fmt.Sprint(i)))
	}
	p, _ := s.Replay("quiet", 1, 0)
	if len(p.Entries) != 1 || p.First != 4 {
		t.Errorf("the newest of the quiet one must stay: %+v", p)
	}
	if p, _ = s.Replay("busy", 1, 0); len(p.Entries) != 9 {
		t.Errorf("busy has %d", len(p.Entries))
	}
	if st := s.Stats(); st.Events != 10 || st.Sessions != 2 {
		t.Errorf("got %+v", st)
	}
}

func TestClosedSessionIsReadToItsEndAndThenForgotten(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{SessionEvents: 4})
	all, only := s.Follow(), s.Follow("a")
	s.Append("a", event("a", "1"))
	s.Append("a", event("a", "2"))
	if !s.CloseSession("a") || s.CloseSession("a") {
		t.Error("close must report whether the log was open")
	}
	if _, err := s.Replay("a", 1, 0); !errors.Is(err, eventlog.ErrUnknown) {
		t.Errorf("replay: %v", err)
	}
	rows, _ := read(t, all)
	want(t, rows, "a/1 1", "a/2 2")
	s.Append("a", event("a", "3"))
	rows, _ = read(t, only)
	want(t, rows, "a/1 1", "a/2 2", "a/3 3")
	p, err := s.Replay("a", 1, 0)
	if err != nil || p.First != 3 || len(p.Entries) != 1 {
		t.Errorf("the new log must not show the old one: %+v, %v", p, err)
	}
	s.CloseSession("a")
	for i := range 10 {
		id := protocol.SessionID(fmt.Sprint("s", i))
		s.Append(id, event(id, ""))
		s.CloseSession(id)
	}
	if st := s.Stats(); st.Events != 4 || st.Sessions != 4 {
		t.Errorf("what closed sessions left is not bounded: %+v", st)
	}
	if e := s.Append("a", event("a", "4")); e.Seq() != 4 {
		t.Errorf("the number went back to %d", e.Seq())
	}
}

// TestSessionsClosedLastAreRemembered: of the sessions without a log, those closed longest ago lose their number, however old their ids are.
func TestSessionsClosedLastAreRemembered(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{SessionEvents: 1, RememberedSessions: 2})
	use := func(id protocol.SessionID) uint64 {
		e := s.Append(id, event(id, ""))
		s.CloseSession(id)
		return e.Seq()
	}
	use("a")
	for range 100 { // of a session that is used again and again, one number is remembered, and no other's place is taken
		use("b")
		use("a")
	}
	use("c")
	use("d") // now b, which was closed longest ago, had to go, and neither a nor c
	if got := use("a"); got != 102 {
		t.Errorf("a goes on with %d, want 102", got)
	}
	if got := use("b"); got != 1 {
		t.Errorf("b goes on with %d, want 1", got)
	}
}

func TestEmptyLogIsKnown(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{})
	s.Open("a")
	if p, err := s.Replay("a", 1, 0); err != nil || p.First != 0 || p.Latest != 0 || p.Entries != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	if first, latest := s.Range("a"); first != 0 || latest != 0 {
		t.Errorf("range %d-%d", first, latest)
	}
	s.CloseSession("a")
	if n := s.Stats().Sessions; n != 0 {
		t.Errorf("%d sessions", n)
	}
}

func TestReplayPages(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{})
	for i := range 5 {
		s.Append("a", event("a", fmt.Sprint(i+1)))
	}
	for _, test := range []struct {
		from  uint64
		limit int
		want  string
	}{{1, 0, "12345"}, {3, 0, "345"}, {3, 2, "34"}, {5, 9, "5"}, {6, 0, ""}, {99, 1, ""}} {
		p, err := s.Replay("a", test.from, test.limit)
		got := ""
		for _, e := range p.Entries {
			got += textOf(e)
		}
		if err != nil || got != test.want || p.First != 1 || p.Latest != 5 {
			t.Errorf("from %d, limit %d: %q, %+v, %v", test.from, test.limit, got, p, err)
		}
	}
}

func TestFrameIsMadeOnceAndReplacesTheValue(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{})
	value := event("a", "x < y")
	e := s.Append("a", value)
	if e.Event() != value {
		t.Error("the value must be handed over as it is")
	}
	first := e.Frame()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if &e.Frame()[0] != &first[0] {
				t.Error("the frame was made again")
			}
		})
	}
	wg.Wait()
	want := `{"jsonrpc":"2.0","method":"event","params":{"sessionId":"a","seq":1,"event":{"type":"session.notice","sessionId":"a","timestamp":1,"kind":"warning","message":"x < y"}}}`
	if string(first) != want {
		t.Errorf("got %s", first)
	}
	if !bytes.Equal(e.EnvelopeJSON(), []byte(want[len(`{"jsonrpc":"2.0","method":"event","params":`):len(want)-1])) {
		t.Errorf("envelope %s", e.EnvelopeJSON())
	}
	if textOf(e) != "x < y" || e.Envelope().Seq != 1 {
		t.Errorf("read back: %v", e.Envelope())
	}
}

func TestEventThatCannotBeEncodedLeavesNoHole(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{})
	for _, bad := range []protocol.Event{&protocol.MessagePart{}, &protocol.Raw{TurnID: "t", Harness: "h", Data: []byte("{")}} {
		e := s.Append("a", bad)
		env, err := protocol.DecodeEnvelope(e.EnvelopeJSON())
		if err != nil || env.Seq != e.Seq() || env.Event.EventType() != protocol.EventError {
			t.Errorf("got %s, %v", e.Frame(), err)
		}
	}
}

func TestBatchesAreBounded(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{})
	all, one := s.Follow(), s.Follow("a")
	for range 1000 {
		s.Append("a", event("a", ""))
	}
	for _, f := range []*eventlog.Follower{all, one} {
		if b, _ := f.Next(t.Context()); len(b.Entries) != 256 {
			t.Errorf("%d entries in a batch", len(b.Entries))
		}
	}
	large := s.Follow()
	for range 4 {
		s.Append("a", event("a", strings.Repeat("x", 700<<10)))
	}
	if b, _ := large.Next(t.Context()); len(b.Entries) != 2 {
		t.Errorf("%d large entries in a batch", len(b.Entries))
	}
}

func TestAllEndsWithTheStore(t *testing.T) {
	s := eventlog.NewStore(eventlog.Limits{})
	f := s.Follow()
	s.Append("a", event("a", "1"))
	s.Close()
	n := 0
	for env, err := range f.All(t.Context()) {
		if err != nil || env.Seq != 1 {
			t.Errorf("got %v, %v", env, err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d events", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range eventlog.NewStore(eventlog.Limits{}).Follow().All(ctx) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}
