package engine

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// A turn is what a session does at the moment. It is changed by the session's actor only.
type turn struct {
	id       protocol.TurnID
	input    protocol.Input
	config   protocol.RunConfig
	identity [sha256.Size]byte
	// own says that the agent began the turn by itself.
	own bool

	phase   phase
	ctx     context.Context // ends with the turn
	stop    context.CancelFunc
	begun   *time.Timer // begins the turn when nobody else does
	attempt int         // counts Apply and Open, so that an answer that is out of date is known
	sent    bool        // Send returned
	retried bool
	created bool // session.created was appended in this turn
	resumes bool // the agent was opened for this turn with a session to resume
	cancel  *cancelling
}

// A phase says how far a turn has come.
type phase int

const (
	admitted phase = iota // waits for Begin
	starting              // the agent is being opened or made to fit
	running               // the agent has the input, or is taking it
)

// recall recognizes a turn that was admitted before; it returns nil when t is new.
func (s *session) recall(t *turn) (*Admission, error) {
	same := func(identity [sha256.Size]byte) (*Admission, error) {
		if identity != t.identity {
			return nil, protocol.TurnConflict(t.id)
		}
		return &Admission{Result: protocol.TurnStartResult{SessionID: s.id, TurnID: t.id, Deduplicated: true}}, nil
	}
	if s.turn != nil && s.turn.id == t.id {
		return same(s.turn.identity)
	}
	for _, f := range s.recent {
		if f.id == t.id {
			return same(f.identity)
		}
	}
	return nil, nil
}

// admit gives the session to t, if it is free.
func (s *session) admit(h harness.Harness, t *turn) (*Admission, error) {
	if a, err := s.recall(t); a != nil || err != nil {
		return a, err
	}
	switch {
	case s.closing == protocol.EndShutdown:
		return nil, errShuttingDown
	case s.closing != "":
		return nil, errSessionClosing(s.id)
	case s.turn != nil:
		return nil, protocol.TurnActive(s.turn.id)
	case h != s.harness:
		return nil, protocol.InvalidParams(protocol.FieldError{Path: "config.harness",
			Message: "session " + string(s.id) + " belongs to harness " + string(s.harness.ID()) + "; use that, or another session"})
	}
	s.stopIdle()
	s.turn = t
	s.config = t.config
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.begun = s.after(s.rt.opts.AckTimeout, func() { s.begin(t) })
	return &Admission{Result: protocol.TurnStartResult{SessionID: s.id, TurnID: t.id}, session: s, turn: t}, nil
}

// begin appends the turn's first events and starts it.
func (s *session) begin(t *turn) {
	if s.turn != t || t.phase != admitted {
		return
	}
	t.begun.Stop()
	t.phase = starting
	s.emit(&protocol.TurnStarted{TurnID: t.id})
	s.proc.begin(t.id, t.input)
	s.tellUnsupported(t)
	held := s.held
	s.held = nil
	for _, e := range held {
		s.dispatch(e)
	}
	if t.cancel != nil {
		s.endTurn(t, cancelled())
		return
	}
	s.start(t)
}

// tellUnsupported reports the fields of the turn's configuration that its harness cannot honour.
func (s *session) tellUnsupported(t *turn) {
	caps := s.harness.Capabilities()
	fields := unsupported(&t.config, caps)
	switched := s.began && t.config.Model != s.lastModel
	if switched && caps.ModelSwitch == protocol.ModelSwitchUnsupported && !slices.Contains(fields, "model") {
		fields = append(fields, "model")
	}
	s.began, s.lastModel = true, t.config.Model
	for _, field := range fields {
		s.emit(&protocol.ErrorEvent{TurnID: t.id, Category: protocol.CategoryInvalidRequest, Recoverable: true,
			Message: "config." + field + ": harness " + string(s.harness.ID()) + " cannot honour it; the turn runs without it"})
	}
}

// beginOwn opens a turn that the agent began by itself.
func (s *session) beginOwn() {
	t := &turn{id: protocol.TurnID(protocol.NewID()), config: s.config, own: true, phase: running, sent: true}
	t.ctx, t.stop = context.WithCancel(context.Background())
	s.stopIdle()
	s.turn = t
	s.emit(&protocol.TurnStarted{EventHeader: protocol.EventHeader{Meta: originAgent}, TurnID: t.id})
	s.proc.begin(t.id, nil)
}

var originAgent = protocol.Meta{}.With(protocol.MetaOrigin, "agent")

// endTurn is the one way out of a turn that has begun.
func (s *session) endTurn(t *turn, end harness.TurnEnd) {
	if s.turn != t {
		return
	}
	t.stop()
	s.settleAll()
	background := end.Background
	if s.link == nil {
		background = nil // whatever ran in it is gone
	}
	s.proc.end(background)
	s.emit(t.ended(end))
	s.turn = nil
	if !t.own {
		s.rt.release()
		s.remember(t)
	}
	if t.cancel != nil {
		t.cancel.settle(t, protocol.CancelConfirmed)
		t.cancel.stopTimers()
	}
	if s.link != nil && s.link.leaving {
		s.detach()
	}
	if s.closing != "" {
		s.leave()
		return
	}
	s.armIdle()
}

// ended makes the turn's last event.
func (t *turn) ended(end harness.TurnEnd) *protocol.TurnEnded {
	e := &protocol.TurnEnded{TurnID: t.id, StopReason: end.StopReason, FinishReason: end.FinishReason, Tokens: end.Tokens, Cost: end.Cost, Error: end.Error}
	e.Meta = validMeta(end.Meta)
	switch unsaid := blank(string(e.StopReason)); {
	case unsaid && e.Error == nil:
		e.StopReason = protocol.StopEndTurn
	case unsaid:
		e.StopReason = protocol.StopError
	case e.StopReason == protocol.StopError && e.Error == nil:
		e.Error = &protocol.TurnError{Category: protocol.CategoryInternal, Message: "the agent reported an error without saying which"}
	}
	if t.cancel != nil && e.Error != nil && (e.Error.Category == protocol.CategoryAbort || e.Error.Category == protocol.CategoryProcessExit) {
		e.StopReason, e.Error = protocol.StopCancelled, nil
	}
	if e.StopReason != protocol.StopError {
		e.Error = nil
	}
	if e.Error != nil && blank(string(e.Error.Category)) {
		e.Error = &protocol.TurnError{Category: protocol.CategoryInternal, Message: e.Error.Message}
	}
	return e
}

func (s *session) remember(t *turn) {
	s.recent = append(s.recent, finished{t.id, t.identity})
	if over := len(s.recent) - rememberedTurns; over > 0 {
		s.recent = slices.Delete(s.recent, 0, over)
	}
}

func cancelled() harness.TurnEnd { return harness.TurnEnd{StopReason: protocol.StopCancelled} }

func failed(err *protocol.TurnError) harness.TurnEnd {
	return harness.TurnEnd{StopReason: protocol.StopError, Error: err}
}
