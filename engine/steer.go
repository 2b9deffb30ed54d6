package engine

import (
	"agentserver/harness"
	"agentserver/protocol"
)

// steered is the answer to `turn/steer`.
type steered struct {
	accepted bool
	err      error
}

// steer hands input to the turn that runs and has the answer sent to the channel, which has room.
func (s *session) steer(p protocol.TurnSteerParams, answer chan<- steered) {
	t, l := s.turn, s.link
	caps := s.harness.Capabilities()
	if t == nil || t.id != p.TurnID || t.phase != running || !t.sent || t.cancel != nil || l == nil || !caps.Steering {
		answer <- steered{}
		return
	}
	steerer, ok := l.agent.(harness.Steerer)
	if !ok {
		answer <- steered{}
		return
	}
	if errs := checkInput(p.Input, s.harness.ID(), caps); len(errs) > 0 {
		answer <- steered{err: protocol.InvalidParams(errs...)}
		return
	}
	var accepted bool
	l.note(s.call("Steer", func() (err error) {
		accepted, err = steerer.Steer(t.ctx, p.Input)
		return err
	}, func(err error) {
		if err == nil && accepted && s.turn == t {
			s.proc.steered(p.Input)
		}
		if err != nil && s.turn == t {
			answer <- steered{err: protocol.AsError(err)}
			return
		}
		answer <- steered{accepted: err == nil && accepted}
	}))
}
