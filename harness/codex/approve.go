package codex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A pending is a question of codex that waits for the engine's answer.
type pending struct {
	id     json.RawMessage // codex's, to be given back exactly: with another JSON type the answer is ignored
	thread string
	input  json.RawMessage
	// answer makes the result. note is what the model should hear, for most answers cannot say it.
	answer func(harness.Decision) (result any, note string)
}

// approvalParams are the parameters of all that codex asks.
type approvalParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
	Reason   string `json:"reason"`

	Command     string          `json:"command"`
	Cwd         string          `json:"cwd"`
	Permissions json.RawMessage `json:"permissions"`
	GrantRoot   string          `json:"grantRoot"`

	Server  string          `json:"serverName"`
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	URL     string          `json:"url"`
	Schema  json.RawMessage `json:"requestedSchema"`
	Meta    struct {
		Kind  string          `json:"codex_approval_kind"`
		Tool  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_params"`
	} `json:"_meta"`

	Questions json.RawMessage `json:"questions"`
}

// asked handles a request of codex. Every one is answered exactly once, unless it is withdrawn: codex would wait for ever.
func (t *translator) asked(m message) {
	id := bytes.Clone(m.id)
	ask, known := questions[m.method]
	if !known {
		t.strange("request", m.method)
		t.send(encode(object{"id": json.RawMessage(id), "error": object{"code": -32601, "message": "this host does not support " + m.method}}))
		return
	}
	decode(t, m.params, func(t *translator, p *approvalParams) {
		event, answer := ask(t, p)
		q := &pending{id: id, thread: p.ThreadID, input: event.Tool.RawInput, answer: answer}
		if !t.asks {
			t.reply(q, harness.Decision{Message: "Nobody is there to give permission for this."})
			return
		}
		th := t.threadOf(p.ThreadID)
		event.Key = string(id)
		event.ParentToolCallID = th.parent
		key := event.Key
		event.Decide = func(d harness.Decision) error { return t.decide(key, d) }
		t.perms[key] = q
		t.open()
		t.emit(event)
	})
}

// questions are what codex may ask.
var questions = map[string]func(*translator, *approvalParams) (harness.Permission, func(harness.Decision) (any, string)){
	"item/commandExecution/requestApproval": (*translator).askCommand,
	"item/fileChange/requestApproval":       (*translator).askPatch,
	"item/permissions/requestApproval":      (*translator).askPermissions,
	"item/tool/requestUserInput":            (*translator).askUser,
	"mcpServer/elicitation/request":         (*translator).elicit,
}

// answer takes the engine's decision; it does nothing for a question that is no longer open.
func (t *translator) answer(key string, d harness.Decision) {
	q := t.perms[key]
	if q == nil {
		return
	}
	delete(t.perms, key)
	t.reply(q, d)
}

// reply answers codex. What the model should hear goes ahead as a message of the user, which codex delivers with the call's result.
func (t *translator) reply(q *pending, d harness.Decision) {
	result, note := q.answer(d)
	if note != "" && !d.Cancelled && q.thread == t.native && t.running != "" && !t.turn.interrupted {
		t.request("turn/steer", object{"threadId": t.native, "expectedTurnId": t.running, "input": []object{{"type": "text", "text": note, "text_elements": []any{}}}})
	}
	t.send(encode(object{"id": q.id, "result": result}))
}

// withdraw handles codex taking a question back. id is a raw JSON token.
func (t *translator) withdraw(id string) {
	if t.perms[id] != nil {
		delete(t.perms, id)
		t.emit(harness.PermissionWithdrawn{Key: id})
	}
}

const editedInput = "The user approved this call with an edited input, which codex cannot run, so it was not run. Make the call again with this input instead: "

// verdict is codex's word for a decision on a command or a patch.
func verdict(d harness.Decision, input json.RawMessage) (word, note string) {
	switch {
	case d.Allow && edited(d, input):
		return "decline", editedInput + string(d.UpdatedInput)
	case d.Allow && d.Always:
		return "acceptForSession", ""
	case d.Allow:
		return "accept", ""
	}
	return "decline", d.Message
}

// edited reports whether the decision asks for another input than the call's.
func edited(d harness.Decision, input json.RawMessage) bool {
	if d.UpdatedInput == nil {
		return false
	}
	var a, b any
	return json.Unmarshal(d.UpdatedInput, &a) != nil || json.Unmarshal(input, &b) != nil || !reflect.DeepEqual(a, b)
}

func (t *translator) askCommand(p *approvalParams) (harness.Permission, func(harness.Decision) (any, string)) {
	it := &item{Type: toolCommand, ID: p.ItemID, Command: p.Command, Cwd: p.Cwd}
	return t.askCall(it, p.Reason)
}

func (t *translator) askPatch(p *approvalParams) (harness.Permission, func(harness.Decision) (any, string)) {
	return t.askCall(&item{Type: toolPatch, ID: p.ItemID}, p.Reason)
}

// askCall asks about a call, which in most cases is shown already.
func (t *translator) askCall(it *item, reason string) (harness.Permission, func(harness.Decision) (any, string)) {
	part, input := describe(it)
	if c := t.calls[it.ID]; c != nil {
		part, input = &c.part, c.input
	}
	e := harness.Permission{Title: part.Title, Tool: toolOf(part, input)}
	if reason != "" {
		e.Title += " (" + firstLine(reason) + ")"
	}
	return e, func(d harness.Decision) (any, string) {
		word, note := verdict(d, input)
		return object{"decision": word}, note
	}
}

