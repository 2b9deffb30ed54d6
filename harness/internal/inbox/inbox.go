// Package inbox holds what an agent has said until the engine receives it. It is the piece between a driver's reader and [harness.Session.Recv] that
// all process-backed drivers share.
package inbox

import (
	"context"
	"io"
	"slices"
	"sync"

	"agentserver/harness"
)

const (
	// maxHeld is how much of an agent's output, in bytes, may wait before reading stops, which makes the pipe hold the agent back.
	maxHeld = 32 << 20
	// keptRoom is how many events an empty inbox keeps room for: what a burst has needed is not kept.
	keptRoom = 1024
)

// An Inbox is an ordered queue of events with an end. It never refuses an event; [Inbox.HoldBack] is where a reader waits while too much is held. Its
// methods are safe for concurrent use, but for Recv, which one goroutine calls. None of them calls back under the inbox's lock, so that they may be
// called under a driver's own.
type Inbox struct {
	wake chan struct{} // has one token when there may be something for Recv
	room chan struct{} // has one token when the reader may go on

	mu     sync.Mutex // guards what follows
	events []harness.Event
	head   int // events[head:] is still to be received
	held   int // bytes of the output that the events came from
	ended  bool
}

// New returns an empty inbox.
func New() *Inbox {
	return &Inbox{wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Add appends events, which came from size bytes of output.
func (b *Inbox) Add(size int, events ...harness.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += size
	if len(events) > 0 {
		b.events = append(b.events, events...)
		signal(b.wake)
	}
}

// End appends the last event.
func (b *Inbox) End(exit harness.Exit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, exit)
	b.ended = true
	signal(b.wake)
}

// DropTurnEnds takes out the ends of turns that were not received yet. A driver does so as it begins a turn: the end of one that the engine has not seen
// begin would end the new one.
func (b *Inbox) DropTurnEnds() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = slices.DeleteFunc(b.events[b.head:], func(e harness.Event) bool { _, is := e.(harness.TurnEnd); return is })
	b.head = 0
}

// Recv is [harness.Session.Recv].
func (b *Inbox) Recv(ctx context.Context) (harness.Event, error) {
	for {
		if e, ok, over := b.next(); ok {
			return e, nil
		} else if over {
			return nil, io.EOF
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (b *Inbox) next() (e harness.Event, ok, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.head == len(b.events) {
		if b.ended {
			signal(b.wake) // for the next call
		}
		return nil, false, b.ended
	}
	e = b.events[b.head]
	b.events[b.head] = nil
	b.head++
	if b.head == len(b.events) {
		b.events, b.head, b.held = b.events[:0], 0, 0
		if cap(b.events) > keptRoom {
			b.events = nil
		}
		signal(b.room)
	}
	return e, true, false
}

// HoldBack is called by the reader after each line, and waits while too much is held: until all of it was received, needed reports that somebody waits
// for what is still to be read (say so with [Inbox.Nudge]), or closing is closed.
func (b *Inbox) HoldBack(closing <-chan struct{}, needed func() bool) {
	for b.full() && !needed() {
		select {
		case <-b.room:
		case <-closing:
			return
		}
	}
}

// Nudge has a reader that is held back ask again whether it is needed.
func (b *Inbox) Nudge() { signal(b.room) }

func (b *Inbox) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held > maxHeld && b.head < len(b.events)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
