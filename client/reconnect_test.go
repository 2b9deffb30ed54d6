package client

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/protocol"
)

// TestCutAnywhere is RB01: a turn of 10 000 events, cut a hundred times at random, gives the stream that an uncut one gives.
func TestCutAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng, seed := seeded(t)
		s := newFake(t)
		rec := newRecorder()
		c := s.connect(t, &Options{OnEvent: rec.handle, OnError: func(err error) { t.Errorf("seed %d: %v", seed, err) }})
		cuts := map[int]bool{}
		for len(cuts) < 100 {
			cuts[rng.IntN(10_000)] = true
		}
		s.script = func(p protocol.TurnStartParams) {
			s.emit(p.SessionID, turnStarted(p.TurnID))
			for i := range 9998 {
				s.emit(p.SessionID, delta(p.TurnID, i))
				if cuts[i] {
					s.cut(errors.New("connection reset"))
					time.Sleep(within(rng, 300*time.Millisecond)) // shorter or longer than the reconnect
				}
			}
			s.emit(p.SessionID, turnEnded(p.TurnID))
		}
		turn, err := c.StartTurn(t.Context(), protocol.TurnStartParams{Input: protocol.Text("go")})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range turn.Events(t.Context()) {
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			n++
		}
		if n != 10_000 {
			t.Errorf("seed %d: the turn's handle got %d events", seed, n)
		}
		synctest.Wait()
		rec.check(t, s, turn.SessionID)
	})
}

// TestQuietAfterCut is RB02: the connection drops before turn.ended and nothing comes after it; the client finds out by itself.
func TestQuietAfterCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.connect(t, nil)
		s.script = func(p protocol.TurnStartParams) {
			s.emit(p.SessionID, turnStarted(p.TurnID), delta(p.TurnID, 1))
			s.cut(errors.New("connection reset"))
			s.emit(p.SessionID, turnEnded(p.TurnID))
		}
		turn, err := c.StartTurn(t.Context(), protocol.TurnStartParams{Input: protocol.Text("go")})
		if err != nil {
			t.Fatal(err)
		}
		ended, err := turn.Result(t.Context())
		if err != nil || ended.StopReason != protocol.StopEndTurn {
			t.Fatalf("got %v, %v", ended, err)
		}
	})
}

// TestCutBeforeAck: the answer to turn/start is lost; it is sent again and runs once.

func TestCutBeforeAck(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("turn ends before the reconnect ", !late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFake(t)
				c := s.connect(t, nil)
				first := true
				s.answer = func(method string, params []byte) (any, error) {
					if method == protocol.MethodTurnStart && first {
						first = false
						s.mu.Lock()
						conn := s.conns[0]
						_, then, _ := conn.byTheBook(method, params)
						s.mu.Unlock()
						s.cut(errors.New("connection reset"))
						if late {
							time.AfterFunc(time.Second, then)
						} else {
							then()
						}
						return nil, io.EOF
					}
					return nil, nil
				}
				runs := 0
				s.script = func(p protocol.TurnStartParams) {
					runs++
					s.emit(p.SessionID, turnStarted(p.TurnID), delta(p.TurnID, 1), turnEnded(p.TurnID))
				}
				turn, err := c.StartTurn(t.Context(), protocol.TurnStartParams{Input: protocol.Text("go")})
				if err != nil {
					t.Fatal(err)
				}
				if n := countEvents(t, turn); n != 3 || runs != 1 || !turn.Deduplicated {
					t.Errorf("%d events, %d runs, deduplicated %v", n, runs, turn.Deduplicated)
				}
			})
		})
	}
}

func TestOtherRequestsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.connect(t, nil)
		s.answer = func(method string, _ []byte) (any, error) {
			if method == protocol.MethodSessionClose {
				s.cut(errors.New("connection reset"))
				return nil, io.EOF
			}
			return nil, nil
		}
		if _, err := c.CloseSession(t.Context(), "s"); !errors.Is(err, ErrConnectionLost) {
			t.Errorf("got %v", err)
		}
		// One made while the connection is down waits for the next.
		if err := c.Call(t.Context(), "nonsense", nil, nil); !errors.Is(err, protocol.ErrMethodNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

// TestInstanceChanged: first every active handle fails, then the cursors are forgotten, so that the new process's numbers are taken from 1.

func TestInstanceChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		rec := newRecorder()
		c := s.connect(t, &Options{OnEvent: rec.handle})
		s.script = func(p protocol.TurnStartParams) { s.emit(p.SessionID, turnStarted(p.TurnID), delta(p.TurnID, 1)) }
		turn, err := c.StartTurn(t.Context(), protocol.TurnStartParams{SessionID: "s", Input: protocol.Text("go")})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.restart("two")
		if _, err := turn.Result(t.Context()); !errors.Is(err, ErrInstanceChanged) {
			t.Fatalf("got %v", err)
		}
		if _, err := c.StartTurn(t.Context(), protocol.TurnStartParams{SessionID: "s", Input: protocol.Text("go")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, want := rec.of("s"), []uint64{1, 2, 1, 2}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if c.State().InstanceID != "two" || c.Server().InstanceID != "two" {
			t.Errorf("state %+v", c.State())
		}
	})
}

