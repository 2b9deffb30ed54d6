package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// A resumePoint is where in an agent's own history a session goes on.
type resumePoint struct{ session, at string }

// exitGrace is how long an agent that did not take its input may still say why: its exit explains more than a broken pipe.
const exitGrace = 300 * time.Millisecond

// start brings the turn's input to an agent: the connected one where it can be made to fit, else a new one.
func (s *session) start(t *turn) {
	want := resumePoint{t.config.ResumeSessionID, t.config.ResumeSessionAt}
	if s.link != nil && want.session != "" && want != s.asked && want.session != s.native {
		s.detach() // another history
	}
	if s.link == nil {
		s.open(t)
		return
	}
	s.apply(t)
}

// apply makes the connected agent fit the turn.
func (s *session) apply(t *turn) {
	l, spec := s.link, s.spec(t)
	t.attempt++
	attempt := t.attempt
	busy := l.calls
	l.calls = []<-chan struct{}{s.call("Apply", func() error {
		if !waitAll(t.ctx, busy, s.rt.opts.InterruptTimeout) {
			return harness.ErrRestart // something of an earlier turn hangs in the driver
		}
		return l.agent.Apply(t.ctx, spec)
	}, func(err error) {
		switch {
		case s.turn != t || t.attempt != attempt:
		case err == nil:
			s.send(t, l)
		case errors.Is(err, harness.ErrRestart):
			s.detach()
			s.open(t)
		default:
			s.endTurn(t, failed(harness.TurnError(err, protocol.CategoryInternal)))
		}
	})}
}

// open starts an agent for the turn, once its forerunners have gone.
func (s *session) open(t *turn) {
	s.pruneLeaving()
	forerunners := s.leaving
	spec := s.spec(t)
	s.resumeIn(t, &spec)
	spec.Notify = func(n harness.Notice) {
		s.post(func() {
			if s.turn == t {
				s.notice(n)
			}
		})
	}
	t.attempt++
	attempt := t.attempt
	returned := make(chan struct{})
	s.leaving = append(s.leaving, leaver{gone: returned})
	s.rt.work.Go(func() {
		agent, err := s.openAgent(t, spec, forerunners)
		close(returned)
		if !s.post(func() { s.opened(t, attempt, agent, err) }) && agent != nil {
			s.closeUnused(agent)
		}
	})
}

// openAgent runs off the actor.
func (s *session) openAgent(t *turn, spec harness.Spec, forerunners []leaver) (agent harness.Session, err error) {
	if !waitGone(t.ctx, forerunners, s.rt.opts.CancelGrace) && t.ctx.Err() == nil {
		s.log.Error("a former agent of the session does not go away; another one is started beside it")
	}
	ctx, cancel := context.WithTimeout(t.ctx, s.rt.opts.OpenTimeout)
	defer cancel()
	if err = ctx.Err(); err != nil {
		return nil, err
	}
	err = s.guard("Open", func() (err error) {
		agent, err = s.harness.Open(ctx, spec)
		return err
	})
	switch {
	case err != nil:
		agent = nil
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = &harness.Error{Category: protocol.CategoryInternal, Err: err,
				Message: fmt.Sprintf("the agent did not start within %v; see the server's log, or try again", s.rt.opts.OpenTimeout)}
		}
	case agent == nil:
		err = panicError("Open")
	case t.ctx.Err() != nil:
		s.closeUnused(agent) // before the next agent may be opened
		agent, err = nil, t.ctx.Err()
	}
	return agent, err
}

// closeUnused ends an agent that nobody waits for any more.
func (s *session) closeUnused(agent harness.Session) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.guard("Close", func() error { return agent.Close(ctx) })
}

// opened takes the result of [session.open].
func (s *session) opened(t *turn, attempt int, agent harness.Session, err error) {
	switch {
	case s.turn != t || t.attempt != attempt:
		if agent != nil {
			l := s.connect(agent)
			l.stop()
			s.beginClose(l)
			s.leaving = append(s.leaving, leaver{l.closed, func() { s.kill(l) }})
		}
	case err != nil:
		s.endTurn(t, failed(harness.TurnError(err, protocol.CategoryInternal)))
	default:
		s.link = s.connect(agent)
		s.send(t, s.link)
	}
}

// send hands the input over. From here on, what the agent says belongs to the turn.
func (s *session) send(t *turn, l *link) {
	t.phase = running
	l.heard = false
	warm := !l.fresh
	l.fresh = false
	l.note(s.call("Send", func() error {
		return l.agent.Send(t.ctx, harness.Turn{ID: t.id, Input: t.input})
	}, func(err error) { s.taken(t, l, warm, err) }))
}

// taken is told what Send returned.
func (s *session) taken(t *turn, l *link, warm bool, err error) {
	if s.turn != t || s.link != l {
		return
	}
	switch {
	case err == nil:
		t.sent = true
		if t.cancel != nil {
			s.interrupt(t, l)
		}
	case t.cancel != nil:
		s.detach()
		s.endTurn(t, cancelled())
	case warm && !l.heard && !t.retried:
		// The agent died unnoticed since its last turn, and has not seen this one.
		t.retried = true
		t.phase = starting
		s.detach()
		s.open(t)
	default:
		s.after(exitGrace, func() {
			if s.turn == t {
				s.detach()
				s.endTurn(t, failed(harness.TurnError(err, protocol.CategoryProcessExit)))
			}
		})
	}
}

// spec is what the turn's agent has to fit.
func (s *session) spec(t *turn) harness.Spec {
	return harness.Spec{
		SessionID: s.id,
		Config:    t.config,
		Env:       s.rt.opts.childEnv(t.config.Env),
		Logger:    s.log,
	}
}

// resumeIn says where a new agent goes on: where the client asks, when it asks for something new; else where the last agent was.
func (s *session) resumeIn(t *turn, spec *harness.Spec) {
	want := resumePoint{t.config.ResumeSessionID, t.config.ResumeSessionAt}
	switch {
	case want.session != "" && want != s.asked:
		s.asked = want
		spec.Resume, spec.ResumeAt = want.session, want.at
	case s.native != "":
		spec.Resume = s.native
	case want.session != "":
		spec.Resume, spec.ResumeAt = want.session, want.at
	}
	t.resumes = spec.Resume != ""
}
