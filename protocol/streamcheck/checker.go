package streamcheck

import (
	"fmt"
	"iter"

	"agentserver/protocol"
)

// The bounds of a checker's memory.
const (
	maxParts    = 1 << 16
	maxIDs      = 1 << 16
	maxRequests = 1 << 12
)

// A Checker checks the stream of one session. The zero value is not usable; create one with [New]. It is not safe for concurrent use.
type Checker struct {
	session protocol.SessionID
	seq     uint64 // of the last event
	at      uint64 // of the event that is being checked
	begun   bool   // an event was seen
	// blind says that the stream began in the middle: what is not known may have been before it.
	blind bool

	turn        *turn                         // the one that runs
	turns       recent[protocol.TurnID, bool] // false for one whose beginning was not seen
	messages    recent[protocol.MessageID, bool]
	parts       recent[protocol.PartID, *part]
	requests    recent[protocol.RequestID, *request]
	compactions recent[protocol.CompactionID, protocol.CompactionStatus]

	folds folds
	found []Violation
}

// New returns a checker that has seen nothing.
func New() *Checker {
	c := &Checker{}
	c.turns.max, c.messages.max, c.parts.max, c.requests.max, c.compactions.max = maxIDs, maxIDs, maxParts, maxRequests, maxRequests
	c.folds.reset()
	return c
}

// Check checks a whole stream. An error that the stream yields is a violation of [RuleEvent] and does not end the check.
func Check(stream iter.Seq2[protocol.Envelope, error]) []Violation {
	c := New()
	var all []Violation
	for env, err := range stream {
		if err != nil {
			all = append(all, c.Undecodable(err))
			continue
		}
		all = append(all, c.Add(env)...)
	}
	return append(all, c.Finish()...)
}

// Add checks the next event and returns what is wrong with it. The slice is the caller's.
func (c *Checker) Add(env protocol.Envelope) []Violation {
	c.found = nil
	c.at = env.Seq
	if !c.envelope(env) {
		return c.found
	}
	c.event(env.Event)
	if c.folds.add(env.Event, c.turn == nil) {
		c.report(RuleFold, "the state differs when each upsert since the last turn's end is applied twice")
	}
	return c.found
}

// Undecodable counts an event that could not be decoded, and returns the violation. The event is taken to be the next one.
func (c *Checker) Undecodable(err error) Violation {
	c.seq++
	return Violation{c.seq, RuleEvent, err.Error()}
}

// Finish says what is missing at the end of the stream: a turn that has not ended. Leave it out for a stream that goes on.
func (c *Checker) Finish() []Violation {
	c.found, c.at = nil, c.seq
	if c.turn != nil {
		c.report(RuleNoEnd, "turn %s has not ended", c.turn.id)
	}
	return c.found
}

func (c *Checker) report(rule Rule, format string, args ...any) {
	c.found = append(c.found, Violation{c.at, rule, fmt.Sprintf(format, args...)})
}

// envelope checks what is around the event. It returns false for an event that is not of this session.
func (c *Checker) envelope(env protocol.Envelope) bool {
	if env.Event == nil {
		c.report(RuleEvent, "the envelope holds no event")
		return false
	}
	if !c.begun {
		c.begun, c.session, c.blind = true, env.SessionID, env.Seq > 1
		c.seq = max(env.Seq, 1) - 1
	}
	if env.SessionID != c.session {
		c.report(RuleSession, "the event is of session %s, the stream of %s", env.SessionID, c.session)
		return false
	}
	if env.Seq != c.seq+1 {
		c.report(RuleSeq, "number %d follows %d", env.Seq, c.seq)
	}
	c.seq = env.Seq
	if id := env.Event.Header().SessionID; id != "" && id != c.session {
		c.report(RuleSession, "the event names session %s, its envelope %s", id, c.session)
	}
	return true
}

