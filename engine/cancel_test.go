package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/engine"
	"agentserver/harness"
	"agentserver/protocol"
)

// cancel cancels a turn and returns the outcome and how long it took to come.
func (b *bench) cancel(turn protocol.TurnID) (protocol.TurnCancelResult, time.Duration) {
	b.t.Helper()
	began := time.Now()
	r, err := b.Cancel(b.t.Context(), protocol.TurnCancelParams{SessionID: "s", TurnID: turn})
	if err != nil {
		b.t.Errorf("cancel: %v", err)
	}
	took := time.Since(began)
	synctest.Wait()
	return r, took
}

func (b *bench) ended(turn protocol.TurnID) *protocol.TurnEnded {
	for _, env := range b.events("s") {
		if e, ok := env.Event.(*protocol.TurnEnded); ok && e.TurnID == turn {
			return e
		}
	}
	return nil
}

func (b *bench) wantEnd(turn protocol.TurnID, reason protocol.StopReason) {
	b.t.Helper()
	if e := b.ended(turn); e == nil || e.StopReason != reason {
		b.t.Errorf("turn %s: got %+v, want its end with %s", turn, e, reason)
	}
}

func TestCancelThatTheAgentConfirms(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(harness.Delta{Key: "k", Type: protocol.DeltaToolInput, ToolName: "Bash", Text: `{"comm`})
		if r, took := b.cancel(""); r.Outcome != protocol.CancelConfirmed || r.TurnID != "t1" || took != 0 {
			t.Errorf("got %+v after %v", r, took)
		}
		b.wantStream(`…
			message.part m1.0 p1 Bash(k) pending
			message.part.delta p1 Bash(k)+"{\"comm"
			message.part m1.0 p1 Bash(k) cancelled {} {"comm
			message.ended m1
			turn.ended t1 cancelled`)
		if a := b.agent(); a.count(&a.closes) != 0 {
			t.Error("the agent was closed")
		}
	})
}

func TestCancelOfATurnThatIsNotActive(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		if r, _ := b.cancel("t0"); r.Outcome != protocol.CancelNoActiveTurn || r.ActiveTurnID != "t1" {
			t.Errorf("another turn: %+v", r)
		}
		b.say(harness.TurnEnd{})
		if r, _ := b.cancel("t1"); r.Outcome != protocol.CancelNoActiveTurn || r.ActiveTurnID != "" {
			t.Errorf("a turn that ended: %+v", r)
		}
		if a := b.agent(); a.count(&a.stops) != 0 {
			t.Error("the agent was interrupted")
		}
		_, err := b.Cancel(b.t.Context(), protocol.TurnCancelParams{SessionID: "nope"})
		if !errors.Is(err, protocol.ErrUnknownSession) {
			t.Errorf("unknown session: %v", err)
		}
	})
}

func TestCancelBetweenTheAckAndTheFirstStep(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		a, _ := b.Admit(b.t.Context(), b.params("t1"))
		if r, _ := b.cancel("t1"); r.Outcome != protocol.CancelConfirmed {
			t.Errorf("got %+v", r)
		}
		a.Begin()
		synctest.Wait()
		b.wantStream(`
			turn.started t1
			message.started echo-t1 user 0
			message.part echo-t1.0 echo-t1-0 "hi" done
			message.ended echo-t1
			turn.ended t1 cancelled`)
		if b.opens() != 0 {
			t.Error("an agent was opened")
		}
	})
}

func TestCancelWhileTheAgentIsOpened(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fake.prepare = func(ctx context.Context, _ harness.Spec, _ *agent) error {
			<-ctx.Done()
			time.Sleep(time.Second) // it takes a while to let go
			return ctx.Err()
		}
		b.start("t1")
		if r, took := b.cancel("t1"); r.Outcome != protocol.CancelConfirmed || took != 0 {
			t.Errorf("got %+v after %v", r, took)
		}
		b.wantEnd("t1", protocol.StopCancelled)
		b.fake.prepare = nil
		b.start("t2")
		if b.opens() != 1 {
			t.Error("opened beside the one that is not gone")
		}
		time.Sleep(time.Second)
		b.say(harness.TurnEnd{})
		b.wantEnd("t2", protocol.StopEndTurn)
	})
}

