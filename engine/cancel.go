package engine

import (
	"context"
	"time"

	"agentserver/protocol"
)

// A cancelling is the state of a turn that is to stop.
type cancelling struct {
	outcome  protocol.CancelOutcome // empty until it is known
	waiters  []chan<- protocol.TurnCancelResult
	timers   []*time.Timer
	stopping bool // stopTurn was called
	asked    bool // Interrupt was called
	forcibly bool // the agent is being closed
}

// cancel stops the active turn, if it is the one that is meant (or none is named), and has the outcome sent to the channel, which has room.
func (s *session) cancel(id protocol.TurnID, outcome chan<- protocol.TurnCancelResult) {
	t := s.turn
	if t == nil || id != "" && t.id != id {
		none := protocol.TurnCancelResult{Outcome: protocol.CancelNoActiveTurn}
		if t != nil {
			none.ActiveTurnID = t.id
		}
		outcome <- none
		return
	}
	if t.cancel == nil {
		t.cancel = &cancelling{}
	}
	t.cancel.waiters = append(t.cancel.waiters, outcome)
	if t.cancel.outcome != "" {
		t.cancel.settle(t, t.cancel.outcome)
		return
	}
	s.stopTurn(t)
}

// stopTurn begins the cancel of t.
func (s *session) stopTurn(t *turn) {
	if t.cancel.stopping {
		return
	}
	t.cancel.stopping = true
	s.settleAll()
	switch t.phase {
	case admitted: // takes effect when the turn begins
		t.cancel.settle(t, protocol.CancelConfirmed)
	case starting:
		s.endTurn(t, cancelled())
	case running:
		s.armEscalation(t)
		if t.sent {
			s.interrupt(t, s.link)
		} // else when Send has returned: an agent that has no input yet would have nothing to stop
	}
}

// armEscalation sees to it that the turn ends whatever the agent does. A confirmed interrupt gets more time than one that was not confirmed.
func (s *session) armEscalation(t *turn) {
	opts := &s.rt.opts
	step := func(at time.Duration, f func()) {
		t.cancel.timers = append(t.cancel.timers, s.after(at, func() {
			if s.turn == t {
				f()
			}
		}))
	}
	left := opts.CancelGrace - opts.InterruptTimeout
	step(opts.InterruptTimeout, func() {
		if t.cancel.outcome == "" {
			t.cancel.settle(t, protocol.CancelUnconfirmed)
			s.escalate(t)
		}
	})
	step(opts.InterruptTimeout+left/2, func() { s.escalate(t) })
	step(opts.CancelGrace-left/5, func() {
		if s.link != nil {
			s.kill(s.link)
		}
	})
	step(opts.CancelGrace, func() {
		s.log.Error("the agent could not be stopped in time; it is abandoned", "turn", string(t.id))
		s.detach()
		s.endTurn(t, cancelled())
	})
}

// interrupt asks the agent to stop.
func (s *session) interrupt(t *turn, l *link) {
	if l == nil || t.cancel.asked {
		return
	}
	t.cancel.asked = true
	l.note(s.call("Interrupt", func() error {
		ctx, stop := context.WithTimeout(t.ctx, s.rt.opts.InterruptTimeout)
		defer stop()
		return l.agent.Interrupt(ctx)
	}, func(err error) {
		switch {
		case s.turn != t:
		case err == nil:
			t.cancel.settle(t, protocol.CancelConfirmed)
		default:
			s.log.Warn("the agent did not confirm an interrupt", "turn", string(t.id), "error", err)
			t.cancel.settle(t, protocol.CancelUnconfirmed)
			s.escalate(t)
		}
	}))
}

// escalate has the agent closed, which ends the turn by its exit.
func (s *session) escalate(t *turn) {
	if t.cancel.forcibly || s.link == nil {
		return
	}
	t.cancel.forcibly = true
	s.beginClose(s.link)
}

// settle tells those who wait how the cancel went. The first outcome stays.
func (c *cancelling) settle(t *turn, outcome protocol.CancelOutcome) {
	if c.outcome == "" {
		c.outcome = outcome
	}
	for _, w := range c.waiters {
		w <- protocol.TurnCancelResult{Outcome: c.outcome, TurnID: t.id}
	}
	c.waiters = nil
}

func (c *cancelling) stopTimers() {
	for _, t := range c.timers {
		t.Stop()
	}
}
