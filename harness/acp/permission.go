package acp

import (
	"maps"
	"slices"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
)

// A pending is a question of the agent that waits for the engine's answer.
type pending struct {
	requestID string // the agent's, as it wrote it; it need not be unique
	options   []permissionOption
	call      *tool
	reply     func(result any)
}

// permission takes a session/request_permission. reply is called once, without the lock.
func (t *translator) permission(requestID string, params []byte, reply func(result any)) {
	var p permissionParams
	lenient(params, &p)
	q := &pending{requestID: requestID, options: p.Options, reply: reply}
	if p.ToolCall.ToolCallID == "" {
		p.ToolCall.ToolCallID = "permission-" + itoa(t.asked)
	}
	if t.phase != live || t.turn.cancelled {
		t.answer(q, cancelledOutcome)
		return
	}
	q.call = t.upsert(&p.ToolCall, true)
	t.closeText()
	q.call.running = true
	t.showTool(q.call)
	if allow, ruled := t.rule(q.call); ruled {
		q.call.refused = !allow
		t.answer(q, outcome(q.options, allow))
		return
	}
	t.asked++
	key := "permission-" + itoa(t.asked)
	t.perms[key] = q
	e := harness.Permission{
		Key: key, Title: q.call.shownTitle(), NoRules: q.call.kind == string(protocol.ToolKindSwitchMode),
		Tool: protocol.PermissionTool{
			ToolCallID: q.call.id, ToolName: q.call.toolName(), Kind: q.call.toolKind(), Title: q.call.shownTitle(), Locations: q.call.locations,
			RawInput: q.call.input,
		},
		Decide: func(d harness.Decision) error { return t.decide(key, d) },
	}
	if name := q.call.toolName(); !strings.HasPrefix(e.Title, name) {
		e.Title = name + ": " + e.Title
	}
	if len(e.Tool.RawInput) == 0 {
		if content := q.call.display(); len(content) > 0 { // gemini tells no input, but shows the diff
			e.Tool.RawInput = encode(object{"content": content})
		}
	}
	t.show(e)
}

// rule answers what the permission mode decides, where the agent does not by itself.
func (t *translator) rule(c *tool) (allow, ruled bool) {
	edits := c.kind == string(protocol.ToolKindEdit)
	switch {
	case t.mode == protocol.ModeBypassPermissions:
		return true, true
	case t.mode == protocol.ModeAcceptEdits && !t.native && edits:
		return true, true
	case t.mode == protocol.ModeDontAsk, !t.asks:
		return false, true
	}
	return false, false
}

// answer queues the reply to a question.
func (t *translator) answer(q *pending, result any) {
	t.out = append(t.out, func() { q.reply(result) })
}

// resolve takes the engine's answer. One that comes too late is no error.
func (t *translator) resolve(key string, d harness.Decision) {
	q := t.perms[key]
	if q == nil {
		return
	}
	delete(t.perms, key)
	allow := d.Allow
	if allow && d.UpdatedInput != nil {
		allow = false
		t.emit(harness.Failure{Category: protocol.CategoryInvalidRequest, Message: "permission outcome updatedInput: an ACP agent cannot be given another input, so the call was refused; " +
			"approve it as it is, or refuse it and tell the agent what to do instead"})
	}
	q.call.refused = !allow
	t.answer(q, outcome(q.options, allow))
}

var cancelledOutcome = object{"outcome": object{"outcome": "cancelled"}}

// outcome picks the option by its kind: the ids and names are the agent's own, and their order says nothing. An answer for this once is preferred,
// for standing rules are the engine's.
func outcome(options []permissionOption, allow bool) any {
	kinds := []string{"reject_once", "reject_always"}
	if allow {
		kinds = []string{"allow_once", "allow_always"}
	}
	for _, kind := range kinds {
		for _, o := range options {
			if o.Kind == kind {
				return object{"outcome": object{"outcome": "selected", "optionId": o.ID}}
			}
		}
	}
	return cancelledOutcome
}

// withdraw takes a question back that the agent no longer asks, and answers it all the same.
func (t *translator) withdraw(requestID string) {
	for _, key := range slices.Sorted(maps.Keys(t.perms)) {
		if t.perms[key].requestID == requestID {
			t.drop(key)
		}
	}
}

// withdrawAll answers all questions with cancelled, as an agent that is being stopped needs it.
func (t *translator) withdrawAll() {
	for _, key := range slices.Sorted(maps.Keys(t.perms)) {
		t.drop(key)
	}
}

func (t *translator) drop(key string) {
	t.answer(t.perms[key], cancelledOutcome)
	delete(t.perms, key)
	t.emit(harness.PermissionWithdrawn{Key: key})
}
