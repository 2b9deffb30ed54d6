package client

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/protocol"
)

// A recorder is a firehose handler that keeps what it hears.
type recorder struct {
	mu   sync.Mutex
	seqs map[protocol.SessionID][]uint64
	text map[protocol.SessionID][]byte
}

func newRecorder() *recorder {
	return &recorder{seqs: map[protocol.SessionID][]uint64{}, text: map[protocol.SessionID][]byte{}}
}

func (r *recorder) handle(env protocol.Envelope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seqs[env.SessionID] = append(r.seqs[env.SessionID], env.Seq)
	r.text[env.SessionID], _ = protocol.AppendEnvelope(r.text[env.SessionID], env)
}

func (r *recorder) of(id protocol.SessionID) []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seqs[id])
}

// check fails unless r heard exactly what the server's log holds.
func (r *recorder) check(t *testing.T, s *fakeServer, id protocol.SessionID) {
	t.Helper()
	s.mu.Lock()
	var want []byte
	for _, row := range s.logs[id].rows {
		want = append(want, row...)
	}
	s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if string(r.text[id]) != string(want) {
		t.Errorf("session %s: heard %d events, %d bytes; the log holds %d bytes; numbers %v", id, len(r.seqs[id]), len(r.text[id]), len(want), firstOdd(r.seqs[id]))
	}
}

// firstOdd describes the first number that is not its place.
func firstOdd(seqs []uint64) string {
	for i, seq := range seqs {
		if seq != uint64(i+1) {
			return fmt.Sprintf("at place %d stands %d", i+1, seq)
		}
	}
	return "in order"
}

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

func seeded(t *testing.T) (*rand.Rand, uint64) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1)), seed
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

func countEvents(t *testing.T, turn *Turn) int {
	t.Helper()
	n := 0
	for _, err := range turn.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestOtherRequestsFail: whatever else was under way when the connection dropped fails with a connection error.
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

// TestModel lets random faults loose on several sessions and two clients. In the end, everybody has heard exactly what the logs hold.
func TestModel(t *testing.T) {
	base := rand.Uint64()
	for i := range uint64(60) {
		seed := base + i
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { model(t, rand.New(rand.NewPCG(seed, 7))) })
		})
		if t.Failed() {
			return
		}
	}
}

// A locked is a source of chance for several goroutines.
type locked struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (l *locked) IntN(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(n)
}

func (l *locked) within(d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return within(l.rng, d)
}

func model(t *testing.T, source *rand.Rand) {
	rng := &locked{rng: source}
	s := newFake(t)
	var recs []*recorder
	var clients []*Client
	for range 2 {
		rec := newRecorder()
		recs = append(recs, rec)
		clients = append(clients, s.connect(t, &Options{
			OnEvent: rec.handle, OnError: func(err error) { t.Error(err) },
			ReplayPage: 1 + rng.IntN(40), Heartbeat: 5 * time.Second,
		}))
	}
	s.mangle = func(c *fakeConn, f []byte) [][]byte {
		switch rng.IntN(60) {
		case 0:
			return [][]byte{f, f}
		case 1:
			return nil // the follower jumped
		}
		return [][]byte{f}
	}
	s.answer = func(method string, _ []byte) (any, error) {
		if method == protocol.MethodEventsReplay && rng.IntN(10) == 0 {
			time.Sleep(rng.within(time.Second)) // live events come meanwhile
		}
		return nil, nil
	}
	s.script = func(p protocol.TurnStartParams) {
		s.emit(p.SessionID, turnStarted(p.TurnID))
		for i := range rng.IntN(200) {
			s.emit(p.SessionID, delta(p.TurnID, i))
			if rng.IntN(4) == 0 {
				time.Sleep(rng.within(20 * time.Millisecond))
			}
		}
		s.emit(p.SessionID, turnEnded(p.TurnID))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // faults
		for {
			select {
			case <-stop:
				return
			case <-time.After(rng.within(400 * time.Millisecond)):
			}
			if rng.IntN(3) > 0 {
				s.cut(errors.New("connection reset"))
				continue
			}
			s.mu.Lock()
			if n := len(s.conns); n > 0 {
				s.conns[rng.IntN(n)].client.swallow()
			}
			s.mu.Unlock()
		}
	})
	var turns sync.WaitGroup
	for i := range 6 {
		turns.Go(func() {
			id := protocol.SessionID(fmt.Sprint("s", i%3))
			turn, err := clients[i%2].StartTurn(t.Context(), protocol.TurnStartParams{SessionID: id, Input: protocol.Text("go")})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := turn.Result(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	turns.Wait()
	close(stop)
	wg.Wait()
	s.cut(errors.New("connection reset")) // what was lost last has no successor to betray it
	time.Sleep(time.Minute)
	synctest.Wait()
	for _, rec := range recs {
		for i := range 3 {
			rec.check(t, s, protocol.SessionID(fmt.Sprint("s", i)))
		}
	}
}

func within(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}
