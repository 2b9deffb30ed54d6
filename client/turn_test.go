package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/protocol"
)

var goOn = protocol.Text("go")

// start1 starts a turn of session "s" on which nothing happens by itself.
func start1(t *testing.T, c *Client) *Turn {
	t.Helper()
	turn, err := c.StartTurn(t.Context(), protocol.TurnStartParams{SessionID: "s", TurnID: "t", Input: goOn})
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// TestHandlers: one that is slow, one that blocks and one that panics break nothing for the others.
func TestHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		var errs []error
		c := s.connect(t, &Options{OnError: func(err error) { errs = append(errs, err) }})
		good, slow := newRecorder(), newRecorder()
		release := make(chan struct{})
		c.OnEvent(func(env protocol.Envelope) { panic(fmt.Sprint("no ", env.Seq)) })
		c.OnEvent(func(env protocol.Envelope) { time.Sleep(time.Second); slow.handle(env) })
		c.OnEvent(func(protocol.Envelope) { <-release })
		remove := c.OnEvent(good.handle)
		turn := start1(t, c)
		began := time.Now()
		s.emit("s", turnStarted("t"), delta("t", 1), turnEnded("t"))
		if _, err := turn.Result(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("the handle waited %v: %v", time.Since(began), err)
		}
		synctest.Wait()
		good.check(t, s, "s")
		if time.Since(began) > 0 {
			t.Errorf("the good handler waited %v", time.Since(began))
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		slow.check(t, s, "s")
		if len(errs) != 3 {
			t.Errorf("%d panics were reported", len(errs))
		}
		if p, ok := errors.AsType[*PanicError](errs[0]); !ok || p.Value != "no 1" || !strings.Contains(string(p.Stack), "TestHandlers") {
			t.Errorf("reported %v", errs[0])
		}
		remove()
		s.emit("s", delta("t", 2))
		synctest.Wait()
		if got := good.of("s"); len(got) != 3 {
			t.Errorf("a removed handler heard %v", got)
		}
		close(release)
	})
}

// TestQueueLimit: who falls too far behind is cut off with a typed error, and nobody else is.
func TestQueueLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		var errs []error
		c := s.connect(t, &Options{QueueLimit: 10, OnError: func(err error) { errs = append(errs, err) }})
		good := newRecorder()
		release := make(chan struct{})
		c.OnEvent(func(protocol.Envelope) { <-release })
		c.OnEvent(good.handle)
		turn := start1(t, c)
		s.emit("s", turnStarted("t"))
		for i := range 20 {
			s.emit("s", delta("t", i))
			synctest.Wait()
		}
		s.emit("s", turnEnded("t"))
		if _, err := turn.Result(t.Context()); err != nil { // the result needs no queue
			t.Error(err)
		}
		n, last := 0, error(nil)
		for _, err := range turn.Events(t.Context()) {
			if last = err; err == nil {
				n++
			}
		}
		if lag, ok := errors.AsType[*LagError](last); n != 10 || !ok || lag.Limit != 10 {
			t.Errorf("%d events, then %v", n, last)
		}
		synctest.Wait()
		good.check(t, s, "s")
		if len(errs) != 1 {
			t.Errorf("reported %v", errs)
		}
		close(release)
	})
}

// TestEventsStops: each event once, also when the loop is left and entered again, or its context ends.
func TestEventsStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.connect(t, nil)
		turn := start1(t, c)
		s.emit("s", turnStarted("t"), delta("t", 1), delta("t", 2))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var got []protocol.EventType
		for e, err := range turn.Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.EventType())
			break
		}
		var last error
		for e, err := range turn.Events(ctx) {
			if last = err; err == nil {
				got = append(got, e.EventType())
			}
		}
		if !errors.Is(last, context.DeadlineExceeded) || len(got) != 3 {
			t.Errorf("got %v, %v", got, last)
		}
		if _, err := turn.Result(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		s.emit("s", turnEnded("t"))
		if n := countEvents(t, turn); n != 1 {
			t.Errorf("%d events are left", n)
		}
	})
}

