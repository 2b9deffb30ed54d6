package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/engine"
	"agentserver/engine/eventlog"
	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/conversation"
)

func TestInitialize(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		r, err := b.Initialize(protocol.InitializeParams{ProtocolVersion: 2})
		if err != nil || r.InstanceID != "i1" || r.Server.Name != "agent-server" || len(r.Harnesses) != 2 {
			t.Errorf("got %+v, %v", r, err)
		}
		if _, err := b.Initialize(protocol.InitializeParams{ProtocolVersion: 3}); !errors.Is(err, protocol.ErrVersionMismatch) {
			t.Errorf("version 3: %v", err)
		}
		if _, err := b.Initialize(protocol.InitializeParams{}); !errors.Is(err, protocol.ErrInvalidParams) {
			t.Errorf("no version: %v", err)
		}
	})
}

func TestRegistryIsRequired(t *testing.T) {
	if _, err := engine.New(engine.Options{}); err == nil {
		t.Error("no error")
	}
}

func TestCloseDropsTheLogAndNumbersGoOn(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		f := b.Follow("s")
		defer f.Close()
		b.start("t1")
		params := protocol.SessionParams{SessionID: "s"}
		if _, err := b.CloseSession(b.t.Context(), params); !errors.Is(err, protocol.ErrTurnActive) {
			t.Errorf("while a turn runs: %v", err)
		}
		b.say(harness.TurnEnd{})
		a := b.agent()
		if r, err := b.CloseSession(b.t.Context(), params); err != nil || !r.Closed {
			t.Errorf("got %+v, %v", r, err)
		}
		if a.count(&a.closes) != 1 {
			t.Error("the agent was not closed")
		}
		if _, err := b.Replay(protocol.EventsReplayParams{SessionID: "s", FromSeq: 1}); !errors.Is(err, protocol.ErrUnknownSession) {
			t.Errorf("replay: %v", err)
		}
		next, err := f.Next(b.t.Context())
		if err != nil || next.Gap {
			t.Fatal(next.Gap, err)
		}
		last := next.Entries[len(next.Entries)-1]
		if e, ok := last.Event().(*protocol.SessionEnded); !ok || e.Reason != protocol.EndReleased || last.Seq() != 6 {
			t.Errorf("the last event is %v", last.Envelope())
		}
		if r, err := b.CloseSession(b.t.Context(), params); err != nil || r.Closed {
			t.Errorf("again: %+v, %v", r, err)
		}
		b.start("t1")
		b.say(harness.TurnEnd{})
		r, err := b.Replay(protocol.EventsReplayParams{SessionID: "s", FromSeq: 1})
		if err != nil || *r.FirstAvailableSeq != 7 || *r.LatestSeq != 11 || r.Events[0].Seq != 7 {
			t.Errorf("the new log: %+v, %v", r, err)
		}
		b.CloseSession(b.t.Context(), params)
	})
}

func TestNothingIsStartedWhileASessionCloses(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.agent().onClose = func(context.Context) error { time.Sleep(time.Second); return nil }
		b.say(harness.TurnEnd{})
		var wg sync.WaitGroup
		wg.Go(func() { b.CloseSession(b.t.Context(), protocol.SessionParams{SessionID: "s"}) })
		synctest.Wait()
		if _, err := b.StartTurn(b.t.Context(), b.params("t2")); !errors.Is(err, protocol.ErrSessionClosing) {
			t.Errorf("start: %v", err)
		}
		if _, err := b.CloseSession(b.t.Context(), protocol.SessionParams{SessionID: "s"}); !errors.Is(err, protocol.ErrSessionClosing) {
			t.Errorf("close: %v", err)
		}
		wg.Wait()
		b.start("t2")
		b.say(harness.TurnEnd{})
		b.CloseSession(b.t.Context(), protocol.SessionParams{SessionID: "s"})
	})
}

func TestReplayPages(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(textEnd("k", "x")...)
		r, err := b.Replay(protocol.EventsReplayParams{SessionID: "s", FromSeq: 3, Limit: 2})
		if err != nil || len(r.Events) != 2 || r.Events[0].Seq != 3 || *r.FirstAvailableSeq != 1 || *r.LatestSeq != 10 {
			t.Errorf("got %+v, %v", r, err)
		}
		if r, err = b.Replay(protocol.EventsReplayParams{SessionID: "s", FromSeq: 99}); err != nil || len(r.Events) != 0 {
			t.Errorf("past the end: %+v, %v", r, err)
		}
		if _, err = b.Replay(protocol.EventsReplayParams{SessionID: "s"}); !errors.Is(err, protocol.ErrInvalidParams) {
			t.Errorf("from 0: %v", err)
		}
	})
}

