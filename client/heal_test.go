package client

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/protocol"
)

func TestEvictedHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		rec := newRecorder()
		var reported []error
		c := s.connect(t, &Options{OnEvent: rec.handle, OnError: func(err error) { reported = append(reported, err) }})
		other, err := c.StartTurn(t.Context(), protocol.TurnStartParams{SessionID: "other", Input: protocol.Text("go")})
		if err != nil {
			t.Fatal(err)
		}
		turn, err := c.StartTurn(t.Context(), protocol.TurnStartParams{SessionID: "s", Input: protocol.Text("go")})
		if err != nil {
			t.Fatal(err)
		}
		s.emit("s", turnStarted(turn.ID), delta(turn.ID, 1))
		synctest.Wait()
		s.cut(errors.New("connection reset"))
		for i := range 10 {
			s.emit("s", delta(turn.ID, i))
		}
		s.evict("s", 7)
		s.emit("other", turnStarted(other.ID), turnEnded(other.ID))
		_, err = turn.Result(t.Context())
		gap, ok := errors.AsType[*GapError](err)
		if !ok || gap.SessionID != "s" || gap.First != 3 || gap.Last != 7 {
			t.Fatalf("got %v", err)
		}
		if _, err := other.Result(t.Context()); err != nil {
			t.Errorf("the other session's handle failed: %v", err)
		}
		synctest.Wait()
		if got, want := rec.of("s"), []uint64{1, 2, 8, 9, 10, 11, 12}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if len(reported) != 1 {
			t.Errorf("reported %v", reported)
		}
		// The events that came before the failure are still there for the iterator, which then says why it ends.
		var n int
		for _, err = range turn.Events(t.Context()) {
			if err == nil {
				n++
			}
		}
		if n != 2 || !errors.As(err, &gap) {
			t.Errorf("%d events, then %v", n, err)
		}
	})
}

// TestEvictedBeforeTurn: what a session lost before this client's turn began is no loss of the turn's.

func TestEvictedBeforeTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		for i := range 10 {
			s.emit("s", delta("old", i))
		}
		s.evict("s", 6)
		rec := newRecorder()
		c := s.connect(t, &Options{OnEvent: rec.handle})
		s.script = func(p protocol.TurnStartParams) {
			s.emit(p.SessionID, turnStarted(p.TurnID), turnEnded(p.TurnID))
		}
		turn, err := c.StartTurn(t.Context(), protocol.TurnStartParams{SessionID: "s", Input: protocol.Text("go")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turn.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, want := rec.of("s"), []uint64{7, 8, 9, 10, 11, 12}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestUnknownSession: the terminal signal of a session fails its handle.

func TestUnknownSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.connect(t, nil)
		turn, err := c.StartTurn(t.Context(), protocol.TurnStartParams{SessionID: "s", Input: protocol.Text("go")})
		if err != nil {
			t.Fatal(err)
		}
		s.emit("s", turnStarted(turn.ID))
		synctest.Wait()
		s.mu.Lock()
		delete(s.logs, "s")
		s.mu.Unlock()
		s.cut(errors.New("connection reset"))
		if _, err := turn.Result(t.Context()); !errors.Is(err, protocol.ErrUnknownSession) {
			t.Errorf("got %v", err)
		}
	})
}

// TestReplayAttempts: three attempts, 250 ms apart, then the gap is given up and what is held is delivered.

func TestReplayAttempts(t *testing.T) {
	for _, failures := range []int{2, 3} {
		t.Run(fmt.Sprint(failures, " failures"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFake(t)
				rec := newRecorder()
				var gaps []error
				c := s.connect(t, &Options{OnEvent: rec.handle, OnError: func(err error) { gaps = append(gaps, err) }})
				_ = c
				failed := 0
				s.answer = func(method string, _ []byte) (any, error) {
					if method == protocol.MethodEventsReplay && failed < failures {
						failed++
						return nil, protocol.Errorf(protocol.CodeInternalError, "broken")
					}
					return nil, nil
				}
				s.mangle = func(_ *fakeConn, f []byte) [][]byte { return nil }
				s.emit("s", delta("t", 1), delta("t", 2))
				s.mangle = nil
				began := time.Now()
				s.emit("s", delta("t", 3))
				time.Sleep(10 * time.Second)
				synctest.Wait()
				want := []uint64{1, 2, 3}
				if failures == 3 {
					want = []uint64{3}
				}
				if got := rec.of("s"); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
				if failures == 3 {
					gap, ok := errors.AsType[*GapError](gaps[0])
					if !ok || gap.First != 1 || gap.Last != 2 || !errors.Is(gap, protocol.ErrInternal) {
						t.Errorf("reported %v", gaps)
					}
				}
				if c := s.calls[protocol.MethodEventsReplay]; c != 3 {
					t.Errorf("%d attempts in %v", c, time.Since(began))
				}
			})
		})
	}
}

// TestShuffledDelivery: duplicates are dropped and what comes too early waits, whatever the transport does.

func TestShuffledDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng, _ := seeded(t)
		s := newFake(t)
		rec := newRecorder()
		s.connect(t, &Options{OnEvent: rec.handle, ReplayPage: 7})
		var late [][]byte
		s.mangle = func(_ *fakeConn, f []byte) [][]byte {
			switch rng.IntN(4) {
			case 0: // held back for a while
				late = append(late, f)
				return nil
			case 1:
				return [][]byte{f, f}
			case 2:
				out := append(late, f)
				late = nil
				return out
			}
			return [][]byte{f}
		}
		for i := range 2000 {
			s.emit(protocol.SessionID(fmt.Sprint("s", i%3)), delta("t", i))
			if rng.IntN(5) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		s.mangle = nil
		for i := range 3 {
			id := protocol.SessionID(fmt.Sprint("s", i))
			s.emit(id, turnEnded("t"))
			synctest.Wait()
			rec.check(t, s, id)
		}
	})
}

// TestReplayOvertakesLive: a replay brings event 1 before the connection's own copy does; that copy is no fresh log.

func TestReplayOvertakesLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		rec := newRecorder()
		c := s.connect(t, &Options{OnEvent: rec.handle})
		var late [][]byte
		s.mangle = func(_ *fakeConn, f []byte) [][]byte { late = append(late, f); return nil }
		s.emit("s", delta("t", 1), delta("t", 2), delta("t", 3))
		if err := c.Follow(t.Context(), "s", 0); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		for _, f := range late {
			s.conns[0].client.deliver(f)
		}
		s.mu.Unlock()
		synctest.Wait()
		rec.check(t, s, "s")
	})
}

// TestFreshLog: number 1 with another content is a fresh log.

func TestFreshLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		rec := newRecorder()
		s.connect(t, &Options{OnEvent: rec.handle})
		s.emit("s", delta("t", 1), delta("t", 2))
		s.mu.Lock()
		delete(s.logs, "s")
		s.mu.Unlock()
		s.emit("s", delta("t", 3), delta("t", 4))
		synctest.Wait()
		if got, want := rec.of("s"), []uint64{1, 2, 1, 2}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestBlackHole: a connection that swallows everything, with no word of a close, is noticed and replaced.