// TestTurnEvents: a handle gets its own events, those of its session that name no turn while it runs, and no others.
func TestTurnEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.connect(t, nil)
		turn := start1(t, c)
		created := func() protocol.Event { return &protocol.SessionCreated{NativeSessionID: "n", Harness: "h"} }
		s.emit("s",
			created(), // of nobody
			&protocol.SessionNotice{TurnID: "t", Kind: "provisioning", Message: "mine, before the start"},
			turnStarted("t"), created(), delta("earlier", 1), delta("t", 1), turnEnded("t"),
			delta("t", 2), created())
		s.emit("other", delta("t", 1))
		var got []string
		for e, err := range turn.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(e.EventType()))
		}
		want := []string{"session.notice", "turn.started", "session.created", "message.part.delta", "turn.ended"}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestDecodeError: an event that this build cannot read is never passed over silently; what follows is delivered.
func TestDecodeError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		rec := newRecorder()
		c := s.connect(t, &Options{OnEvent: rec.handle})
		turn := start1(t, c)
		s.emit("s", turnStarted("t"))
		s.mu.Lock()
		bad := []byte(`{"sessionId":"s","seq":2,"event":{"type":"turn.ended","sessionId":"s","timestamp":1,"turnId":7}}`)
		s.logs["s"].rows = append(s.logs["s"].rows, bad)
		s.broadcast(eventFrame(bad))
		s.mu.Unlock()
		s.emit("s", delta("t", 1))
		_, err := turn.Result(t.Context())
		if e, ok := errors.AsType[*DecodeError](err); !ok || e.Seq != 2 || string(e.JSON) != string(bad) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if got := rec.of("s"); !slices.Equal(got, []uint64{1, 3}) {
			t.Errorf("got %v", got)
		}
		// The same from a replay.
		late := newRecorder()
		s.connect(t, &Options{OnEvent: late.handle})
		s.emit("s", delta("t", 2))
		synctest.Wait()
		if got := late.of("s"); !slices.Equal(got, []uint64{1, 3, 4}) {
			t.Errorf("got %v", got)
		}
	})
}

// TestDeduplicated: a turn that was admitted before gives a handle that shows it from its start, in whatever client.
func TestDeduplicated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		first := s.connect(t, &Options{ReplayPage: 2})
		turn := start1(t, first)
		s.emit("s", turnStarted("t"), delta("t", 1), delta("t", 2))
		synctest.Wait()
		again := start1(t, first) // while it runs
		fresh := start1(t, s.connect(t, nil))
		s.emit("s", turnEnded("t"))
		over := start1(t, first) // when it is over
		for _, h := range []*Turn{turn, again, fresh, over} {
			if n := countEvents(t, h); n != 4 {
				t.Errorf("%d events, deduplicated %v", n, h.Deduplicated)
			}
			if ended, err := h.Result(t.Context()); err != nil || ended == nil {
				t.Errorf("%v, %v", ended, err)
			}
		}
	})
}

// TestFollowTurn: a handle on a turn that somebody else began.
func TestFollowTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		s.emit("s", delta("old", 1), turnStarted("t"), delta("t", 1))
		c := s.connect(t, nil)
		turn, err := c.FollowTurn(t.Context(), "s", "t")
		if err != nil {
			t.Fatal(err)
		}
		s.emit("s", turnEnded("t"))
		if n := countEvents(t, turn); n != 3 {
			t.Errorf("%d events", n)
		}
		if _, err := c.FollowTurn(t.Context(), "s", "nothing"); !errors.Is(err, ErrTurnNotFound) {
			t.Errorf("got %v", err)
		}
		s.evict("s", 2)
		if _, err := c.FollowTurn(t.Context(), "s", "t"); err == nil {
			t.Error("a turn whose start is gone can be followed")
		} else if gap, ok := errors.AsType[*GapError](err); !ok || gap.First != 1 || gap.Last != 2 {
			t.Errorf("got %v", err)
		}
		if _, err := c.FollowTurn(t.Context(), "nobody", "t"); err == nil {
			t.Error("a turn of an unknown session can be followed")
		}
	})
}

