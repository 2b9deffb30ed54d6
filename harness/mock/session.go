package mock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// A session is one agent: a goroutine that plays runs one after the other. Events are handed over one by one, so that what was yielded was received.
type session struct {
	harness *Harness
	memory  *conversation
	events  chan harness.Event
	inbox   chan *run
	stop    chan struct{} // closed when the agent is to go
	done    chan struct{} // closed when it has gone; exit is set then

	mu      sync.Mutex // guards the rest
	config  protocol.RunConfig
	resumed *bool  // told by the first turn
	runs    []*run // those that play or wait to be played
	turn    *run   // of Send, until just before its end is yielded
	exit    harness.Exit
	exited  bool // exit was received
	stopped bool
}

// A run is a script that plays: a turn, or something in the background.
type run struct {
	input   protocol.Input // nil in the background
	config  protocol.RunConfig
	steps   []step // of something in the background
	silent  bool   // of steps that are no turn of their own
	stop    chan struct{}
	over    chan struct{}
	stopped sync.Once

	mu    sync.Mutex // guards the rest
	deaf  bool
	extra []protocol.Input // steering that was not played yet
	steer chan struct{}    // has room for one token: there is some
}

// later is a block that is played at its time, or when what plays then is through.
type later struct {
	at     time.Time
	steps  []step
	silent bool
}

// errDead is what Send to an agent that has gone returns.
var errDead = &harness.Error{Category: protocol.CategoryProcessExit, Message: "the mock agent is gone; open the session again"}

func newRun(config protocol.RunConfig) *run {
	return &run{config: config, stop: make(chan struct{}), over: make(chan struct{}), steer: make(chan struct{}, 1)}
}

// Apply implements [harness.Session]: the next turn has the new configuration. An agent that has gone must be opened again.
func (s *session) Apply(_ context.Context, spec harness.Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return harness.ErrRestart
	}
	s.config = spec.Config
	return nil
}

// Send implements [harness.Session].
func (s *session) Send(ctx context.Context, turn harness.Turn) error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return errDead
	}
	if s.turn != nil {
		s.mu.Unlock()
		return errors.New("the mock agent plays a turn already; send the next one when it has ended")
	}
	r := newRun(s.config)
	r.input = turn.Input
	s.turn = r
	s.runs = append(s.runs, r)
	s.mu.Unlock()
	select {
	case s.inbox <- r:
		return nil
	case <-s.done:
		s.forget(r)
		return errDead
	case <-ctx.Done():
		s.forget(r)
		return context.Cause(ctx)
	}
}

// forget takes a run out that is over, so that it is neither interrupted nor in the way of the next.
func (s *session) forget(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = slices.DeleteFunc(s.runs, func(o *run) bool { return o == r })
	if s.turn == r {
		s.turn = nil
	}
}

// Recv implements [harness.Session].
func (s *session) Recv(ctx context.Context) (harness.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case e := <-s.events:
		return e, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.done:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exited {
		return nil, io.EOF
	}
	s.exited = true
	return s.exit, nil
}

// Interrupt implements [harness.Session].
func (s *session) Interrupt(ctx context.Context) error {
	s.mu.Lock()
	runs := slices.Clone(s.runs)
	s.mu.Unlock()
	for _, r := range runs {
		r.mu.Lock()
		deaf := r.deaf
		r.mu.Unlock()
		if !deaf {
			r.interrupt()
			continue
		}
		select {
		case <-r.over:
		case <-s.done:
		case <-ctx.Done():
			return fmt.Errorf("the mock agent ignores the interrupt: %w", context.Cause(ctx))
		}
	}
	return nil
}

func (r *run) interrupt() { r.stopped.Do(func() { close(r.stop) }) }

// Steer implements [harness.Steerer].
func (s *session) Steer(_ context.Context, input protocol.Input) (bool, error) {
	s.mu.Lock()
	r := s.turn
	s.mu.Unlock()
	if r == nil {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.stop:
		return false, nil
	case <-r.over:
		return false, nil
	default:
	}
	r.extra = append(r.extra, input)
	select {
	case r.steer <- struct{}{}:
	default:
	}
	return true, nil
}

// Close implements [harness.Session].
func (s *session) Close(context.Context) error {
	s.end(harness.Exit{})
	<-s.done
	return nil
}

// Kill implements [harness.Killer].
func (s *session) Kill() {
	s.end(harness.Exit{Error: &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: "the mock agent was killed"}})
}

// end has the agent go.
func (s *session) end(exit harness.Exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.stopped, s.exit = true, exit
		close(s.stop)
	}
}

// live is the agent.
func (s *session) live() {
	defer close(s.done)
	var waiting []later
	for {
		r := s.next(waiting)
		if r == nil {
			return
		}
		if r.input == nil {
			waiting = waiting[1:]
		}
		for r != nil {
			then, next, alive := s.play(r)
			if !alive {
				return
			}
			waiting = append(waiting, then...)
			slices.SortStableFunc(waiting, func(a, b later) int { return a.at.Compare(b.at) })
			r = next
		}
	}
}

// next waits for what is to be played: a turn, or the first of what is played later. It returns nil when the agent is to go.
func (s *session) next(waiting []later) *run {
	var due <-chan time.Time
	if len(waiting) > 0 {
		timer := time.NewTimer(time.Until(waiting[0].at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case r := <-s.inbox:
		return r
	case <-s.stop:
		return nil
	case <-due:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := newRun(s.config)
	r.steps, r.silent = waiting[0].steps, waiting[0].silent
	s.runs = append(s.runs, r)
	return r
}

// play plays a run to its end. It returns what is to be played later, a turn that came while a run in the background played and is told as one with
// it, and whether the agent lives on.
func (s *session) play(r *run) (then []later, next *run, alive bool) {
	p := &player{session: s, run: r}
	end, err := p.playAll()
	s.forget(r)
	r.mu.Lock()
	close(r.over)
	r.mu.Unlock()
	if err != nil { // it crashed, or was closed
		return nil, nil, false
	}
	if r.silent {
		return nil, nil, true
	}
	inbox := s.inbox
	if r.input != nil {
		inbox = nil // the end of a turn that was sent is always told
	}
	select {
	case next = <-inbox:
		return p.later(), next, true
	default:
	}
	select {
	case next = <-inbox:
	case s.events <- end:
	case <-s.stop:
		return nil, nil, false
	}
	return p.later(), next, true
}

// text is the input as a script: its text items, and a word for each of the others.
func text(in protocol.Input) string {
	var lines []string
	for _, item := range in {
		switch item.Type {
		case protocol.PartText:
			lines = append(lines, item.Text)
		default:
			lines = append(lines, fmt.Sprintf("# [%s %s]", item.Type, item.MimeType))
		}
	}
	return strings.Join(lines, "\n")
}
