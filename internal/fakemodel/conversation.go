package fakemodel

import (
	"encoding/json"
	"strings"
)

// An entry is one message of a request's history, reduced to what scripts look at. Roles are "user",
// "assistant" and "system", whatever the dialect calls them.
type entry struct {
	role    string
	texts   []string
	results []result
	images  int
}

// A result is the output of one tool call, as the CLI sent it back.
type result struct {
	text    string
	isError bool
}

// A tool is one tool that the request offers to the model.
type tool struct {
	name      string
	namespace string // set for Responses tools that arrived inside a namespace
	custom    bool   // free-form input instead of JSON arguments
}

// A conversation is a model request in the neutral form that the planner reads.
type conversation struct {
	api     API
	model   string
	stream  bool
	session string // the CLI's session or thread id, "" if it sent none
	turnID  string // the CLI's own turn id, "" if it sent none
	system  string // the system prompt, only to recognise the CLI's side requests
	entries []entry
	tools   []tool
	schema  json.RawMessage // JSON schema of the answer, if the request asks for one
	detail  string          // what ECHOMODEL and JSONOUT add: dialect specific
}

// A cue is the directive that decides the reply: the latest script of the user, and what came after it.
type cue struct {
	script  []line
	full    string   // the text that holds the script
	turn    int      // which scripted user text of the conversation this is, from 1
	results []result // tool results after the script
	extra   []string // texts of the user after the script: steering
	resumed bool     // the history ends with a message of the assistant
}

// steerMark tells a user's text that claude passes on as a system message from its other system messages.
const steerMark = "The user sent a new message"

// cue finds the latest user text with a directive in it. Its script is empty if there is none, and full
// is then the last user text.
func (c *conversation) cue() cue {
	var found cue
	for i := range c.entries {
		e := &c.entries[i]
		found.results = append(found.results, e.results...)
		if e.role == "assistant" {
			continue
		}
		for _, t := range e.texts {
			text := scriptText(t)
			if text == "" {
				continue
			}
			script := parseScript(text)
			switch {
			case e.role == "user" && len(script) > 0:
				found = cue{script: script, full: text, turn: found.turn + 1}
			case found.turn > 0 && (e.role == "user" || strings.Contains(text, steerMark)):
				found.extra = append(found.extra, text)
			case e.role == "user":
				found.full = text
			}
		}
	}
	if n := len(c.entries); n > 0 {
		found.resumed = c.entries[n-1].role == "assistant"
	}
	return found
}

// images counts the images of the whole conversation.
func (c *conversation) images() int {
	n := 0
	for _, e := range c.entries {
		n += e.images
	}
	return n
}

// find returns the first offered tool with one of names.
func (c *conversation) find(names ...string) (tool, bool) {
	for _, name := range names {
		for _, t := range c.tools {
			if t.name == name {
				return t, true
			}
		}
	}
	return tool{}, false
}

// textOf reads a JSON value that is a string, or a list of blocks with a "text" member; other blocks show
// as their type in brackets.
func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var blocks []struct{ Type, Text string }
	if json.Unmarshal(raw, &blocks) != nil {
		return string(raw)
	}
	parts := make([]string, 0, len(blocks))
	for _, b := range blocks {
		if b.Text == "" && b.Type != "" {
			b.Text = "[" + b.Type + "]"
		}
		parts = append(parts, b.Text)
	}
	return strings.Join(parts, " ")
}