// TestFollow: what a late joiner knows already is not delivered.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		for i := range 10 {
			s.emit("s", delta("t", i))
		}
		rec := newRecorder()
		c := s.connect(t, &Options{OnEvent: rec.handle})
		if err := c.Follow(t.Context(), "s", 7); err != nil {
			t.Fatal(err)
		}
		s.emit("s", delta("t", 11))
		synctest.Wait()
		if got := rec.of("s"); !slices.Equal(got, []uint64{8, 9, 10, 11}) {
			t.Errorf("got %v", got)
		}
	})
}

// TestSubscribe: the subscription survives a reconnect; a session with a turn of one's own belongs to it.
func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		rec := newRecorder()
		c := s.connect(t, &Options{OnEvent: rec.handle})
		s.emit("b", delta("t", 1))
		synctest.Wait()
		if err := c.Subscribe(t.Context(), []protocol.SessionID{"a"}); err != nil {
			t.Fatal(err)
		}
		s.emit("a", delta("t", 1))
		s.emit("b", delta("t", 2))
		synctest.Wait()
		s.cut(errors.New("connection reset"))
		s.emit("a", delta("t", 2))
		time.Sleep(time.Second)
		synctest.Wait()
		if a, b := rec.of("a"), rec.of("b"); len(a) != 2 || len(b) != 1 {
			t.Errorf("a %v, b %v", a, b)
		}
		turn, err := c.StartTurn(t.Context(), protocol.TurnStartParams{SessionID: "c", Input: goOn})
		if err != nil {
			t.Fatal(err)
		}
		s.emit("c", turnStarted(turn.ID), turnEnded(turn.ID))
		if _, err := turn.Result(t.Context()); err != nil {
			t.Error(err)
		}
		if n := s.calls[protocol.MethodEventsSubscribe]; n != 3 {
			t.Errorf("%d subscriptions", n)
		}
		if err := c.Subscribe(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		rec.check(t, s, "b") // what was not wanted before is fetched
	})
}

// TestHistory: a long log comes in pages, a hole is said, and handlers hear nothing of it.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		for i := range 1000 {
			s.emit("s", delta("t", i))
		}
		c := s.connect(t, &Options{ReplayPage: 64})
		n := uint64(0)
		for env, err := range c.History(t.Context(), "s", 1) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; env.Seq != n {
				t.Fatalf("got %d, want %d", env.Seq, n)
			}
		}
		if n != 1000 || s.calls[protocol.MethodEventsReplay] != 16 {
			t.Errorf("%d events in %d pages", n, s.calls[protocol.MethodEventsReplay])
		}
		s.evict("s", 990)
		var gap *GapError
		n = 0
		for _, err := range c.History(t.Context(), "s", 5) {
			if err != nil && !errors.As(err, &gap) {
				t.Fatal(err)
			} else if err == nil {
				n++
			}
		}
		if n != 10 || gap == nil || gap.First != 5 || gap.Last != 990 {
			t.Errorf("%d events, %v", n, gap)
		}
		for _, err := range c.History(t.Context(), "nobody", 1) {
			if !errors.Is(err, protocol.ErrUnknownSession) {
				t.Errorf("got %v", err)
			}
		}
	})
}

// TestClose: every call and handle that waits says so, and Close may be called again.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		var states []Phase
		c := s.connect(t, &Options{OnState: func(s State) { states = append(states, s.Phase) }})
		turn := start1(t, c)
		hang := make(chan error, 2)
		s.answer = func(string, []byte) (any, error) { return nil, errors.New("never answered") }
		go func() {
			_, err := c.Sessions(context.Background())
			hang <- err
		}()
		go func() {
			for _, err := range turn.Events(context.Background()) {
				hang <- err
			}
		}()
		synctest.Wait()
		c.Close()
		c.Close()
		for range 2 {
			if err := <-hang; !errors.Is(err, ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
		if _, err := c.StartTurn(t.Context(), protocol.TurnStartParams{Input: goOn}); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
		if _, err := turn.Result(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
		if !slices.Equal(states, []Phase{Ready, Closed}) || c.State().Phase != Closed || !errors.Is(c.Err(), ErrClosed) {
			t.Errorf("states %v", states)
		}
		c.OnEvent(func(protocol.Envelope) {})() // of no use, and harmless
	})
}