func (c *Checker) event(e protocol.Event) {
	switch e := e.(type) {
	case *protocol.TurnStarted:
		c.turnStarted(e)
	case *protocol.TurnEnded:
		c.turnEnded(e)
	case *protocol.MessageStarted:
		c.messageStarted(e)
	case *protocol.MessageEnded:
		c.messageEnded(e)
	case *protocol.MessagePart:
		c.part(e)
	case *protocol.MessagePartDelta:
		c.delta(e)
	case *protocol.PermissionRequested:
		c.requested(e)
	case *protocol.PermissionResolved:
		c.resolved(e)
	case *protocol.SessionCreated:
		c.created(e)
	case *protocol.SessionEnded:
		if c.turn != nil && e.Reason != protocol.EndReplaced {
			c.report(RuleSessionEnded, "the session ends (%s) while turn %s runs", e.Reason, c.turn.id)
		}
	case *protocol.SessionUsage:
		c.inTurn(e.TurnID)
	case *protocol.SessionCompaction:
		c.compaction(e)
	case *protocol.SessionNotice:
		if e.TurnID != "" {
			c.inTurn(e.TurnID)
		}
	case *protocol.ErrorEvent:
		if e.TurnID != "" {
			c.inTurn(e.TurnID)
		}
	case *protocol.Raw:
		c.inTurn(e.TurnID)
	}
}

// inTurn checks that an event names the turn that runs.
func (c *Checker) inTurn(id protocol.TurnID) bool {
	if c.turn != nil && c.turn.id == id {
		return true
	}
	if c.unseen(id) {
		return false
	}
	if _, ended := c.turns.get(id); ended {
		c.report(RuleAfterEnd, "turn %s has ended", id)
	} else {
		c.report(RuleOutsideTurn, "turn %s does not run", id)
	}
	return false
}

// unseen reports whether a turn may have begun before the stream did.
func (c *Checker) unseen(id protocol.TurnID) bool {
	_, known := c.turns.get(id)
	return c.blind && !known && c.turn == nil
}

func (c *Checker) compaction(e *protocol.SessionCompaction) {
	c.inTurn(e.TurnID)
	before, known := c.compactions.get(e.CompactionID)
	if known && before != protocol.CompactionInProgress && e.Status != before {
		c.report(RuleCompaction, "compaction %s was %s and is %s", e.CompactionID, before, e.Status)
		return
	}
	c.compactions.put(e.CompactionID, e.Status)
}

func (c *Checker) created(e *protocol.SessionCreated) {
	if c.turn == nil {
		return
	}
	if b := c.turn.created; b != nil && b.NativeSessionID == e.NativeSessionID && b.Model == e.Model && b.Harness == e.Harness {
		c.report(RuleCreatedTwice, "session.created came before in turn %s, with the same content", c.turn.id)
	}
	c.turn.created = e
}

// A request is a permission request.
type request struct {
	turn     protocol.TurnID
	options  []protocol.PermissionOption
	resolved bool
}

func (c *Checker) requested(e *protocol.PermissionRequested) {
	in := c.inTurn(e.TurnID)
	if _, known := c.requests.get(e.RequestID); known {
		c.report(RuleIDReused, "permission request %s was made before", e.RequestID)
		return
	}
	c.requests.put(e.RequestID, &request{turn: e.TurnID, options: e.Options})
	if in {
		c.turn.pending++
	}
}

func (c *Checker) resolved(e *protocol.PermissionResolved) {
	in := c.inTurn(e.TurnID)
	r, known := c.requests.get(e.RequestID)
	switch {
	case !known && (c.requests.forgot || c.blind && !in):
	case !known:
		c.report(RuleResolveUnknown, "permission request %s was not made", e.RequestID)
	case r.resolved:
		c.report(RuleResolveTwice, "permission request %s was resolved before", e.RequestID)
	default:
		r.resolved = true
		if r.turn != e.TurnID {
			c.report(RuleResolveUnknown, "permission request %s is of turn %s, not %s", e.RequestID, r.turn, e.TurnID)
		}
		if c.turn != nil && c.turn.id == r.turn {
			c.turn.pending--
		}
		if e.Outcome.Outcome == protocol.OutcomeSelected && !offers(r.options, e.Outcome.OptionID) {
			c.report(RuleOption, "option %q of permission request %s was not offered", e.Outcome.OptionID, e.RequestID)
		}
		if e.Outcome.UpdatedInput != nil && c.turn != nil {
			c.turn.edited = true
		}
	}
}

func offers(options []protocol.PermissionOption, id string) bool {
	for _, o := range options {
		if o.OptionID == id {
			return true
		}
	}
	return false
}
