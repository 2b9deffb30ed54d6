package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// A session is an actor. The first block of its fields never changes; the rest belongs to the goroutine of [session.run].
type session struct {
	rt      *Runtime
	id      protocol.SessionID
	harness harness.Harness
	serial  int
	created int64
	log     *slog.Logger
	inbox   chan func()
	gone    chan struct{} // closed when the actor has ended

	turn    *turn
	link    *link // the agent that is connected, if one is
	leaving []leaver
	proc    *processor
	permissions
	config protocol.RunConfig // the last turn's
	native string             // the agent's own session id, once it said so
	model  string             // the model that the agent said it uses
	asked  resumePoint        // the last resume point that a client asked for
	began  bool               // a turn has begun
	// lastModel is the model that the last turn to begin asked for.
	lastModel string
	recent    []finished      // the last completed turns, oldest first
	held      []harness.Event // said while no turn ran, kept for the next one

	updated int64     // when the last event was appended
	active  time.Time // when the agent was last heard or asked
	idle    *time.Timer
	closing protocol.EndReason // set when the session is to end
	closed  []chan struct{}    // closed when it has
	ended   bool
	folder  *folder
}

// A finished turn is remembered to recognize a repeated turn/start.
type finished struct {
	id       protocol.TurnID
	identity [32]byte
}

// rememberedTurns is how many completed turns are remembered.
const rememberedTurns = 16

// busyFactor is how many times longer than IdleTimeout an agent may be quiet while a tool of it goes on in the background.
const busyFactor = 8

func newSession(r *Runtime, id protocol.SessionID, h harness.Harness) *session {
	r.serial++
	s := &session{
		rt: r, id: id, harness: h, serial: r.serial,
		created: time.Now().UnixMilli(),
		log:     r.log.With("session", string(id), "harness", string(h.ID())),
		inbox:   make(chan func()),
		gone:    make(chan struct{}),
	}
	s.updated = s.created
	s.proc = newProcessor(id, s.emit)
	s.folder = &folder{id: id}
	return s
}

// run is the actor.
func (s *session) run() {
	defer close(s.gone)
	for !s.ended {
		select {
		case f := <-s.inbox:
			f()
		case in := <-s.events():
			s.receive(in)
			s.drain()
		}
	}
}

// events is where the agent is heard; nil while it must wait: when none is connected, and while a turn is admitted that has not begun, since what
// the agent says belongs behind that turn's first events.
func (s *session) events() <-chan incoming {
	if s.link == nil || s.turn != nil && s.turn.phase == admitted {
		return nil
	}
	return s.link.events
}

// drain takes what the agent has said meanwhile, up to a bound, without the cost of a full select for each.
func (s *session) drain() {
	for range eventBuffer {
		select {
		case in := <-s.events():
			s.receive(in)
		default:
			return
		}
	}
}

// do runs f on the actor and waits for it. It reports false, with f not run, when the session is over. It must not be called by the actor.
func (s *session) do(f func()) bool {
	done := make(chan struct{})
	if !s.post(func() { defer close(done); f() }) {
		return false
	}
	<-done
	return true
}

// post hands f to the actor. It reports false when the session is over.
func (s *session) post(f func()) bool {
	select {
	case s.inbox <- func() { s.protect(f) }:
		return true
	case <-s.gone:
		return false
	}
}

// after posts f after d. A callback that comes too late finds the state that it was for changed, and must see to that itself.
func (s *session) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { s.post(f) })
}

// protect turns a panic of the actor, a bug of ours, into the end of the turn. Should that panic too, the processor is in disorder; the turn is then
// ended without it.
func (s *session) protect(f func()) {
	if s.survives(f) {
		return
	}
	t := s.turn
	if t == nil {
		return
	}
	end := failed(&protocol.TurnError{Category: protocol.CategoryInternal, Message: "the engine failed; this is a bug, see the server's log"})
	if !s.survives(func() { s.endTurn(t, end) }) && s.turn == t {
		s.proc = newProcessor(s.id, s.emit)
		s.survives(func() { s.endTurn(t, end) })
	}
}

