package streamcheck

import (
	"encoding/json"
	"hash/maphash"
	"reflect"

	"agentserver/protocol"
)

// A part is what is known of a part: where it stands, and what it holds, in short.
type part struct {
	at     address
	typ    protocol.PartType
	parent string
	callID string
	status protocol.ToolStatus // of a tool
	open   bool                // takes deltas, or is a tool that has not ended

	whole  digest // what snapshot and deltas have built
	deltas digest // the deltas alone
	input  []byte // of a pending tool, what is built, up to maxInput
	cut    bool   // input is not all
}

// maxInput is how much of a tool's streamed input is kept for comparing.
const maxInput = 1 << 20

// A digest stands for a text of any length.
type digest struct {
	sum *maphash.Hash // nil while n is 0
	n   int
}

var seed = maphash.MakeSeed()

func (d *digest) write(text string) {
	if text == "" {
		return
	}
	if d.sum == nil {
		d.sum = new(maphash.Hash)
		d.sum.SetSeed(seed)
	}
	d.sum.WriteString(text)
	d.n += len(text)
}

func (d *digest) is(text string) bool {
	if d.n != len(text) {
		return false
	}
	return d.n == 0 || d.sum.Sum64() == maphash.String(seed, text)
}

// part checks a snapshot.
func (c *Checker) part(e *protocol.MessagePart) {
	h := e.Part.Header()
	at := address{e.TurnID, e.MessageID, e.OutputIndex, e.PartIndex}
	if h.MessageID != e.MessageID {
		c.report(RuleAddress, "part %s names message %s, its event %s", h.ID, h.MessageID, e.MessageID)
	}
	if h.SessionID != c.session {
		c.report(RuleSession, "part %s names session %s", h.ID, h.SessionID)
	}
	p, known := c.parts.get(h.ID)
	if !known {
		if p = c.newPart(e, at); p == nil {
			return
		}
	} else {
		c.upsert(p, e, at)
	}
	c.contents(p, e.Part, known)
	if t := c.turn; t != nil && t.id == p.at.turn && isText(p.typ) {
		if p.open {
			t.texts[h.ID] = true
		} else {
			delete(t.texts, h.ID)
		}
	}
}

// newPart checks a part's first snapshot. It returns nil for one whose beginning the checker may not have seen.
func (c *Checker) newPart(e *protocol.MessagePart, at address) *part {
	h := e.Part.Header()
	if c.turn == nil || c.turn.id != e.TurnID {
		if seen, _ := c.turns.get(e.TurnID); c.parts.forgot || c.blind && !seen {
			return nil
		}
	}
	p := &part{at: at, typ: e.Part.PartType(), parent: h.ParentToolCallID}
	c.parts.put(h.ID, p)
	if !c.inTurn(e.TurnID) {
		return p
	}
	m := c.turn.message
	if m == nil || m.id != e.MessageID {
		c.report(RuleBracket, "part %s is new, and its message %s is not open", h.ID, e.MessageID)
		return p
	}
	if m.output != e.OutputIndex {
		c.report(RuleAddress, "part %s has outputIndex %d, its message %d", h.ID, e.OutputIndex, m.output)
	}
	if m.parts != e.PartIndex {
		c.report(RulePartIndex, "part %s has partIndex %d, want %d", h.ID, e.PartIndex, m.parts)
	}
	if m.parent != h.ParentToolCallID {
		c.report(RuleParent, "part %s has parentToolCallId %q, its message %q", h.ID, h.ParentToolCallID, m.parent)
	}
	m.parts = e.PartIndex + 1
	if m.echo {
		c.echoPart(e)
	}
	return p
}

func (c *Checker) echoPart(e *protocol.MessagePart) {
	if want := protocol.EchoPartID(c.turn.id, e.PartIndex); e.Part.Header().ID != want {
		c.report(RuleEcho, "part %s of the echo must have the id %s", e.Part.Header().ID, want)
	}
	if text, ok := e.Part.(*protocol.TextPart); ok && text.State != protocol.PartDone {
		c.report(RuleEcho, "part %s of the echo must have the state done", text.ID)
	}
}

// upsert checks a further snapshot.
func (c *Checker) upsert(p *part, e *protocol.MessagePart, at address) {
	h := e.Part.Header()
	if at != p.at {
		c.report(RuleAddress, "part %s was at %v and is at %v", h.ID, p.at, at)
	}
	if h.ParentToolCallID != p.parent {
		c.report(RuleParent, "part %s had parentToolCallId %q and has %q", h.ID, p.parent, h.ParentToolCallID)
	}
	if e.Part.PartType() != p.typ {
		c.report(RulePartType, "part %s was a %s and is a %s", h.ID, p.typ, e.Part.PartType())
	}
	if c.turn == nil || c.turn.id != p.at.turn {
		switch {
		case p.typ != protocol.PartTool:
			c.report(RuleAfterEnd, "part %s is a %s of turn %s, which has ended; only tools go on", h.ID, p.typ, p.at.turn)
		case !p.open:
			c.report(RuleAfterEnd, "tool %s had ended when its turn %s did", h.ID, p.at.turn)
		}
	}
}

// contents checks what a snapshot holds against what is known, and takes it over.
func (c *Checker) contents(p *part, now protocol.Part, known bool) {
	id := now.Header().ID
	switch now := now.(type) {
	case *protocol.TextPart:
		c.text(p, id, now.Text, now.State, known)
	case *protocol.ReasoningPart:
		c.text(p, id, now.Text, now.State, known)
	case *protocol.ToolPart:
		c.tool(p, now, known)
	default:
		p.open = false
	}
}

