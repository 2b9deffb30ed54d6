package engine

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"agentserver/harness"
)

// A link is one opened agent and the goroutine that receives from it.
type link struct {
	agent  harness.Session
	events chan incoming

	listen context.Context // ends when nobody takes events any more
	stop   context.CancelFunc
	// closing is the context of Close; killNow ends it, which has the agent killed.
	closing context.Context
	killNow context.CancelFunc
	pumped  chan struct{} // closed when the pump has ended
	closed  chan struct{} // closed when Close has returned and the pump has ended

	// Of the actor:
	leaving bool              // Close was called
	fresh   bool              // no turn was sent yet
	heard   bool              // it has said something since the turn was sent
	calls   []<-chan struct{} // calls that may not have returned
}

// incoming is what Recv returned.
type incoming struct {
	event harness.Event
	err   error
}

// eventBuffer is how many events may wait between the agent and the actor. Beyond them the agent's pipe is the queue.
const eventBuffer = 64

// connect makes a link of an agent that was opened.
func (s *session) connect(agent harness.Session) *link {
	l := &link{agent: agent, events: make(chan incoming, eventBuffer), pumped: make(chan struct{}), closed: make(chan struct{}), fresh: true}
	l.listen, l.stop = context.WithCancel(context.Background())
	l.closing, l.killNow = context.WithCancel(context.Background())
	s.rt.work.Go(func() { s.pump(l) })
	return l
}

// note keeps a call that the next turn has to wait for, and forgets those that have returned.
func (l *link) note(call <-chan struct{}) {
	l.calls = append(slices.DeleteFunc(l.calls, func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}), call)
}

// pump receives from the agent until its end, or until nobody listens.
func (s *session) pump(l *link) {
	defer close(l.pumped)
	for {
		var in incoming
		in.err = s.guard("Recv", func() (err error) {
			in.event, err = l.agent.Recv(l.listen)
			return err
		})
		select {
		case l.events <- in:
		case <-l.listen.Done():
			return
		}
		if in.err != nil {
			return
		}
	}
}

// beginClose has the agent closed: politely, and by force when that takes too long. It does not wait.
func (s *session) beginClose(l *link) {
	if l.leaving {
		return
	}
	l.leaving = true
	s.rt.work.Go(func() {
		defer close(l.closed)
		defer l.killNow()
		defer time.AfterFunc(s.rt.opts.CancelGrace/2, l.killNow).Stop()
		if err := s.guard("Close", func() error { return l.agent.Close(l.closing) }); err != nil && !errors.Is(err, io.EOF) {
			s.log.Warn("closing the agent failed", "error", err)
		}
		<-l.pumped // while the link is connected the agent's last words are still taken, its exit among them
	})
}

// kill ends the agent by force.
func (s *session) kill(l *link) {
	l.killNow()
	if k, ok := l.agent.(harness.Killer); ok {
		s.call("Kill", func() error { k.Kill(); return nil }, nil)
	}
}

// detach lets the connected agent go, if there is one: its events are no longer taken, and what it left open in earlier turns is closed.
func (s *session) detach() {
	l := s.link
	if l == nil {
		return
	}
	s.link = nil
	l.stop()
	s.beginClose(l)
	s.leaving = append(s.leaving, leaver{l.closed, func() { s.kill(l) }})
	s.proc.abandon()
}

// A leaver is something of a former agent that has not gone yet.
type leaver struct {
	gone <-chan struct{}
	kill func() // may be nil
}

// pruneLeaving forgets what has gone.
func (s *session) pruneLeaving() {
	rest := s.leaving[:0:0]
	for _, v := range s.leaving {
		select {
		case <-v.gone:
		default:
			rest = append(rest, v)
		}
	}
	s.leaving = rest
}

// waitGone waits for all of them, for at most d, or until ctx ends. It reports whether all have gone.
func waitGone(ctx context.Context, all []leaver, d time.Duration) bool {
	gone := make([]<-chan struct{}, len(all))
	for i, v := range all {
		gone[i] = v.gone
	}
	return waitAll(ctx, gone, d)
}

func waitAll(ctx context.Context, all []<-chan struct{}, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for _, c := range all {
		select {
		case <-c:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
