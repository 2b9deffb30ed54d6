package acp

import (
	"encoding/json"
	"log/slog"

	"agentserver/harness"
	"agentserver/harness/internal/redact"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

const (
	maxEarly    = 256      // updates kept while the session's id is not known
	maxCommands = 64 << 10 // bytes of the command list in a turn's _meta
	maxTools    = 4096     // calls remembered
	maxOutput   = 1 << 20  // bytes of a terminal's output that are kept: the last ones
)

// The phases of a session.
type phase int

const (
	connecting phase = iota // the id is not known: updates wait
	replaying               // session/load sends the history, which is not news
	live
)

// A translator turns what the agent says into harness events, and the engine's answers into the agent's. It belongs to one session, which holds a
// lock around every call.
type translator struct {
	name    string // of the agent, for people
	resumed *bool
	asks    bool                    // somebody answers permission requests
	mode    protocol.PermissionMode // as asked for
	native  bool                    // the agent itself is in that mode
	raw     bool
	redact  redact.Redactor
	log     *slog.Logger
	stderr  func() string
	// decide hands an answer to the session that owns the translator. It may be called from any goroutine.
	decide func(key string, d harness.Decision) error

	events []harness.Event
	out    []func() // answers and notifications, to be sent without the lock
	// sessionCancel queues the session/cancel notification.
	sessionCancel func()

	phase    phase
	session  string // native id
	early    []updateParams
	replayed int // updates of the history that were passed over
	settings settings

	turn   turn
	opened bool // events outside a turn of ours made the engine open one, which needs an end
	rearm  bool // the settle timer is wanted

	text  textState
	parts int // counts parts, for keys
	tools map[string]*tool
	keys  map[string]bool // of their parts
	order []string        // of tools, oldest first
	perms map[string]*pending
	asked int // counts permission requests, for keys
	plans int // counts plans, for keys

	title    *string
	commands json.RawMessage // not yet reported
	cost     *protocol.Cost  // the session's, as last told
	unknown  map[string]bool
	badAuth  bool // a turn failed for its credentials: a fresh process may find better ones
}

func newTranslator() *translator {
	return &translator{
		name: "the agent", log: slog.New(slog.DiscardHandler), asks: true, stderr: func() string { return "" }, sessionCancel: func() {},
		decide: func(string, harness.Decision) error { return nil },
		tools:  map[string]*tool{}, keys: map[string]bool{}, perms: map[string]*pending{}, unknown: map[string]bool{},
	}
}

func (t *translator) emit(e harness.Event) { t.events = append(t.events, e) }

// show emits an event that belongs to a turn. Outside of one it makes the engine open one.
func (t *translator) show(e harness.Event) {
	if !t.turn.active {
		t.opened = true
	}
	t.emit(e)
}

// strange logs what is not known, once per kind; how much is remembered is bounded.
func (t *translator) strange(what, kind string) {
	kind = t.redact.Text(kind[:min(len(kind), 100)])
	if t.unknown[what+kind] || len(t.unknown) >= 100 {
		return
	}
	t.unknown[what+kind] = true
	t.log.Debug("acp: unknown "+what, "kind", kind)
}

// goLive names the session and takes the updates that came before its name did.
func (t *translator) goLive(session string) {
	t.session, t.phase = session, live
	early := t.early
	t.early = nil
	for _, p := range early {
		t.take(p)
	}
}

// update takes the params of a session/update.
func (t *translator) update(params []byte) {
	if t.phase == live && t.plainChunk(params) {
		return
	}
	var p updateParams
	if !lenient(params, &p) {
		t.strange("update", "malformed")
		return
	}
	if t.phase == connecting {
		if len(t.early) < maxEarly {
			t.early = append(t.early, p)
		}
		return
	}
	t.take(p)
}

// plainChunk takes the update that there are most of, a piece of text, without decoding the rest. It reports whether it was one.
func (t *translator) plainChunk(params []byte) bool {
	if session := jsonscan.Get(params, "sessionId"); !jsonscan.Equal(session, t.session) {
		return false
	}
	var kind, content, messageID []byte
	for o := jsonscan.NewObject(jsonscan.Get(params, "update")); o.Next(); {
		switch {
		case o.Is("sessionUpdate"):
			kind = o.Value()
		case o.Is("content"):
			content = o.Value()
		case o.Is("messageId"):
			messageID = o.Value()
		default: // _meta tells tokens
			return false
		}
	}
	typ := protocol.DeltaText
	switch string(kind) {
	case `"agent_message_chunk"`:
	case `"agent_thought_chunk"`:
		typ = protocol.DeltaReasoning
	default:
		return false
	}
	text := jsonscan.Get(content, "text")
	if string(jsonscan.Get(content, "type")) != `"text"` || len(text) == 0 || text[0] != '"' {
		return false
	}
	t.say(typ, jsonscan.String(text), jsonscan.String(messageID))
	t.settledEarly()
	return true
}

func (t *translator) take(p updateParams) {
	if p.SessionID != "" && p.SessionID != t.session {
		t.strange("session", p.SessionID) // a fork or a sub-agent: only raw has it
		return
	}
	var u update
	if !lenient(p.Update, &u) {
		t.strange("update", "malformed")
		return
	}
	if t.phase != live && history[u.Kind] {
		t.replayed++
		return
	}
	t.dispatch(&u)
	t.settledEarly()
}

// history are the updates that a load repeats.
var history = map[string]bool{
	"user_message_chunk": true, "agent_message_chunk": true, "agent_thought_chunk": true, "tool_call": true, "tool_call_update": true, "plan": true,
	"compaction_update": true, "notice": true,
}

func (t *translator) dispatch(u *update) {
	switch u.Kind {
	case "agent_message_chunk":
		t.chunk(u, protocol.DeltaText)
	case "agent_thought_chunk":
		t.chunk(u, protocol.DeltaReasoning)
	case "user_message_chunk": // the engine has echoed it
	case "tool_call", "tool_call_update":
		if u.ToolCallID == "" {
			t.strange("tool call", "without an id")
			return
		}
		t.closeText()
		t.showTool(t.upsert(&u.toolFields, u.Kind == "tool_call"))
	case "plan":
		t.plan(u.Entries)
	case "available_commands_update":
		t.commandList(u.Commands)
	case "current_mode_update":
		t.settings.setMode(orElse(u.CurrentModeID, u.ModeID))
	case "config_option_update":
		t.settings.setOptions(u.ConfigOptions)
	case "session_info_update":
		t.sessionInfo(u)
	case "usage_update":
		t.gauge(u)
	case "notice":
		t.notice(u)
	case "compaction_update":
		t.compaction(u)
	default:
		t.strange("update", u.Kind)
	}
}

func orElse(s, alternative string) string {
	if s == "" {
		return alternative
	}
	return s
}

// commandList keeps the list for the end of the turn, without the `_meta` trees that make it large.
func (t *translator) commandList(list []command) {
	if list == nil {
		list = []command{}
	}
	for n := len(list); ; n /= 2 {
		if t.commands = encode(list[:n]); len(t.commands) <= maxCommands {
			return
		}
	}
}

func (t *translator) sessionInfo(u *update) {
	if len(u.Title) > 0 {
		title := str(u.Title) // null clears it
		t.title = &title
	}
	var meta struct {
		Codex struct {
			ThreadStatus struct {
				Type string `json:"type"`
			} `json:"threadStatus"`
		} `json:"codex"`
	}
	if lenient(u.Meta, &meta) && meta.Codex.ThreadStatus.Type == "systemError" {
		t.turn.systemError = true // codex answers end_turn for a failed model, and tells the reason as text
	}
}

func (t *translator) gauge(u *update) {
	if u.Cost != nil && u.Cost.Amount >= 0 {
		t.cost = &protocol.Cost{Amount: u.Cost.Amount, Currency: orElse(u.Cost.Currency, "USD")}
	}
	if u.Used == nil || *u.Used < 0 {
		return
	}
	t.emit(harness.Usage{Used: *u.Used, Size: max(u.Size, 0), Cost: t.cost})
}

func (t *translator) notice(u *update) {
	message := t.redact.Text(str(u.Title))
	if u.Description != "" {
		message = joinNonEmpty(": ", message, t.redact.Text(u.Description))
	}
	if message != "" {
		t.emit(harness.Notice{Kind: protocol.NoticeWarning, Message: message})
	}
}

func (t *translator) compaction(u *update) {
	status := protocol.CompactionStatus(u.Status)
	if u.CompactionID == "" || status == "" {
		return
	}
	summary := ""
	var blocks []contentBlock
	if lenient(u.Summary, &blocks) {
		for _, b := range blocks {
			summary += b.Text
		}
	}
	t.emit(harness.Compaction{Key: u.CompactionID, Status: status, Summary: summary})
}

func joinNonEmpty(sep string, parts ...string) string {
	out := ""
	for _, p := range parts {
		if p == "" {
			continue
		}
		if out != "" {
			out += sep
		}
		out += p
	}
	return out
}

// meta returns what the turn's end tells beside its result, and forgets it.
func (t *translator) meta() protocol.Meta {
	var m protocol.Meta
	if t.title != nil {
		m = m.With("acp/title", *t.title)
	}
	if t.commands != nil {
		m = m.With("acp/availableCommands", t.commands)
	}
	if mode, ok := t.settings.find(kindMode); ok {
		m = m.With("acp/mode", mode.current)
	}
	t.title, t.commands = nil, nil
	return m
}