func (s *session) survives(f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("the engine panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	f()
	return true
}

// call runs a driver's function on a goroutine of its own, and then on the actor with what it returned. The channel is closed when f is through.
func (s *session) call(what string, f func() error, then func(error)) <-chan struct{} {
	returned := make(chan struct{})
	s.rt.work.Go(func() {
		err := s.guard(what, f)
		close(returned)
		if then != nil {
			s.post(func() { then(err) })
		}
	})
	return returned
}

// guard turns a panic in a driver into an error.
func (s *session) guard(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("the driver panicked", "in", what, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = panicError(what)
		}
	}()
	return f()
}

// emit appends an event to the session's log.
func (s *session) emit(e protocol.Event) {
	h := e.Header()
	h.SessionID = s.id
	h.Timestamp = time.Now().UnixMilli()
	s.updated = h.Timestamp
	entry := s.rt.store.Append(s.id, e)
	s.follow(protocol.Envelope{SessionID: s.id, Seq: entry.Seq(), Event: e})
}

// info is the session's row of `session/list`.
func (s *session) info() protocol.SessionInfo {
	first, latest := s.rt.store.Range(s.id)
	info := protocol.SessionInfo{
		SessionID: s.id, Harness: s.harness.ID(), NativeSessionID: s.native, Model: s.model, Cwd: s.config.Cwd,
		FirstAvailableSeq: first, LatestSeq: latest, CreatedAt: s.created, UpdatedAt: s.updated,
	}
	if info.Model == "" {
		info.Model = s.config.Model
	}
	if s.turn != nil {
		info.ActiveTurnID = s.turn.id
	}
	return info
}

// close ends a session that runs no turn; done is closed when it has.
func (s *session) close(reason protocol.EndReason, done chan struct{}) error {
	switch {
	case s.closing != "":
		return errSessionClosing(s.id)
	case s.turn != nil:
		return protocol.TurnActive(s.turn.id)
	}
	s.closing = reason
	s.closed = append(s.closed, done)
	s.leave()
	return nil
}

// leave lets the agent go and then ends the session. No turn runs.
func (s *session) leave() {
	s.detach()
	s.stopIdle()
	waiting := s.leaving
	s.call("Close", func() error { waitGone(context.Background(), waiting, s.rt.opts.CancelGrace); return nil }, func(error) { s.finish() })
}

// finish appends the session's last event and ends the actor.
func (s *session) finish() {
	if s.ended {
		return
	}
	s.emit(&protocol.SessionEnded{Reason: s.closing})
	if s.closing == protocol.EndReleased {
		s.rt.store.CloseSession(s.id)
	}
	s.rt.forget(s)
	s.ended = true
	for _, done := range s.closed {
		close(done)
	}
}

// armIdle starts the clock after which the agent of a quiet session is let go.
func (s *session) armIdle() {
	s.stopIdle()
	if d := s.rt.opts.IdleTimeout; d > 0 && s.link != nil && s.turn == nil && s.closing == "" {
		s.active = time.Now()
		s.idle = s.after(d, s.checkIdle)
	}
}

func (s *session) stopIdle() {
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
}

func (s *session) checkIdle() {
	if s.idle == nil || s.turn != nil || s.link == nil || s.closing != "" {
		return
	}
	limit := s.rt.opts.IdleTimeout
	if s.proc.busy() {
		limit *= busyFactor
	}
	if left := limit - time.Since(s.active); left > 0 {
		s.idle = s.after(min(left, s.rt.opts.IdleTimeout), s.checkIdle)
		return
	}
	s.stopIdle()
	s.detach()
	s.emit(&protocol.SessionEnded{Reason: protocol.EndIdle})
}
