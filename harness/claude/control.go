package claude

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A pending is a question of the CLI that waits for the engine's answer. Its key is the CLI's request id, and changes when it is asked again.
type pending struct {
	requestID   string
	input       json.RawMessage
	elicitation bool
	event       harness.Permission
}

// controlRequest handles what the CLI asks. Every request is answered exactly once, unless it is withdrawn.
func (t *translator) controlRequest(l *controlRequestLine) {
	r := &l.Request
	switch r.Subtype {
	case "can_use_tool":
		t.permission(l.RequestID, r)
	case "elicitation":
		t.elicit(l.RequestID, r)
	case "hook_callback":
		t.send(answerLine(l.RequestID, object{})) // we register none
	case "request_user_dialog":
		t.send(answerLine(l.RequestID, object{"behavior": "cancelled"}))
	default:
		t.strange("control request", r.Subtype)
		t.send(refusalLine(l.RequestID, "this host does not support "+r.Subtype))
	}
}

// questions are tools that ask a person: a standing rule must not answer for them.
var questions = map[string]bool{"AskUserQuestion": true, "ExitPlanMode": true}

func (t *translator) permission(id string, r *controlRequest) {
	if t.perms[id] != nil {
		return
	}
	if !t.asks {
		t.send(answerLine(id, object{"behavior": "deny", "message": "Nobody is there to give permission for this."}))
		return
	}
	call := t.tools[r.ToolID]
	if call == nil && r.ToolID != "" { // it may come before the line that has the call
		t.callRuns(r.ToolID, r.ToolName, t.agentTool(r.AgentID), r.Input)
		call = t.tools[r.ToolID]
	}
	part := protocol.ToolPart{ToolName: r.ToolName}
	describe(&part, r.Input)
	title := r.Title
	if title == "" {
		title = part.Title
		if knownTools[r.ToolName].title == "%" {
			title = r.ToolName + ": " + title
		}
	}
	e := harness.Permission{
		Title:   title,
		NoRules: questions[r.ToolName],
		Tool: protocol.PermissionTool{
			ToolCallID: r.ToolID, ToolName: r.ToolName, Kind: part.Kind, Title: part.Title, Locations: part.Locations, RawInput: r.Input,
		},
	}
	if call != nil {
		e.ParentToolCallID = call.parent
	}
	t.ask(id, &pending{requestID: id, input: r.Input, event: e})
}

// elicit shows the question of an MCP server as a permission: updatedInput is the form's content.
func (t *translator) elicit(id string, r *controlRequest) {
	if !t.asks {
		t.send(answerLine(id, object{"action": "decline"}))
		return
	}
	input := object{"message": text(r.Message), "mode": r.Mode}
	if r.URL != "" {
		input["url"] = r.URL
	}
	if !jsonscan.IsNull(r.Schema) {
		input["requestedSchema"] = r.Schema
	}
	t.ask(id, &pending{requestID: id, elicitation: true, event: harness.Permission{
		Title:   r.Server + ": " + firstLine(text(r.Message)),
		NoRules: true,
		Tool:    protocol.PermissionTool{ToolName: "elicitation", Kind: protocol.ToolKindOther, Title: r.Server, RawInput: encode(input)},
	}})
}

// maxQuestions bounds the questions that are open at once.
const maxQuestions = 1000

// ask hands a question to the engine under the given key.
func (t *translator) ask(key string, p *pending) {
	if len(t.perms) >= maxQuestions {
		t.send(refusalLine(p.requestID, "too many requests wait for an answer"))
		return
	}
	t.perms[key] = p
	p.event.Key = key
	p.event.Decide = func(d harness.Decision) error { return t.decide(key, d) }
	t.open()
	t.emit(p.event)
}

// askAgain asks anew what is still open when a turn ends: the turn's end settles its permissions, but work in the background still waits.
func (t *translator) askAgain() {
	for _, key := range slices.Sorted(maps.Keys(t.perms)) {
		p := t.perms[key]
		delete(t.perms, key)
		t.ask(key+"+", p)
	}
}

// withdraw handles the CLI taking a question back.
func (t *translator) withdraw(requestID string) {
	for key, p := range t.perms {
		if p.requestID == requestID {
			delete(t.perms, key)
			t.emit(harness.PermissionWithdrawn{Key: key})
		}
	}
}

