package inbox_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"agentserver/harness"
	"agentserver/harness/internal/inbox"
)

func text(s string) harness.Event { return harness.Delta{Text: s} }

func TestOrderAndEnd(t *testing.T) {
	b := inbox.New()
	b.Add(1, text("a"), text("b"))
	b.End(harness.Exit{})
	for _, want := range []harness.Event{text("a"), text("b"), harness.Exit{}} {
		if e, err := b.Recv(t.Context()); e != want || err != nil {
			t.Errorf("got %v, %v; want %v", e, err, want)
		}
	}
	for range 2 { // the end stays
		if e, err := b.Recv(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, %v; want io.EOF", e, err)
		}
	}
}

func TestRecvWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inbox.New()
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		if _, err := b.Recv(ctx); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
		go b.Add(1, text("late"))
		if e, err := b.Recv(t.Context()); e != text("late") || err != nil {
			t.Errorf("got %v, %v", e, err)
		}
	})
}

func TestDropTurnEnds(t *testing.T) {
	b := inbox.New()
	b.Add(1, text("received"), harness.TurnEnd{}, text("kept"), harness.TurnEnd{})
	_, _ = b.Recv(t.Context())
	b.DropTurnEnds()
	b.End(harness.Exit{})
	for _, want := range []harness.Event{text("kept"), harness.Exit{}} {
		if e, err := b.Recv(t.Context()); err != nil || e != want {
			t.Errorf("got %v, %v; want %v", e, err, want)
		}
	}
}

// TestHoldBack: a reader waits while more than 32 MiB is held, and goes on when all was received, when it is needed, and when the session closes.
func TestHoldBack(t *testing.T) {
	for name, release := range map[string]func(b *inbox.Inbox, needed *bool, closing chan struct{}){
		"received": func(b *inbox.Inbox, _ *bool, _ chan struct{}) { _, _ = b.Recv(context.Background()) },
		"needed":   func(b *inbox.Inbox, needed *bool, _ chan struct{}) { *needed = true; b.Nudge() },
		"closing":  func(_ *inbox.Inbox, _ *bool, closing chan struct{}) { close(closing) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := inbox.New()
				needed, closing := false, make(chan struct{})
				hold := func() { b.HoldBack(closing, func() bool { return needed }) }
				b.Add(32<<20, text("all that may be held"))
				hold()
				b.Add(1)
				done := make(chan struct{})
				go func() { defer close(done); hold() }()
				synctest.Wait()
				select {
				case <-done:
					t.Fatal("the reader went on")
				default:
				}
				release(b, &needed, closing)
				<-done
			})
		})
	}
}
