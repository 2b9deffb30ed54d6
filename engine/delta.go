package engine

import (
	"agentserver/harness"
	"agentserver/protocol"
)

// A delta's event and body are allocated together: deltas are most of what an agent says.
type (
	textDelta struct {
		event protocol.MessagePartDelta
		body  protocol.TextDelta
	}
	reasoningDelta struct {
		event protocol.MessagePartDelta
		body  protocol.ReasoningDelta
	}
	toolInputDelta struct {
		event protocol.MessagePartDelta
		body  protocol.ToolInputDelta
	}
)

// delta appends to a part, opening it first where it is not open.
func (p *processor) delta(d *harness.Delta) {
	typ, ok := partOf(d.Type)
	if !ok {
		return
	}
	pt, added := p.find(d.Key, d.ParentToolCallID, typ, true)
	if pt == nil {
		return
	}
	if added {
		p.openByDelta(pt, d)
	}
	if d.Text == "" || pt.over || pt.tool != nil && pt.tool.status != protocol.ToolStatusPending {
		return
	}
	pt.text.WriteString(d.Text)
	if pt.turn != p.turn || !p.running {
		return // a tool that goes on from an earlier turn: only its snapshots are told
	}
	var e *protocol.MessagePartDelta
	switch typ {
	case protocol.PartReasoning:
		v := &reasoningDelta{body: protocol.ReasoningDelta{Text: d.Text}}
		v.event.Delta = &v.body
		e = &v.event
	case protocol.PartTool:
		v := &toolInputDelta{body: protocol.ToolInputDelta{ToolCallID: pt.tool.callID, ToolName: pt.tool.name, Input: d.Text}}
		v.event.Delta = &v.body
		e = &v.event
	default:
		v := &textDelta{body: protocol.TextDelta{Text: d.Text}}
		v.event.Delta = &v.body
		e = &v.event
	}
	e.TurnID, e.MessageID, e.OutputIndex, e.PartIndex, e.PartID = pt.turn, pt.message, pt.out, pt.at, pt.id
	p.emit(e)
}

// partOf returns the type of part that a delta appends to.
func partOf(d protocol.DeltaType) (protocol.PartType, bool) {
	switch d {
	case protocol.DeltaText:
		return protocol.PartText, true
	case protocol.DeltaReasoning:
		return protocol.PartReasoning, true
	case protocol.DeltaToolInput:
		return protocol.PartTool, true
	}
	return "", false
}

// openByDelta appends the empty snapshot that a delta needs before it.
func (p *processor) openByDelta(pt *part, d *harness.Delta) {
	switch pt.typ {
	case protocol.PartTool:
		p.updateTool(pt, &protocol.ToolPart{ToolName: d.ToolName, State: &protocol.ToolPending{}})
	case protocol.PartReasoning:
		p.updateReasoning(pt, &protocol.ReasoningPart{})
	default:
		p.updateText(pt, &protocol.TextPart{})
	}
}
