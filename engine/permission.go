package engine

import (
	"slices"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// permissions are a session's open requests and standing rules.
type permissions struct {
	asks  []*ask          // in the order in which they were asked
	rules map[string]bool // by tool name: whether it is allowed
}

// An ask is a request that nobody has answered.
type ask struct {
	id    protocol.RequestID
	turn  protocol.TurnID
	req   harness.Permission
	timer *time.Timer // nil without a timeout
}

// The bounds of what an agent can make the engine keep.
const (
	maxAsks  = 1024
	maxRules = 4096
)

// metaParentToolCall names the tool call under which a sub-agent asks.
const metaParentToolCall = "agent-server/parentToolCallId"

const (
	nobodyThere = "Denied: nobody is there to approve this, and the permission mode does not allow it. Go on without it, or say what you would need."
	tooManyAsks = "Denied: too many permission requests are open at the same time."
	byRule      = "Denied: the user has ruled this tool out for the session."
)

// ask takes a request of the agent: it is answered by what is known already, or put to the clients.
func (s *session) ask(req *harness.Permission) {
	t := s.turn
	if t.cancel != nil {
		s.decide(req, harness.Decision{Cancelled: true})
		return
	}
	if allow, ruled := s.rules[req.Tool.ToolName]; ruled && !req.NoRules {
		s.decide(req, ruling(allow))
		return
	}
	if !t.config.AsksPermission() {
		s.decide(req, harness.Decision{Message: nobodyThere})
		return
	}
	if len(s.asks) >= maxAsks {
		s.decide(req, harness.Decision{Message: tooManyAsks})
		return
	}
	a := &ask{id: protocol.RequestID(protocol.NewID()), turn: t.id, req: *req}
	s.asks = append(s.asks, a)
	e := &protocol.PermissionRequested{TurnID: t.id, RequestID: a.id, Title: req.Title, ToolCall: validTool(req), Options: protocol.Options()}
	if req.ParentToolCallID != "" {
		e.Meta = protocol.Meta{}.With(metaParentToolCall, req.ParentToolCallID)
	}
	s.emit(e)
	if d := s.rt.opts.PermissionTimeout; d > 0 {
		a.timer = s.after(d, func() { s.settle(a, protocol.Cancelled(), harness.Decision{Cancelled: true}) })
	}
}

// checkOutcome refuses an option that was not offered: an unknown one is never an approval.
func checkOutcome(o protocol.PermissionOutcome) []protocol.FieldError {
	if o.Outcome != protocol.OutcomeSelected || o.OptionID == "" {
		return nil
	}
	if _, ok := optionKind(o.OptionID); !ok {
		return []protocol.FieldError{{Path: "outcome.optionId", Message: "was not offered; choose one of allow, allow_always, reject, reject_always"}}
	}
	return nil
}

func optionKind(id string) (protocol.OptionKind, bool) {
	for _, o := range protocol.Options() {
		if o.OptionID == id {
			return o.Kind, true
		}
	}
	return "", false
}

// respond settles a request with a client's answer, which was checked. It reports whether the request was open.
func (s *session) respond(id protocol.RequestID, outcome protocol.PermissionOutcome) bool {
	i := slices.IndexFunc(s.asks, func(a *ask) bool { return a.id == id })
	if i < 0 {
		return false
	}
	a := s.asks[i]
	if outcome.Outcome == protocol.OutcomeCancelled {
		s.settle(a, protocol.Cancelled(), harness.Decision{Cancelled: true})
		return true
	}
	kind, _ := optionKind(outcome.OptionID)
	always := kind == protocol.OptionAllowAlways || kind == protocol.OptionRejectAlways
	d := harness.Decision{Allow: kind.Allows(), Always: always}
	if d.Allow {
		d.UpdatedInput = outcome.UpdatedInput
	} else {
		outcome.UpdatedInput = nil
	}
	s.settle(a, outcome, d)
	if always && !a.req.NoRules && a.req.Tool.ToolName != "" {
		s.rule(a.req.Tool.ToolName, d.Allow)
	}
	return true
}

// rule makes a standing rule, which also answers what is open for the same tool.
func (s *session) rule(tool string, allow bool) {
	if s.rules == nil {
		s.rules = make(map[string]bool)
	}
	if len(s.rules) >= maxRules {
		return
	}
	s.rules[tool] = allow
	option := protocol.OptionIDRejectAlways
	if allow {
		option = protocol.OptionIDAllowAlways
	}
	for _, a := range slices.Clone(s.asks) {
		if a.req.Tool.ToolName == tool && !a.req.NoRules {
			s.settle(a, protocol.Selected(option), ruling(allow))
		}
	}
}

func ruling(allow bool) harness.Decision {
	d := harness.Decision{Allow: allow, Always: true}
	if !allow {
		d.Message = byRule
	}
	return d
}

// withdraw settles a request that the agent no longer wants an answer to.
func (s *session) withdraw(key string) {
	if i := slices.IndexFunc(s.asks, func(a *ask) bool { return a.req.Key == key }); i >= 0 {
		s.resolve(s.asks[i], protocol.Cancelled())
	}
}

// settleAll resolves what is open as cancelled.
func (s *session) settleAll() {
	for len(s.asks) > 0 {
		s.settle(s.asks[0], protocol.Cancelled(), harness.Decision{Cancelled: true})
	}
}

// settle resolves a request and tells the agent. It does nothing when the request is no longer open.
func (s *session) settle(a *ask, outcome protocol.PermissionOutcome, d harness.Decision) {
	if s.resolve(a, outcome) {
		s.decide(&a.req, d)
	}
}

// resolve takes a request out and appends its end.
func (s *session) resolve(a *ask, outcome protocol.PermissionOutcome) bool {
	i := slices.Index(s.asks, a)
	if i < 0 {
		return false
	}
	s.asks = slices.Delete(s.asks, i, i+1)
	if a.timer != nil {
		a.timer.Stop()
	}
	s.emit(&protocol.PermissionResolved{TurnID: a.turn, RequestID: a.id, Outcome: outcome})
	return true
}

// decide tells the agent, which may block or fail.
func (s *session) decide(req *harness.Permission, d harness.Decision) {
	if req.Decide == nil {
		return
	}
	tool := req.Tool.ToolName
	s.call("Decide", func() error { return req.Decide(d) }, func(err error) {
		if err == nil || d.Cancelled {
			return
		}
		s.log.Warn("the agent did not take an answer", "tool", tool, "error", err)
		if s.turn != nil {
			s.failure(harness.Failure{Category: protocol.CategoryInternal, Message: "the answer about " + tool + " could not be delivered to the agent; cancel the turn if it hangs"})
		}
	})
}
