package acp

import (
	"context"
	"errors"
	"time"

	"agentserver/internal/transport"
	"agentserver/protocol"
)

// steerWait bounds the answer to a steering request, which agents give before they act on it.
const steerWait = 20 * time.Second

// Steer implements [harness.Steerer], by an extension of ACP that an agent offers in the `_meta` of its answer to initialize. An agent without it
// declines.
func (s *session) Steer(ctx context.Context, input protocol.Input) (bool, error) {
	s.mu.Lock()
	able := s.agent.Meta.Steering.Supported && s.t.turn.active && s.t.turn.answer == nil && !s.t.turn.cancelled && !s.gone
	native := s.t.session
	blocks, failures := promptBlocks(input, &s.agent.Capabilities)
	s.mu.Unlock()
	if !able {
		return false, nil
	}
	raw, err := s.call(ctx, steerWait, "_session/steering", object{
		"sessionId": native, "prompt": blocks,
		"_meta": object{"steering": object{"idleBehavior": "promptRequired"}}, // without it an idle agent would begin a turn that nobody asked for
	})
	if _, refused := errors.AsType[*transport.Error](err); refused || errors.Is(err, errGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var r struct {
		Outcome string `json:"outcome"`
	}
	if !lenient(raw, &r) || r.Outcome != "injected" {
		return false, nil
	}
	s.do(func(t *translator) {
		for _, f := range failures {
			t.emit(f)
		}
	})
	return true, nil
}
