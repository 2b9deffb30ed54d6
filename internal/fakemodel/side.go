package fakemodel

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// schemaTool is the tool by which qwen asks for an answer that fits a schema.
const schemaTool = "respond_in_schema"

// compactionMarks are texts of the prompts with which CLIs have a conversation summarised.
var compactionMarks = []string{"create a detailed summary of", "CONTEXT CHECKPOINT COMPACTION", "<state_snapshot>"}

// titleMarks are texts, in lower case, of the system prompts with which CLIs ask for a title. The word alone is no mark: it is
// also in the prompts of ordinary turns.
var titleMarks = []string{"title generator", "generate a title", "sentence-case title", "concise title", "session title"}

// sideRequest plans the answer to what a CLI asks beside the turns of its user, such as a title, a summary or a
// classification, and reports whether the request is one. Scripts do not reach these: a gate or an error that the
// user's text asks for belongs to the turn.
func (p *planner) sideRequest() bool {
	switch {
	case len(p.conv.tools) == 1 && p.conv.tools[0].name == schemaTool:
		p.call(line{}, []toolCall{{tool: p.conv.tools[0], args: toJSON(instance(p.conv.schema, 0))}})
	case len(p.conv.tools) == 0 && p.asksTitle():
		if p.conv.api == Anthropic {
			p.text(`{"title": "Fake session title"}`)
		} else {
			p.text("Fake session title")
		}
	case len(p.conv.tools) == 0 && p.conv.schema != nil:
		p.text(toJSON(instance(p.conv.schema, 0)))
	case p.asksSummary():
		p.text("<summary>Fake summary of the conversation.</summary>")
	default:
		return false
	}
	return true
}

func (p *planner) asksTitle() bool {
	system := strings.ToLower(p.conv.system)
	return slices.ContainsFunc(titleMarks, func(m string) bool { return strings.Contains(system, m) })
}

func (p *planner) asksSummary() bool {
	last := p.cue.full
	if n := len(p.cue.extra); n > 0 {
		last = p.cue.extra[n-1]
	}
	return slices.ContainsFunc(compactionMarks, func(m string) bool { return strings.Contains(last, m) })
}

// maxSchemaDepth bounds instance on schemas from outside.
const maxSchemaDepth = 16

// instance returns a small value that fits schema: the first of an enum, and all properties of an object.
func instance(schema json.RawMessage, depth int) any {
	var s struct {
		Type       any
		Enum       []any
		Minimum    float64
		Properties map[string]json.RawMessage
	}
	if depth > maxSchemaDepth || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	kind, _ := s.Type.(string)
	switch strings.ToLower(kind) {
	case "string":
		return "fake"
	case "number", "integer":
		return s.Minimum
	case "boolean":
		return false
	case "array":
		return []any{}
	}
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		object[name] = instance(s.Properties[name], depth+1)
	}
	return object
}
