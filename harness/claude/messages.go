package claude

import (
	"encoding/json"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
)

// synthetic is the model of messages that the CLI makes up: errors, and the output of slash commands.
const synthetic = "<synthetic>"

// assistant handles a finished block of an agent.
func (t *translator) assistant(l *messageLine) {
	if l.Message.Model == synthetic && l.Parent == "" && l.Error != "" {
		// The result repeats it.
		t.failure = failure{kind: l.Error, status: l.ErrorStatus}
		return
	}
	if l.Parent == "" {
		t.turn.lastUUID = l.UUID
	}
	m := t.messageOf(l)
	for _, b := range l.Message.Content {
		t.finishedBlock(m, l.Parent, &b)
	}
}

// messageOf returns the message that a line belongs to, and opens it if it is new.
func (t *translator) messageOf(l *messageLine) *message {
	m := t.main
	if l.Parent != "" {
		m = t.subs[l.Parent]
	}
	if m != nil && m.id == l.Message.ID {
		return m
	}
	model := l.Message.Model
	if model == synthetic {
		model = ""
	}
	m = t.newMessage(l.Message.ID, model)
	if l.Parent != "" {
		t.subs[l.Parent] = m
	} else {
		t.dropUnfinished()
		t.main = m
		if model != "" {
			t.gauge(l.Message.Usage)
		}
	}
	return m
}

// place finds the block that a snapshot belongs to: the open one, for a snapshot comes before the block's stop; else the first that has none.
func (m *message) place(typ string) *block {
	if m.open != nil && !m.open.settled && m.open.typ == typ {
		return m.open
	}
	if m.streamed {
		for _, b := range m.blocks {
			if b.typ == typ && !b.settled {
				return b
			}
		}
	}
	return m.add(typ)
}

func (t *translator) finishedBlock(m *message, parent string, b *contentBlock) {
	switch {
	case b.Type == "text":
		if m.model == "" && b.Text == "(no content)" {
			return // what /clear says
		}
		if b.Text != "" {
			t.snapshot(m, parent, b.Type, &protocol.TextPart{Text: b.Text, State: protocol.PartDone})
		}
	case b.Type == "thinking":
		bl := m.place(b.Type)
		if b.Thinking == "" && !bl.deltas {
			bl.settled = true
			return // only a signature: the provider does not show the thought
		}
		t.snapshot(m, parent, b.Type, &protocol.ReasoningPart{Text: b.Thinking, State: protocol.PartDone})
	case b.Type == "redacted_thinking":
		t.snapshot(m, parent, b.Type, &protocol.ReasoningPart{State: protocol.PartDone, ProviderMetadata: json.RawMessage(`{"redacted":true}`)})
	case isToolUse(b.Type):
		m.place(b.Type).settled = true
		t.toolCalled(m, parent, b)
	case strings.HasSuffix(b.Type, "_tool_result"):
		t.toolResult(b, nil) // of a tool that the provider itself ran
	default:
		t.strange("content block", b.Type)
	}
}

// snapshot shows the final state of a block.
func (t *translator) snapshot(m *message, parent, typ string, part protocol.Part) {
	bl := m.place(typ)
	bl.settled = true
	t.announce(m, parent)
	t.show(parent, harness.PartUpdate{Key: bl.key, ParentToolCallID: parent, Part: part})
}

// announce opens a message that was not streamed, before its first part.
func (t *translator) announce(m *message, parent string) {
	if m.streamed {
		return
	}
	m.streamed = true // from here on its blocks have places
	m.settled = true  // but its usage comes with the result
	t.show(parent, harness.MessageStarted{ParentToolCallID: parent, Model: m.model})
}

// user handles tool results, acknowledgements of our messages, and what the CLI tells the model.
func (t *translator) user(l *messageLine) {
	if l.IsReplay {
		t.acknowledge(l.UUID)
		return
	}
	for _, b := range l.Message.Content {
		if b.Type == "tool_result" {
			t.toolResult(&b, l.ToolUseResult)
		}
	}
	if l.Parent == "" && t.compact.wantsSummary {
		t.compactSummary(l)
	}
}

func isToolUse(typ string) bool { return typ == "tool_use" || strings.HasSuffix(typ, "_tool_use") }