func TestAgentThatOpensAllTheSameIsClosed(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fake.prepare = func(ctx context.Context, _ harness.Spec, _ *agent) error { <-ctx.Done(); return nil }
		b.start("t1")
		b.cancel("t1")
		if a := b.agent(); a.count(&a.closes) != 1 {
			t.Error("not closed")
		}
	})
}

func TestInterruptWaitsUntilTheAgentHasItsInput(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fake.prepare = func(_ context.Context, _ harness.Spec, a *agent) error {
			a.onSend = func(context.Context, harness.Turn) error {
				time.Sleep(time.Second)
				if a.count(&a.stops) != 0 {
					t.Error("interrupted before it had its input")
				}
				return nil
			}
			return nil
		}
		b.start("t1")
		if r, took := b.cancel("t1"); r.Outcome != protocol.CancelConfirmed || took != time.Second {
			t.Errorf("got %+v after %v", r, took)
		}
		b.wantEnd("t1", protocol.StopCancelled)
	})
}

func TestUnconfirmedCancelEscalates(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		a := b.agent()
		a.onInterrupt = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		a.onClose = func(context.Context) error { a.say(harness.Exit{}); return nil }
		if r, took := b.cancel("t1"); r.Outcome != protocol.CancelUnconfirmed || took != 5*time.Second {
			t.Errorf("got %+v after %v", r, took)
		}
		b.wantEnd("t1", protocol.StopCancelled)
		b.start("t2")
		b.say(harness.TurnEnd{})
		b.wantEnd("t2", protocol.StopEndTurn)
	})
}

func TestConfirmedCancelWithoutEndEscalates(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		a := b.agent()
		a.onInterrupt = func(context.Context) error { return nil }
		a.onClose = func(ctx context.Context) error {
			<-ctx.Done() // it does not go politely
			a.say(harness.Exit{Error: &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: "killed"}})
			return nil
		}
		b.cancel("t1")
		time.Sleep(8 * time.Second)
		if b.ended("t1") != nil {
			t.Error("ended before it was killed")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.wantEnd("t1", protocol.StopCancelled)
		if a.count(&a.kills) != 1 {
			t.Errorf("%d kills", a.kills)
		}
	})
}

func TestWedgedDriverDoesNotHoldTheTurn(t *testing.T) {
	release := make(chan struct{})
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		b := newBench(t, cwd, nil)
		b.fake.prepare = func(_ context.Context, _ harness.Spec, a *agent) error {
			hang := func() { <-release }
			a.onRecv = hang
			a.onInterrupt = func(context.Context) error { hang(); return nil }
			a.onClose = func(context.Context) error { hang(); return nil }
			a.onKill = hang
			return nil
		}
		b.start("t1")
		began := time.Now()
		if r, took := b.cancel("t1"); r.Outcome != protocol.CancelUnconfirmed || took != 5*time.Second {
			t.Errorf("got %+v after %v", r, took)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		b.wantEnd("t1", protocol.StopCancelled)
		b.fake.prepare = nil
		b.start("t2")
		time.Sleep(10 * time.Second)
		b.say(harness.TurnEnd{})
		b.wantEnd("t2", protocol.StopEndTurn)
		if err := b.Shutdown(context.Background()); !errors.Is(err, engine.ErrWedged) {
			t.Errorf("shutdown: %v", err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("took %v", took)
		}
		checkStream(t, b.events("s"))
		close(release)
	})
}

func TestSecondCancelGetsTheSameOutcome(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		a := b.agent()
		a.onInterrupt = func(context.Context) error {
			time.Sleep(time.Second)
			a.say(harness.TurnEnd{StopReason: protocol.StopCancelled})
			return nil
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				r, err := b.Cancel(b.t.Context(), protocol.TurnCancelParams{SessionID: "s"})
				if err != nil || r.Outcome != protocol.CancelConfirmed {
					t.Errorf("got %+v, %v", r, err)
				}
			})
		}
		wg.Wait()
		if a.count(&a.stops) != 1 {
			t.Errorf("%d interrupts", a.stops)
		}
	})
}

func TestErrorOfAnInterruptedAgentIsACancel(t *testing.T) {
	tests := map[protocol.ErrorCategory]protocol.StopReason{
		protocol.CategoryAbort: protocol.StopCancelled, protocol.CategoryAuth: protocol.StopError,
	}
	for category, want := range tests {
		inBubble(t, nil, func(b *bench) {
			b.start("t1")
			a := b.agent()
			a.onInterrupt = func(context.Context) error {
				a.say(harness.TurnEnd{StopReason: protocol.StopError, Error: &protocol.TurnError{Category: category, Message: "x"}})
				return nil
			}
			b.cancel("t1")
			b.wantEnd("t1", want)
		})
	}
}

