package claude

import (
	"encoding/json"
	"strconv"

	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A message is the newest message of one agent. The CLI streams the main agent's messages, and prints every finished block of any agent as an
// assistant line of its own.
type message struct {
	id       string
	key      string // unique in the session, unlike the ids of some gateways
	model    string
	streamed bool
	blocks   []*block
	open     *block // begun and not stopped
	usage    apiUsage
	settled  bool // the provider has reported the final usage
}

type block struct {
	typ     string // text, thinking, redacted_thinking, tool_use, …
	key     string
	name    string // of a tool
	deltas  bool   // some were shown
	settled bool   // the final snapshot was shown
}

// stream handles an event of the Messages API. It is the hot path: a text delta costs its string and its event.
func (t *translator) stream(event []byte) {
	var typ, index, delta []byte
	for o := jsonscan.NewObject(event); o.Next(); {
		switch {
		case o.Is("type"):
			typ = o.Value()
		case o.Is("index"):
			index = o.Value()
		case o.Is("delta"):
			delta = o.Value()
		}
	}
	switch string(typ) {
	case `"content_block_delta"`:
		t.delta(index, delta)
	case `"message_start"`:
		decode(t, jsonscan.Get(event, "message"), (*translator).messageStart)
	case `"content_block_start"`:
		decode(t, jsonscan.Get(event, "content_block"), func(t *translator, b *contentBlock) { t.blockStart(index, b) })
	case `"content_block_stop"`:
		if t.main != nil {
			t.main.open = nil
		}
	case `"message_delta"`:
		decode(t, event, (*translator).messageDelta)
	case `"message_stop"`:
		t.messageStop()
	default:
		t.strange("stream event", string(typ))
	}
}

func (t *translator) messageStart(m *apiMessage) {
	t.dropUnfinished()
	t.main = t.newMessage(m.ID, m.Model)
	t.main.streamed = true
	t.main.usage = m.Usage
	t.show("", harness.MessageStarted{Model: m.Model})
}

func (t *translator) newMessage(id, model string) *message {
	t.msgs++
	return &message{id: id, key: "m" + strconv.Itoa(t.msgs), model: model}
}

// maxBlocks bounds the index of a block, so that a mad stream costs no memory.
const maxBlocks = 10_000

func (t *translator) blockStart(index []byte, b *contentBlock) {
	i, ok := jsonscan.Int(index)
	if !ok || i < 0 || i > maxBlocks || t.main == nil {
		return
	}
	for len(t.main.blocks) <= int(i) {
		t.main.add("")
	}
	bl := t.main.blocks[i]
	bl.typ = b.Type
	t.main.open = bl
	if isToolUse(b.Type) && b.ID != "" && b.Name != "" {
		call := t.addTool(b.ID, b.Name, "")
		bl.key, bl.name, bl.deltas = call.key, b.Name, true
		t.update(call, &protocol.ToolPending{})
	}
}

// add appends a block of the given type.
func (m *message) add(typ string) *block {
	b := &block{typ: typ, key: m.key + ":" + strconv.Itoa(len(m.blocks))}
	m.blocks = append(m.blocks, b)
	return b
}

func (t *translator) delta(index, delta []byte) {
	i, ok := jsonscan.Int(index)
	if !ok || t.main == nil || i < 0 || int(i) >= len(t.main.blocks) {
		return
	}
	b := t.main.blocks[i]
	if b.settled {
		return
	}
	d := harness.Delta{Key: b.key}
	var typ, value []byte
	for o := jsonscan.NewObject(delta); o.Next(); {
		switch {
		case o.Is("type"):
			typ = o.Value()
		case o.Is("text"), o.Is("thinking"), o.Is("partial_json"):
			value = o.Value()
		}
	}
	switch string(typ) {
	case `"text_delta"`:
		d.Type = protocol.DeltaText
	case `"thinking_delta"`:
		d.Type = protocol.DeltaReasoning
	case `"input_json_delta"`:
		d.Type, d.ToolName = protocol.DeltaToolInput, b.name
	default: // signatures and citations are not shown
		return
	}
	if d.Text = text(value); d.Text == "" || d.Type == protocol.DeltaToolInput && b.name == "" {
		return
	}
	b.deltas = true
	t.show("", d)
}

// messageDelta brings the final usage of a call. What it does not mention stays as message_start said.
func (t *translator) messageDelta(l *struct {
	Usage json.RawMessage `json:"usage"`
}) {
	if t.main == nil || len(l.Usage) == 0 {
		return
	}
	_ = json.Unmarshal(l.Usage, &t.main.usage) // over what is there
	if !t.main.settled {
		t.main.settled = true
		t.acct.settled = t.acct.settled.plus(t.main.usage.tokens())
	}
	t.gauge(t.main.usage)
}

func (t *translator) messageStop() {
	if t.main == nil || !t.main.streamed {
		return
	}
	t.main.open = nil
	if t.shown == "" && (t.turn.active || t.opened) {
		t.emit(harness.MessageEnded{})
	}
}

// dropUnfinished accounts for a call whose stream broke off.
func (t *translator) dropUnfinished() {
	if t.main != nil && t.main.streamed && !t.main.settled {
		t.acct.lost = t.acct.lost.plus(t.main.usage.tokens())
		t.main.settled = true
	}
}