func TestListTellsWhereSessionsStand(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1", func(p *protocol.TurnStartParams) { p.SessionID = "first" })
		b.say(harness.SessionStarted{NativeSessionID: "n", Model: "m"})
		b.start("t1")
		list, _ := b.List(b.t.Context())
		if len(list.Sessions) != 2 || list.Sessions[0].SessionID != "first" {
			t.Fatalf("got %+v", list)
		}
		got := list.Sessions[0]
		want := protocol.SessionInfo{SessionID: "first", Harness: "fake", NativeSessionID: "n", Model: "m", Cwd: b.cwd, ActiveTurnID: "t1",
			FirstAvailableSeq: 1, LatestSeq: 5, CreatedAt: got.CreatedAt, UpdatedAt: got.UpdatedAt}
		if got != want || got.CreatedAt == 0 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestSnapshotOutlivesEviction(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Log = eventlog.Limits{SessionEvents: 8} }, func(b *bench) {
		for i := range 50 {
			key := string(rune('A' + i))
			b.start(protocol.TurnID("t" + key))
			b.say(textEnd(key, key)...)
		}
		shot := b.snapshot()
		if shot.Seq != 500 || shot.Turns.Len() != 50 || shot.Timeline.Len() != 100 || shot.Gaps.Len() != 0 {
			t.Errorf("seq %d, %d turns, %d messages, %d gaps", shot.Seq, shot.Turns.Len(), shot.Timeline.Len(), shot.Gaps.Len())
		}
		if _, err := b.Snapshot(b.t.Context(), protocol.SessionParams{SessionID: "nope"}); !errors.Is(err, protocol.ErrUnknownSession) {
			t.Errorf("unknown session: %v", err)
		}
		b.CloseSession(b.t.Context(), protocol.SessionParams{SessionID: "s"})
	})
}

func (b *bench) snapshot() *conversation.Snapshot {
	b.t.Helper()
	r, err := b.Snapshot(b.t.Context(), protocol.SessionParams{SessionID: "s"})
	if err != nil {
		b.t.Fatal(err)
	}
	shot, err := conversation.Parse(r.State)
	if err != nil || shot.Seq != r.Seq {
		b.t.Fatalf("seq %d, %v", r.Seq, err)
	}
	return shot
}

func TestStatesAreBoundedTogether(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Log = eventlog.Limits{SessionEvents: 16}; o.StateBytes = 8 << 10 }, func(b *bench) {
		for i := range 20 {
			key := string(rune('A' + i))
			b.start(protocol.TurnID("t" + key))
			b.say(textEnd(key, strings.Repeat("x", 1000))...)
		}
		shot := b.snapshot()
		if shot.Seq != 200 || shot.Gaps.Len() != 1 {
			t.Errorf("seq %d, %d gaps: what was dropped must be told", shot.Seq, shot.Gaps.Len())
		}
		b.CloseSession(b.t.Context(), protocol.SessionParams{SessionID: "s"})
	})
}

func TestShutdownEndsEverything(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, cwd, nil)
		var events []string
		f := b.Follow()
		var reader sync.WaitGroup
		reader.Go(func() {
			for env, err := range f.All(context.Background()) {
				if err != nil {
					t.Error(err)
				}
				events = append(events, string(env.SessionID)+" "+string(env.Event.EventType()))
			}
		})
		session := func(id protocol.SessionID) func(*protocol.TurnStartParams) {
			return func(p *protocol.TurnStartParams) { p.SessionID = id }
		}
		b.start("t1", session("running"))
		b.say(ask("p", "Bash", make(chan harness.Decision, 1)))
		b.start("t1", session("idle"))
		b.say(harness.TurnEnd{})
		b.fake.prepare = func(ctx context.Context, _ harness.Spec, _ *agent) error { <-ctx.Done(); return ctx.Err() }
		b.start("t1", session("opening"))
		p := b.params("t1")
		p.SessionID = "acked"
		if _, err := b.Admit(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if err := b.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		reader.Wait() // the log was read to its end
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		for _, want := range []string{"running permission.resolved", "running turn.ended", "running session.ended", "idle session.ended",
			"opening turn.ended", "opening session.ended", "acked turn.started", "acked turn.ended", "acked session.ended"} {
			if !slices.Contains(events, want) {
				t.Errorf("%q is missing in\n%s", want, strings.Join(events, "\n"))
			}
		}
		if _, err := b.StartTurn(t.Context(), b.params("t9")); !errors.Is(err, protocol.ErrShuttingDown) {
			t.Errorf("a new turn: %v", err)
		}
		for _, a := range b.fake.agents {
			if a.count(&a.closes) != 1 {
				t.Error("an agent was not closed")
			}
		}
	})
}

func TestShutdownKillsWhatDoesNotGo(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, cwd, func(o *engine.Options) { o.DrainTimeout = 4 * time.Second })
		b.start("t1")
		a := b.agent()
		a.onInterrupt = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		a.onClose = func(ctx context.Context) error { <-ctx.Done(); return nil }
		began := time.Now()
		if err := b.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 4*time.Second || a.count(&a.kills) == 0 {
			t.Errorf("took %v, %d kills", took, a.kills)
		}
		b.wantStream(`…
			turn.ended t1 cancelled
			session.ended shutdown`)
	})
}

func TestContextOfACallerDoesNotEndTheTurn(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		if _, err := b.StartTurn(ctx, b.params("t1")); err != nil {
			t.Fatal(err)
		}
		cancel()
		b.say(textEnd("k", "x")...)
		b.wantEnd("t1", protocol.StopEndTurn)
	})
}