// answer returns the line that answers a question; nil when it is no longer open, which is no error.
func (t *translator) answer(key string, d harness.Decision) []byte {
	p := t.perms[key]
	if p == nil {
		return nil
	}
	delete(t.perms, key)
	if p.elicitation {
		return answerLine(p.requestID, elicitationAnswer(d))
	}
	return answerLine(p.requestID, permissionAnswer(p, d))
}

// permissionAnswer echoes the input, for 2.1.197 fails without. Nothing is stored in the user's settings: standing rules are the engine's.
func permissionAnswer(p *pending, d harness.Decision) object {
	switch {
	case d.Allow && d.UpdatedInput == nil:
		input := p.input
		if len(input) == 0 {
			input = json.RawMessage("{}")
		}
		return object{"behavior": "allow", "updatedInput": input}
	case d.Allow && isObject(d.UpdatedInput):
		return object{"behavior": "allow", "updatedInput": d.UpdatedInput}
	case d.Allow:
		return object{"behavior": "deny", "message": "The call was approved with another input, but that input is not a JSON object, so it was not run."}
	}
	return object{"behavior": "deny", "message": refusalText(d)}
}

func refusalText(d harness.Decision) string {
	switch {
	case d.Message != "":
		return d.Message
	case d.Cancelled:
		return "Nobody answered the permission request. Do not try this again in this turn."
	}
	return "The user refused this call. Ask what to do instead, or go on without it."
}

func elicitationAnswer(d harness.Decision) object {
	switch {
	case d.Cancelled:
		return object{"action": "cancel"}
	case !d.Allow:
		return object{"action": "decline"}
	case isObject(d.UpdatedInput):
		return object{"action": "accept", "content": d.UpdatedInput}
	}
	return object{"action": "accept", "content": object{}}
}

func isObject(raw json.RawMessage) bool {
	return json.Valid(raw) && strings.HasPrefix(strings.TrimSpace(string(raw)), "{")
}

// failure is what the CLI's own message about a failed call says.
type failure struct {
	kind   string
	status int
}

// categories sorts the CLI's words for errors.
var categories = map[string]protocol.ErrorCategory{
	"authentication_failed": protocol.CategoryAuth,
	"oauth_org_not_allowed": protocol.CategoryAuth,
	"billing_error":         protocol.CategoryUsageLimit,
	"rate_limit":            protocol.CategoryRateLimit,
	"overloaded":            protocol.CategoryRateLimit,
	"model_not_found":       protocol.CategoryInvalidRequest,
}

// categoryOf sorts a failure by the CLI's word, the HTTP status and the text.
func categoryOf(kind string, status int, message string) protocol.ErrorCategory {
	lower := strings.ToLower(message)
	if kind == "rate_limit" && (strings.Contains(lower, "your limit") || strings.Contains(lower, "usage limit") || strings.Contains(lower, "claude ai limit")) {
		return protocol.CategoryUsageLimit
	}
	if c, ok := categories[kind]; ok {
		return c
	}
	c := protocol.Classify(status, message)
	if c == protocol.CategoryInternal && status == 0 && strings.Contains(lower, "connection") {
		return protocol.CategoryNetwork // "Connection lost mid-response"
	}
	if c == protocol.CategoryInternal && kind == "invalid_request" {
		return protocol.CategoryInvalidRequest
	}
	return c
}

// hint says what to do about an error, where the CLI's text speaks to a person at its terminal.
func hint(category protocol.ErrorCategory, kind, message string) string {
	switch {
	case strings.Contains(message, "Please run /login"):
		return "give config.apiKey, set ANTHROPIC_API_KEY for the server, or run `claude` once on its machine and log in"
	case category == protocol.CategoryAuth:
		return "check config.apiKey, or the credentials of the server's environment"
	case kind == "model_not_found":
		return "check config.model"
	case category == protocol.CategoryContextLimit:
		return "start a new session, or shorten the conversation with /compact"
	}
	return ""
}

func withHint(message, hint string) string {
	if hint == "" {
		return message
	}
	return fmt.Sprintf("%s (%s)", message, hint)
}
