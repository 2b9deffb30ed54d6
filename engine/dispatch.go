package engine

import (
	"errors"
	"io"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// maxHeld bounds what is kept for the next turn.
const maxHeld = 16

// receive takes what Recv returned.
func (s *session) receive(in incoming) {
	s.protect(func() {
		switch {
		case in.err == nil:
			s.link.heard = true
			s.active = time.Now()
			s.dispatch(in.event)
		case errors.Is(in.err, io.EOF):
			s.agentGone(&protocol.TurnError{Category: protocol.CategoryProcessExit, Message: "the agent's stream ended; start another turn to start it again"})
		default:
			s.agentGone(harness.TurnError(in.err, protocol.CategoryProcessExit))
		}
	})
}

// dispatch brings one event of the agent into the session's log. An event that begins something while no turn runs opens a turn of the agent's own.
func (s *session) dispatch(event harness.Event) {
	switch e := event.(type) {
	case harness.Delta:
		if s.ready(s.proc.begins(e.Key)) {
			s.proc.delta(&e)
		}
	case harness.PartUpdate:
		if showable(e.Part) && s.ready(s.proc.begins(e.Key)) {
			s.proc.update(&e)
		}
	case harness.MessageStarted:
		if s.ready(true) {
			s.proc.messageStarted(&e)
		}
	case harness.MessageEnded:
		s.proc.messageEnded()
	case harness.SessionStarted:
		s.sessionStarted(&e)
	case harness.Permission:
		if s.closing == "" && s.ready(true) {
			s.ask(&e)
			return
		}
		s.decide(&e, harness.Decision{Cancelled: true})
	case harness.PermissionWithdrawn:
		s.withdraw(e.Key)
	case harness.Usage, harness.Compaction:
		s.gauge(e)
	case harness.Notice:
		s.notice(e)
	case harness.Failure:
		s.failure(e)
	case harness.Raw:
		if data := validJSON(e.Data); data != nil && s.turn != nil && s.turn.config.IncludeRaw {
			s.emit(&protocol.Raw{TurnID: s.turn.id, Harness: s.harness.ID(), Data: data})
		}
	case harness.TurnEnd:
		s.agentEnded(e)
	case harness.Exit:
		s.agentGone(e.Error)
	default:
		s.log.Error("the driver yielded an event that the engine does not know", "type", event)
	}
}

// ready reports whether an event can be taken now. One that begins something needs a turn, and gets one.
func (s *session) ready(begins bool) bool {
	if s.turn != nil || !begins {
		return true
	}
	if s.closing != "" {
		return false
	}
	s.beginOwn()
	return true
}

// agentEnded ends the turn that runs. An end that comes while no input was sent belongs to an earlier turn, which has ended otherwise; one of the
// agent's own turn that crossed with a client's belongs to none: what that turn said stands in the client's.
func (s *session) agentEnded(e harness.TurnEnd) {
	t := s.turn
	if t == nil || t.phase != running || e.Own && !t.own {
		s.log.Debug("the agent ended a turn that is over")
		return
	}
	s.endTurn(t, e)
}

// agentGone is told that the connected agent has ended, however it did; nil is an end that was asked for.
func (s *session) agentGone(err *protocol.TurnError) {
	s.detach()
	s.stopIdle()
	t := s.turn
	switch {
	case t == nil:
		if err != nil {
			s.log.Info("the agent ended between turns; the next one resumes", "reason", err.Message)
		}
	case t.phase == running && t.cancel != nil:
		s.endTurn(t, cancelled())
	case t.phase == running:
		if err == nil {
			err = &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: "the agent ended before the turn did"}
		}
		s.endTurn(t, failed(err))
	case t.phase == starting:
		s.open(t) // it was being made to fit
	}
}

// sessionStarted notes the agent's own session id, and reports it once a turn and when it changes.
func (s *session) sessionStarted(e *harness.SessionStarted) {
	if blank(e.NativeSessionID) {
		return
	}
	changed := e.NativeSessionID != s.native || e.Model != "" && e.Model != s.model
	s.native = e.NativeSessionID
	if e.Model != "" {
		s.model = e.Model
	}
	t := s.turn
	if !changed && (t == nil || t.created) {
		return
	}
	created := &protocol.SessionCreated{NativeSessionID: s.native, Harness: s.harness.ID(), Model: s.model}
	if t != nil {
		t.created = true
		// A context that was lost must be told also where only the engine asked to resume.
		if e.Resumed != nil && (t.config.ResumeSessionID != "" || !*e.Resumed && t.resumes) {
			created.Resumed = e.Resumed
		}
	}
	s.emit(created)
}

// gauge takes usage and compactions. They name a turn, so what comes between turns waits for the next.
func (s *session) gauge(event harness.Event) {
	t := s.turn
	if t == nil {
		if len(s.held) < maxHeld {
			s.held = append(s.held, event)
		}
		return
	}
	switch e := event.(type) {
	case harness.Usage:
		s.emit(&protocol.SessionUsage{TurnID: t.id, Used: max(e.Used, 0), Size: max(e.Size, 0), Cost: e.Cost})
	case harness.Compaction:
		s.proc.compaction(&e)
	}
}

func (s *session) notice(n harness.Notice) {
	e := &protocol.SessionNotice{Kind: n.Kind, Message: n.Message, Progress: n.Progress}
	if blank(string(e.Kind)) {
		e.Kind = protocol.NoticeWarning
	}
	if s.turn != nil {
		e.TurnID = s.turn.id
	}
	s.emit(e)
}

func (s *session) failure(f harness.Failure) {
	e := &protocol.ErrorEvent{Category: f.Category, Message: f.Message, Recoverable: true}
	if blank(string(e.Category)) {
		e.Category = protocol.CategoryInternal
	}
	if s.turn != nil {
		e.TurnID = s.turn.id
	}
	s.emit(e)
}