func toolOf(part *protocol.ToolPart, input json.RawMessage) protocol.PermissionTool {
	return protocol.PermissionTool{
		ToolCallID: part.ToolCallID, ToolName: part.ToolName, Kind: part.Kind, Title: part.Title, Locations: part.Locations, RawInput: input,
	}
}

// askPermissions is the model asking for a wider sandbox.
func (t *translator) askPermissions(p *approvalParams) (harness.Permission, func(harness.Decision) (any, string)) {
	input := encode(object{"permissions": p.Permissions, "reason": p.Reason})
	e := harness.Permission{Title: firstLine(cmp.Or(p.Reason, "Widen the sandbox")), Tool: protocol.PermissionTool{
		ToolCallID: p.ItemID, ToolName: "request_permissions", Kind: protocol.ToolKindOther, Title: "Widen the sandbox", RawInput: input,
	}}
	return e, func(d harness.Decision) (any, string) {
		switch {
		case !d.Allow:
			return object{"permissions": object{}, "scope": "turn"}, d.Message
		case edited(d, input):
			return object{"permissions": object{}, "scope": "turn"}, editedInput + string(d.UpdatedInput)
		case d.Always:
			return object{"permissions": p.Permissions, "scope": "session"}, ""
		}
		return object{"permissions": p.Permissions, "scope": "turn"}, ""
	}
}

// askUser is a question to the person: updatedInput holds the answers, by the question's id, each a string or a list of them.
func (t *translator) askUser(p *approvalParams) (harness.Permission, func(harness.Decision) (any, string)) {
	e := harness.Permission{Title: "Question", NoRules: true, Tool: protocol.PermissionTool{
		ToolCallID: p.ItemID, ToolName: "request_user_input", Kind: protocol.ToolKindOther, Title: "Question", RawInput: encode(object{"questions": p.Questions}),
	}}
	var questions []struct{ Question string }
	if json.Unmarshal(p.Questions, &questions) == nil && len(questions) > 0 {
		e.Title = firstLine(questions[0].Question)
	}
	return e, func(d harness.Decision) (any, string) {
		if !d.Allow {
			return object{"answers": object{}}, d.Message
		}
		return object{"answers": userAnswers(d.UpdatedInput)}, ""
	}
}

// userAnswers brings {"answers":{id:...}} or {id:...} into codex's form.
func userAnswers(input json.RawMessage) object {
	if inner := jsonscan.Get(input, "answers"); json.Valid(input) && inner != nil {
		input = inner
	}
	var given map[string]json.RawMessage
	_ = json.Unmarshal(input, &given) // without an object there are no answers
	answers := object{}
	for _, id := range slices.Sorted(maps.Keys(given)) {
		raw := given[id]
		if inner := jsonscan.Get(raw, "answers"); inner != nil {
			raw = inner
		}
		var many []string
		if json.Unmarshal(raw, &many) != nil {
			many = []string{jsonscan.String(raw)}
		}
		answers[id] = object{"answers": many}
	}
	return answers
}

// elicit is the question of an MCP server, or codex asking whether its tool may run.
func (t *translator) elicit(p *approvalParams) (harness.Permission, func(harness.Decision) (any, string)) {
	if p.Meta.Kind == "mcp_tool_call" {
		return t.askTool(p)
	}
	input := object{"message": p.Message, "mode": p.Mode}
	if p.URL != "" {
		input["url"] = p.URL
	}
	if !jsonscan.IsNull(p.Schema) {
		input["requestedSchema"] = p.Schema
	}
	e := harness.Permission{Title: p.Server + ": " + firstLine(p.Message), NoRules: true, Tool: protocol.PermissionTool{
		ToolName: "elicitation", Kind: protocol.ToolKindOther, Title: p.Server, RawInput: encode(input),
	}}
	return e, func(d harness.Decision) (any, string) {
		content := any(object{})
		if obj := jsonscan.NewObject(d.UpdatedInput); json.Valid(d.UpdatedInput) && obj.Next() {
			content = d.UpdatedInput
		}
		return elicitationAnswer(d, content, nil), ""
	}
}

// askTool asks about an MCP tool. The request does not name the call: it is the one of that tool that runs.
func (t *translator) askTool(p *approvalParams) (harness.Permission, func(harness.Decision) (any, string)) {
	it := &item{Type: "mcpToolCall", Server: p.Server, Tool: p.Meta.Tool, Arguments: p.Meta.Input}
	part, input := describe(it)
	for _, id := range slices.Sorted(maps.Keys(t.calls)) {
		if c := t.calls[id]; c.part.ToolName == part.ToolName && c.thread.id == p.ThreadID && !edited(harness.Decision{UpdatedInput: c.input}, input) {
			part = &c.part
		}
	}
	e := harness.Permission{Title: firstLine(cmp.Or(p.Message, part.Title)), Tool: toolOf(part, input)}
	return e, func(d harness.Decision) (any, string) {
		if d.Allow && edited(d, input) {
			return elicitationAnswer(harness.Decision{}, nil, nil), editedInput + string(d.UpdatedInput)
		}
		meta := any(nil)
		if d.Allow && d.Always {
			meta = object{"persist": "session"}
		}
		note := ""
		if !d.Allow {
			note = d.Message
		}
		return elicitationAnswer(d, object{}, meta), note
	}
}

func elicitationAnswer(d harness.Decision, content, meta any) object {
	switch {
	case d.Allow:
		return object{"action": "accept", "content": content, "_meta": meta}
	case d.Cancelled:
		return object{"action": "cancel", "content": nil, "_meta": nil}
	}
	return object{"action": "decline", "content": nil, "_meta": nil}
}