// TestRestartBeforeAck: a turn/start whose answer never came may have run in the process that is gone; it is not run again in the next one. One
// that was never sent is.

func TestRestartBeforeAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.connect(t, nil)
		s.answer = func(method string, _ []byte) (any, error) {
			if method == protocol.MethodTurnStart && s.instance == "one" {
				s.restart("two")
				return nil, io.EOF
			}
			return nil, nil
		}
		s.script = func(p protocol.TurnStartParams) { s.emit(p.SessionID, turnStarted(p.TurnID), turnEnded(p.TurnID)) }
		if _, err := c.StartTurn(t.Context(), protocol.TurnStartParams{Input: protocol.Text("go")}); !errors.Is(err, ErrInstanceChanged) {
			t.Errorf("got %v", err)
		}
		s.refuse = func(int) error { return errors.New("connection refused") }
		s.restart("three")
		synctest.Wait()
		time.AfterFunc(time.Second, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refuse = nil
		})
		for _, id := range []protocol.SessionID{"", "named"} {
			turn, err := c.StartTurn(t.Context(), protocol.TurnStartParams{SessionID: id, Input: protocol.Text("go")})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := turn.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestEvictedHole: what the server no longer has fails the session's handle with the lost range, and what follows is delivered.

func TestBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		rec := newRecorder()
		c := s.connect(t, &Options{OnEvent: rec.handle})
		s.emit("s", delta("t", 1))
		synctest.Wait()
		s.mu.Lock()
		s.conns[0].client.swallow()
		s.mu.Unlock()
		s.emit("s", delta("t", 2), delta("t", 3))
		time.Sleep(time.Minute)
		synctest.Wait()
		rec.check(t, s, "s")
		if s.dials != 2 || c.State().Phase != Ready {
			t.Errorf("%d dials, %v", s.dials, c.State())
		}
		// A connection that is merely quiet stays.
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.dials != 2 {
			t.Errorf("%d dials", s.dials)
		}
	})
}

// TestBackoff: the wait between attempts grows up to the limit, and starts anew after a connection that worked.

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.connect(t, nil)
		s.emit("s", delta("t", 1)) // the connection works
		synctest.Wait()
		var at []time.Time
		s.refuse = func(n int) error {
			at = append(at, time.Now())
			if n < 15 {
				return errors.New("connection refused")
			}
			return nil
		}
		s.cut(errors.New("connection reset"))
		time.Sleep(time.Hour)
		synctest.Wait()
		if c.State().Phase != Ready {
			t.Fatalf("%+v", c.State())
		}
		for i := 1; i < len(at); i++ {
			full := min(100*time.Millisecond<<i, 30*time.Second)
			if d := at[i].Sub(at[i-1]); d < full/2 || d > full {
				t.Errorf("wait %d is %v, want between %v and %v", i, d, full/2, full)
			}
		}
		s.emit("s", delta("t", 2))
		synctest.Wait()
		began := time.Now()
		s.cut(errors.New("connection reset"))
		time.Sleep(time.Second)
		synctest.Wait()
		if d := at[len(at)-1].Sub(began); d < 50*time.Millisecond || d > 100*time.Millisecond {
			t.Errorf("the first wait after a good connection is %v", d)
		}
	})
}

// TestRefused: what trying again cannot cure ends the client.

func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.connect(t, nil)
		s.answer = func(method string, _ []byte) (any, error) { return nil, protocol.VersionMismatch(2) }
		s.cut(errors.New("connection reset"))
		<-c.Done()
		if !errors.Is(c.Err(), protocol.ErrVersionMismatch) {
			t.Errorf("got %v", c.Err())
		}
		if _, err := c.Sessions(t.Context()); !errors.Is(err, protocol.ErrVersionMismatch) {
			t.Errorf("got %v", err)
		}
	})
}