func TestCancelSettlesPermissionsFirst(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		answers := make(chan harness.Decision, 1)
		b.say(ask("p", "Bash", answers))
		b.cancel("t1")
		b.wantStream(`…
			permission.requested r1 Run Bash
			permission.resolved r1 cancelled
			turn.ended t1 cancelled`)
		if d := <-answers; !d.Cancelled || d.Allow {
			t.Errorf("got %+v", d)
		}
	})
}

func TestLeftoverInterruptDelaysTheNextTurn(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		a := b.agent()
		released := make(chan struct{})
		a.onInterrupt = func(context.Context) error {
			a.say(harness.TurnEnd{StopReason: protocol.StopCancelled})
			<-released // it has not let go of the agent
			return nil
		}
		b.cancel("t1")
		b.start("t2")
		if len(a.turns) != 1 {
			t.Error("the next turn was sent while an interrupt may still come")
		}
		close(released)
		synctest.Wait()
		if len(a.turns) != 2 || b.opens() != 1 {
			t.Errorf("%d turns, %d agents", len(a.turns), b.opens())
		}
		b.say(harness.TurnEnd{})
	})
}

// TestLateCancelNeverHitsTheNextTurn races a cancel of each turn against its end, ten thousand times, outside a bubble.
func TestLateCancelNeverHitsTheNextTurn(t *testing.T) {
	b := newBench(t, t.TempDir(), func(o *engine.Options) { o.Log.SessionEvents = 64 })
	defer b.Shutdown(context.Background())
	var current atomic.Pointer[string]
	b.fake.prepare = func(_ context.Context, _ harness.Spec, a *agent) error {
		var mu sync.Mutex
		running := false
		end := func(reason protocol.StopReason) {
			mu.Lock()
			defer mu.Unlock()
			if running {
				running = false
				a.say(harness.TurnEnd{StopReason: reason, FinishReason: *current.Load()})
			}
		}
		a.onSend = func(_ context.Context, turn harness.Turn) error {
			mu.Lock()
			defer mu.Unlock()
			running = true
			current.Store(new(string(turn.ID)))
			go end(protocol.StopEndTurn)
			return nil
		}
		a.onInterrupt = func(context.Context) error { end(protocol.StopCancelled); return nil }
		return nil
	}
	f := b.Follow()
	defer f.Close()
	var cancels sync.WaitGroup
	defer cancels.Wait()
	victims := map[protocol.TurnID]bool{}
	rounds := 10_000
	if testing.Short() {
		rounds = 1000
	}
	for i := range rounds {
		id := protocol.TurnID(protocol.NewID())
		victim := i%2 == 0 // turns between victims must never be cancelled
		victims[id] = victim
		if _, err := b.StartTurn(t.Context(), b.params(id)); err != nil {
			t.Fatal(err)
		}
		if victim {
			spin := rand.IntN(200)
			cancels.Go(func() {
				for range spin {
					_ = time.Now()
				}
				if _, err := b.Cancel(t.Context(), protocol.TurnCancelParams{SessionID: "s", TurnID: id}); err != nil && t.Context().Err() == nil {
					t.Errorf("cancel: %v", err)
				}
			})
		}
		waitEnd(t, f, id, victims)
	}
}

func waitEnd(t *testing.T, f interface {
	Next(context.Context) (batch, error)
}, id protocol.TurnID, victims map[protocol.TurnID]bool) {
	t.Helper()
	for {
		next, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range next.Entries {
			e, ok := entry.Event().(*protocol.TurnEnded)
			if !ok {
				continue
			}
			if e.StopReason == protocol.StopCancelled && !victims[e.TurnID] {
				t.Fatalf("turn %s was cancelled by the cancel of another", e.TurnID)
			}
			if e.TurnID == id {
				return
			}
		}
	}
}

func ask(key, tool string, answers chan harness.Decision) harness.Permission {
	return harness.Permission{Key: key, Title: "Run " + tool, Tool: protocol.PermissionTool{ToolName: tool, ToolCallID: key, RawInput: json.RawMessage(`{}`)},
		Decide: func(d harness.Decision) error { answers <- d; return nil }}
}
