package acp

import (
	"slices"
	"strings"
	"sync"

	"agentserver/internal/transport"
	"agentserver/protocol"
)

// A session is one of the editor's.
type session struct {
	id     protocol.SessionID
	levels []protocol.ThinkingLevel

	mu      sync.Mutex // guards what follows
	config  protocol.RunConfig
	turn    protocol.TurnID    // of the prompt that runs
	request *transport.Request // that prompt

	// Of the pump alone:
	seq   uint64
	sent  map[protocol.PartID]int // bytes of a text part that were sent
	tools map[protocol.PartID]bool
	subs  map[protocol.MessageID]bool // messages that sub-agents say
	user  map[protocol.MessageID]bool
}

func newSession(id protocol.SessionID, levels []protocol.ThinkingLevel) *session {
	return &session{id: id, levels: levels, sent: map[protocol.PartID]int{}, tools: map[protocol.PartID]bool{}, subs: map[protocol.MessageID]bool{},
		user: map[protocol.MessageID]bool{}}
}

// setConfig takes a new configuration, and keeps what the editor has chosen in the session.
func (v *session) setConfig(c protocol.RunConfig) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.config.PermissionMode != "" {
		c.PermissionMode, c.ThinkingLevel, c.ResumeSessionID = v.config.PermissionMode, v.config.ThinkingLevel, v.config.ResumeSessionID
	}
	v.config = c
}

func (v *session) configuration() protocol.RunConfig {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.config
}

func (v *session) resumeNative(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.config.ResumeSessionID = id
}

// begin notes the prompt that runs. It reports false when there is one already.
func (v *session) begin(turn protocol.TurnID, r *transport.Request) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.turn != "" {
		return false
	}
	v.turn, v.request = turn, r
	return true
}

func (v *session) running() protocol.TurnID {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.turn
}

// end returns the prompt of the turn, which no longer runs; nil when the turn has none.
func (v *session) end(turn protocol.TurnID) *transport.Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.turn != turn {
		return nil
	}
	r := v.request
	v.turn, v.request = "", nil
	return r
}

// modes are the permission modes, as an editor shows them.
var modes = []struct {
	id          protocol.PermissionMode
	name, about string
}{
	{protocol.ModeDefault, "Default", "Ask before acting"},
	{protocol.ModeAcceptEdits, "Accept edits", "Edit files without asking"},
	{protocol.ModePlan, "Plan", "Make a plan, change nothing"},
	{protocol.ModeDontAsk, "Don't ask", "Deny what is not allowed beforehand"},
	{protocol.ModeBypassPermissions, "Bypass permissions", "Do everything without asking"},
}

// state adds what can be chosen in the session to an answer.
func (v *session) state(answer object) object {
	var list []any
	for _, m := range modes {
		list = append(list, object{"id": m.id, "name": m.name, "description": m.about})
	}
	answer["modes"] = object{"currentModeId": v.configuration().PermissionMode, "availableModes": list}
	answer["configOptions"] = v.options()
	return answer
}

// defaultLevel stands for no thinking level.
const defaultLevel = "default"

func (v *session) options() []any {
	c := v.configuration()
	var modeValues []any
	for _, m := range modes {
		modeValues = append(modeValues, object{"value": m.id, "name": m.name, "description": m.about})
	}
	options := []any{object{"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": c.PermissionMode, "options": modeValues}}
	if len(v.levels) == 0 {
		return options
	}
	current := string(c.ThinkingLevel)
	if current == "" {
		current = defaultLevel
	}
	levels := []any{object{"value": defaultLevel, "name": "Default"}}
	for _, l := range v.levels {
		levels = append(levels, object{"value": l, "name": strings.ToUpper(string(l[:1])) + string(l[1:])})
	}
	return append(options, object{"id": "thought_level", "name": "Thinking", "category": "thought_level", "type": "select", "currentValue": current, "options": levels})
}

// set chooses a value. It reports whether the session has the option and the value.
func (v *session) set(id, value string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch id {
	case "mode":
		for _, m := range modes {
			if string(m.id) == value {
				v.config.PermissionMode = m.id
				return true
			}
		}
	case "thought_level":
		if value == defaultLevel {
			v.config.ThinkingLevel = ""
			return true
		}
		if level := protocol.ThinkingLevel(value); slices.Contains(v.levels, level) {
			v.config.ThinkingLevel = level
			return true
		}
	}
	return false
}