// TestCloseWhileDown: closing does not wait for the next attempt.
func TestCloseWhileDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.connect(t, nil)
		s.refuse = func(int) error { return errors.New("connection refused") }
		s.cut(errors.New("connection reset"))
		time.Sleep(10 * time.Second)
		began := time.Now()
		c.Close()
		if d := time.Since(began); d > 0 {
			t.Errorf("took %v", d)
		}
	})
}

// TestNoReconnect: a client that cannot connect again says that the connection is lost.
func TestNoReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.connect(t, &Options{NoReconnect: true})
		turn := start1(t, c)
		s.cut(errors.New("connection reset"))
		if _, err := turn.Result(t.Context()); !errors.Is(err, ErrConnectionLost) {
			t.Errorf("got %v", err)
		}
		if _, err := c.Sessions(t.Context()); !errors.Is(err, ErrConnectionLost) {
			t.Errorf("got %v", err)
		}
	})
}

// TestLostWithEventsWaiting: what had come before the connection was lost for good still reaches a handler that is behind, until Close.
func TestLostWithEventsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		rec := newRecorder()
		c := s.connect(t, &Options{NoReconnect: true, OnEvent: func(env protocol.Envelope) { time.Sleep(time.Second); rec.handle(env) }})
		turn := start1(t, c)
		for range 10 {
			s.emit(turn.SessionID, &protocol.SessionNotice{Kind: protocol.NoticeWarning, Message: "m"})
		}
		synctest.Wait()
		s.cut(errors.New("connection reset"))
		<-c.Done()
		if n := len(rec.of(turn.SessionID)); n > 1 {
			t.Fatalf("%d were handled before the end: the test shows nothing", n)
		}
		time.Sleep(5500 * time.Millisecond)
		if n := len(rec.of(turn.SessionID)); n != 5 {
			t.Errorf("%d of those that had come were handled, want 5", n)
		}
		c.Close()
		time.Sleep(time.Minute)
		if n := len(rec.of(turn.SessionID)); n > 6 {
			t.Errorf("%d were handled after Close", n)
		}
	})
}

// TestEphemeral: a server that lives and dies with its connection takes its turns with it, at once.
func TestEphemeral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c, err := start(t.Context(), nil, dialer{open: s.open, ephemeral: true}, s.open)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		turn := start1(t, c)
		s.refuse = func(int) error { return errors.New("cannot start") }
		s.restart("two")
		if _, err := turn.Result(t.Context()); !errors.Is(err, ErrInstanceChanged) || !errors.Is(err, ErrConnectionLost) {
			t.Errorf("got %v", err)
		}
	})
}

// TestStartTurnAbandoned: a caller that no longer waits leaves nothing behind that would be sent again.
func TestStartTurnAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.connect(t, nil)
		s.answer = func(method string, _ []byte) (any, error) {
			if method == protocol.MethodTurnStart {
				return nil, errors.New("never answered")
			}
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.StartTurn(ctx, protocol.TurnStartParams{Input: goOn}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		s.cut(errors.New("connection reset"))
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.calls[protocol.MethodTurnStart]; n != 1 {
			t.Errorf("sent %d times", n)
		}
	})
}

// TestForeignMessages: what is no event and no answer is passed over.
func TestForeignMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		rec := newRecorder()
		c := s.connect(t, &Options{OnEvent: rec.handle})
		for _, text := range []string{
			`npm notice`, `{}`, `{"jsonrpc":"2.0","method":"deus/news","params":{}}`, `{"jsonrpc":"2.0","id":1,"method":"deus/ask"}`,
			`{"jsonrpc":"2.0","id":"x","result":{}}`, `{"jsonrpc":"2.0","id":77,"result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`,
		} {
			s.conns[0].client.deliver([]byte(text))
		}
		s.emit("s", delta("t", 1))
		synctest.Wait()
		rec.check(t, s, "s")
		if s.dials != 1 || c.State().Phase != Ready {
			t.Errorf("%d dials", s.dials)
		}
	})
}