func (c *Checker) text(p *part, id protocol.PartID, text string, state protocol.PartState, known bool) {
	streaming := state == protocol.PartStreaming
	if known && !p.open && streaming {
		c.report(RuleToolState, "part %s was done and is streaming", id)
	}
	if p.deltas.n > 0 && !p.whole.is(text) {
		if p.deltas.is(text) {
			c.report(RuleSnapshotRepeated, "part %s: what a snapshot of the open part carried was sent as deltas again", id)
		} else {
			c.report(RuleSnapshotDisagrees, "part %s: the snapshot has %d bytes that are not the %d bytes of the deltas before it", id, len(text), p.whole.n)
		}
	}
	p.open = streaming
	p.whole = digest{}
	p.whole.write(text)
	if !streaming {
		p.deltas = digest{}
	}
}

func isText(t protocol.PartType) bool { return t == protocol.PartText || t == protocol.PartReasoning }

func (c *Checker) tool(p *part, now *protocol.ToolPart, known bool) {
	status := now.State.Status()
	if p.callID != "" && now.ToolCallID != p.callID {
		c.report(RulePartType, "tool %s had toolCallId %s and has %s", now.ID, p.callID, now.ToolCallID)
	}
	p.callID = now.ToolCallID
	if known && (p.status.Terminal() && status != p.status || rank(status) < rank(p.status)) {
		c.report(RuleToolState, "tool %s was %s and is %s", now.ID, p.status, status)
	}
	switch state := now.State.(type) {
	case *protocol.ToolPending:
		if p.deltas.n > 0 && !p.whole.is(state.PartialInput) {
			rule := RuleSnapshotDisagrees
			if p.deltas.is(state.PartialInput) {
				rule = RuleSnapshotRepeated
			}
			c.report(rule, "tool %s: the partial input is not what the deltas before it have built", now.ID)
		}
		p.whole, p.input, p.cut = digest{}, nil, false
		p.build(state.PartialInput)
	case *protocol.ToolInProgress:
		c.input(p, now.ID, state.Input)
	case *protocol.ToolCompleted:
		c.input(p, now.ID, state.Input)
	}
	if status != protocol.ToolStatusPending {
		p.input = nil
	}
	p.status, p.open = status, !status.Terminal()
}

// input compares a tool's whole input with what was streamed of it. An input that an answer may have changed is not compared.
func (c *Checker) input(p *part, id protocol.PartID, input json.RawMessage) {
	if p.status != protocol.ToolStatusPending || p.deltas.n == 0 || p.cut || c.turn != nil && c.turn.edited {
		return
	}
	var streamed, whole any
	if json.Unmarshal(p.input, &streamed) != nil || json.Unmarshal(input, &whole) != nil || !reflect.DeepEqual(streamed, whole) {
		c.report(RuleSnapshotDisagrees, "tool %s: the input is not what the deltas before it have built", id)
	}
}

// build appends to what a pending tool's input is.
func (p *part) build(text string) {
	p.whole.write(text)
	if len(p.input)+len(text) > maxInput {
		p.cut, p.input = true, nil
	}
	if !p.cut {
		p.input = append(p.input, text...)
	}
}

func rank(s protocol.ToolStatus) int {
	switch s {
	case protocol.ToolStatusPending:
		return 1
	case protocol.ToolStatusInProgress:
		return 2
	}
	if s.Terminal() {
		return 3
	}
	return 0
}

// delta checks a delta.
func (c *Checker) delta(e *protocol.MessagePartDelta) {
	p, known := c.parts.get(e.PartID)
	if !known {
		if c.inTurn(e.TurnID) && !c.parts.forgot {
			c.report(RuleDeltaWithoutPart, "part %s was not there", e.PartID)
		}
		return
	}
	c.inTurn(e.TurnID)
	if at := (address{e.TurnID, e.MessageID, e.OutputIndex, e.PartIndex}); at != p.at {
		c.report(RuleAddress, "part %s is at %v, its delta at %v", e.PartID, p.at, at)
	}
	text, typ := "", protocol.PartType("")
	switch d := e.Delta.(type) {
	case *protocol.TextDelta:
		text, typ = d.Text, protocol.PartText
	case *protocol.ReasoningDelta:
		text, typ = d.Text, protocol.PartReasoning
	case *protocol.ToolInputDelta:
		text, typ = d.Input, protocol.PartTool
		if p.typ == protocol.PartTool && d.ToolCallID != p.callID {
			c.report(RuleDeltaType, "part %s is of tool call %s, its delta of %s", e.PartID, p.callID, d.ToolCallID)
		}
	default:
		return // of a type that this build does not know
	}
	switch {
	case typ != p.typ:
		c.report(RuleDeltaType, "part %s is a %s, its delta a %s", e.PartID, p.typ, e.Delta.DeltaType())
		return
	case !p.open || p.typ == protocol.PartTool && p.status != protocol.ToolStatusPending:
		c.report(RuleDeltaClosed, "part %s is not open and takes no deltas", e.PartID)
		return
	}
	p.deltas.write(text)
	if typ == protocol.PartTool {
		p.build(text)
	} else {
		p.whole.write(text)
	}
}
