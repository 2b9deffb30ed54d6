package acp

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"agentserver/protocol"
)

// The kinds of settings, by ACP's categories.
type settingKind string

const (
	kindMode    settingKind = "mode"
	kindModel   settingKind = "model"
	kindThought settingKind = "thought_level"
)

// settings are what the agent lists: the same thing may be in several of them.
type settings struct {
	options []configOption
	modes   *modeState
	models  *modelState
	initial map[settingKind]string // at the session's start, to go back to
}

// load takes the answer to session/new, load or resume.
func (s *settings) load(r *sessionResult) {
	s.options, s.modes, s.models = r.ConfigOptions, r.Modes, r.Models
	s.initial = map[settingKind]string{}
	for _, kind := range []settingKind{kindMode, kindModel, kindThought} {
		if c, ok := s.find(kind); ok {
			s.initial[kind] = c.current
		}
	}
}

func (s *settings) setMode(id string) {
	if id == "" {
		return
	}
	if s.modes != nil {
		s.modes.Current = id
	}
	for i := range s.options {
		if s.options[i].kind() == kindMode {
			s.options[i].Current = encode(id)
		}
	}
}

// setOptions takes the complete list of the config options.
func (s *settings) setOptions(raw json.RawMessage) {
	var list []configOption
	if len(raw) == 0 || string(raw) == "null" || !lenient(raw, &list) {
		return
	}
	s.options = list
}

func (o *configOption) kind() settingKind { return settingKind(orElse(o.Category, o.ID)) }

// A choice is a setting with its values, and the way to set it.
type choice struct {
	method  string
	id      string // of the config option
	current string
	values  []configValue
}

// find returns the setting of a kind, from the most modern place that has it.
func (s *settings) find(kind settingKind) (choice, bool) {
	for i := range s.options {
		o := &s.options[i]
		if o.kind() == kind && o.Type == "select" && o.ID != "" {
			return choice{"session/set_config_option", o.ID, str(o.Current), flatten(o.Options)}, true
		}
	}
	switch {
	case kind == kindModel && s.models != nil:
		c := choice{method: "session/set_model", current: s.models.Current}
		for _, m := range s.models.Available {
			c.values = append(c.values, configValue{Value: m.ID, Name: m.Name})
		}
		return c, true
	case s.modes != nil && (kind == kindThought) == s.modesAreThoughts() && kind != kindModel:
		c := choice{method: "session/set_mode", current: s.modes.Current}
		for _, m := range s.modes.Available {
			c.values = append(c.values, configValue{Value: m.ID, Name: m.Name})
		}
		return c, true
	}
	return choice{}, false
}

// modesAreThoughts reports whether the modes are thinking levels, as pi's are.
func (s *settings) modesAreThoughts() bool {
	words := []string{"low", "medium", "high"}
	need := 2
	for i := range s.options {
		if o := &s.options[i]; o.kind() == kindThought {
			words, need = nil, len(s.modes.Available)
			for _, v := range flatten(o.Options) {
				words = append(words, plainWord(v.Value))
			}
		}
	}
	n := 0
	for _, mode := range s.modes.Available {
		if slices.Contains(words, plainWord(mode.ID)) {
			n++
		}
	}
	return n >= max(need, 1)
}

func flatten(values []configValue) []configValue {
	var out []configValue
	for _, v := range values {
		if v.Options != nil {
			out = append(out, flatten(v.Options)...)
		} else if v.Value != "" {
			out = append(out, v)
		}
	}
	return out
}

// params returns the call that sets the value.
func (c *choice) params(session, value string) object {
	switch c.method {
	case "session/set_mode":
		return object{"sessionId": session, "modeId": value}
	case "session/set_model":
		return object{"sessionId": session, "modelId": value}
	}
	return object{"sessionId": session, "configId": c.id, "value": value}
}

// note remembers that the value was set.
func (s *settings) note(c *choice, value string) {
	switch c.method {
	case "session/set_mode":
		s.setMode(value)
	case "session/set_model":
		s.models.Current = value
	default:
		for i := range s.options {
			if s.options[i].ID == c.id {
				s.options[i].Current = encode(value)
			}
		}
	}
}

// pick returns the listed value that the first of the words names, by its value or its name.
func (c *choice) pick(words ...string) (string, bool) {
	for _, word := range words {
		for _, v := range c.values {
			if v.Value == word {
				return v.Value, true
			}
		}
		for _, v := range c.values {
			if w := plainWord(word); w != "" && (w == plainWord(v.Value) || w == plainWord(v.Name)) {
				return v.Value, true
			}
		}
	}
	return "", false
}

// plainWord is a word without case and punctuation: acceptEdits, accept_edits and Accept edits are the same.
func plainWord(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// list names the values for a person, at most a dozen.
func (c *choice) list() string {
	var names []string
	for _, v := range c.values {
		if len(names) == 12 {
			names = append(names, "…")
			break
		}
		names = append(names, v.Value)
	}
	return strings.Join(names, ", ")
}

// modeWords are the agents' words for our permission modes, those that fit best first. What an agent means by them is its own: codex has no
// mode that asks before every edit, but one that asks before it leaves its sandbox.
var modeWords = map[protocol.PermissionMode][]string{
	protocol.ModeDefault:           {"default", "ask", "manual", "normal", "workspace-write", "build", "code"},
	protocol.ModePlan:              {"plan", "read-only", "architect"},
	protocol.ModeAcceptEdits:       {"acceptEdits", "autoEdit", "workspace-write"},
	protocol.ModeDontAsk:           {"dontAsk"},
	protocol.ModeBypassPermissions: {"bypassPermissions", "yolo", "agent-full-access", "full-access", "bypass"},
}

// ownJudgement are modes in which an agent decides for itself. A turn that names no mode wants to be asked, so these are left.
var ownJudgement = []string{"auto", "agent", "agent-full-access", "full-access", "yolo", "bypassPermissions", "dontAsk", "autopilot"}

// thoughtWords are the agents' words for our thinking levels.
var thoughtWords = map[protocol.ThinkingLevel][]string{
	protocol.ThinkingOff:    {"off", "none", "disabled"},
	protocol.ThinkingLow:    {"low"},
	protocol.ThinkingMedium: {"medium"},
	protocol.ThinkingHigh:   {"high"},
	protocol.ThinkingXHigh:  {"xhigh", "extra high", "max"},
}
