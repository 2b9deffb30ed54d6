package conversation

import (
	"encoding/json"
	"strings"

	"agentserver/protocol"
)

// A kind sorts parts by what is open in them.
type kind int

const (
	kindClosed kind = iota
	kindText
	kindReasoning
	kindPending // a tool whose input is being written
	kindRunning
	numKinds
)

func kindOf(p protocol.Part) kind {
	switch p := p.(type) {
	case *protocol.TextPart:
		if p.State == protocol.PartStreaming {
			return kindText
		}
	case *protocol.ReasoningPart:
		if p.State == protocol.PartStreaming {
			return kindReasoning
		}
	case *protocol.ToolPart:
		switch p.State.(type) {
		case *protocol.ToolPending:
			return kindPending
		case *protocol.ToolInProgress:
			return kindRunning
		}
	}
	return kindClosed
}

// A growth is the text of a part that deltas append to.
type growth struct {
	place partPlace
	typ   protocol.DeltaType
	text  strings.Builder
	dirty bool // the part in the timeline lacks some of it
}

// part folds a snapshot in.
func (s *State) part(e *protocol.MessagePart) {
	if e.Part == nil {
		return // no decoder lets it pass
	}
	id := e.Part.Header().ID
	if g := s.growing[id]; g != nil {
		g.dirty = false
		delete(s.growing, id)
	}
	place, known := s.cur.idx.parts[id]
	if !known {
		s.addPart(e.TurnID, e.MessageID, e.OutputIndex, e.PartIndex, e.Part)
		return
	}
	next := *s.partAt(place)
	next.Part = e.Part
	s.setPart(place, &next)
}

func (s *State) partAt(at partPlace) *Part {
	return s.cur.Timeline.At(at.message).Message.parts.At(at.part)
}

func (s *State) addPart(turn protocol.TurnID, message protocol.MessageID, outputIndex, partIndex int, p protocol.Part) {
	place, known := s.cur.idx.messages[message]
	if !known {
		place = s.implyMessage(message, turn, outputIndex, p.Header().ParentToolCallID)
	}
	m := *s.cur.Timeline.At(place).Message
	at := partPlace{place, m.parts.Len()}
	if at.part > 0 && m.parts.At(at.part-1).Index > partIndex {
		m.unsorted = true
	}
	// The turn of the message is the turn of its parts.
	added := &Part{TurnID: m.TurnID, MessageID: m.ID, Index: partIndex, Seq: s.seq, Part: p}
	m.parts = m.parts.push(added)
	s.cur.Timeline = s.cur.Timeline.set(place, Entry{Message: &m})
	s.cur.idx.putPart(p, at)
	s.count(at, m.TurnID, kindClosed, kindOf(p))
	s.partChanged(added)
}

func (s *State) setPart(at partPlace, next *Part) {
	before := s.partAt(at)
	s.storePart(at, next)
	s.count(at, next.TurnID, kindOf(before.Part), kindOf(next.Part))
	s.partChanged(next)
}

func (s *State) storePart(at partPlace, next *Part) {
	m := *s.cur.Timeline.At(at.message).Message
	m.parts = m.parts.set(at.part, next)
	s.cur.Timeline = s.cur.Timeline.set(at.message, Entry{Message: &m})
}

func (s *State) partChanged(p *Part) {
	s.changed(Change{Kind: PartChanged, TurnID: p.TurnID, MessageID: p.MessageID, PartID: p.Part.Header().ID, Part: p})
}

// count keeps what is open in the active turn.
func (s *State) count(at partPlace, turn protocol.TurnID, before, after kind) {
	if turn != s.cur.ActiveTurnID {
		return
	}
	if before == kindClosed && after != kindClosed {
		s.opened = append(s.opened, at)
	}
	s.open[before]--
	s.open[after]++
}

// delta appends to a part. On a part that is not open, or of another type, it has no effect.
func (s *State) delta(e *protocol.MessagePartDelta) {
	if e.Delta == nil {
		return // no decoder lets it pass
	}
	typ, text := e.Delta.DeltaType(), ""
	switch d := e.Delta.(type) {
	case *protocol.TextDelta:
		text = d.Text
	case *protocol.ReasoningDelta:
		text = d.Text
	case *protocol.ToolInputDelta:
		text = d.Input
	default:
		s.unknown(e)
		return
	}
	g := s.growing[e.PartID]
	if g == nil {
		place, known := s.cur.idx.parts[e.PartID]
		if !known {
			s.addPart(e.TurnID, e.MessageID, e.OutputIndex, e.PartIndex, implied(e))
			place = s.cur.idx.parts[e.PartID]
		}
		if g = grow(place, s.partAt(place).Part); g == nil {
			return
		}
		s.growing[e.PartID] = g
	}
	if g.typ != typ || text == "" {
		return
	}
	g.text.WriteString(text)
	if !g.dirty {
		g.dirty = true
		s.dirty = append(s.dirty, g)
	}
	p := s.partAt(g.place)
	s.changed(Change{Kind: PartAppended, TurnID: p.TurnID, MessageID: p.MessageID, PartID: e.PartID, Text: text})
}

// implied is the part of a delta whose part was not seen, before the delta.
func implied(e *protocol.MessagePartDelta) protocol.Part {
	h := protocol.PartHeader{ID: e.PartID, SessionID: e.SessionID, MessageID: e.MessageID}
	switch d := e.Delta.(type) {
	case *protocol.ReasoningDelta:
		return &protocol.ReasoningPart{PartHeader: h, State: protocol.PartStreaming}
	case *protocol.ToolInputDelta:
		return &protocol.ToolPart{PartHeader: h, ToolCallID: d.ToolCallID, ToolName: d.ToolName, State: &protocol.ToolPending{}}
	}
	return &protocol.TextPart{PartHeader: h, State: protocol.PartStreaming}
}

// grow begins to append to an open part; it returns nil for one that takes no deltas.
func grow(at partPlace, p protocol.Part) *growth {
	g := &growth{place: at}
	switch p := p.(type) {
	case *protocol.TextPart:
		if p.State == protocol.PartDone {
			return nil
		}
		g.typ = protocol.DeltaText
		g.text.WriteString(p.Text)
	case *protocol.ReasoningPart:
		if p.State == protocol.PartDone {
			return nil
		}
		g.typ = protocol.DeltaReasoning
		g.text.WriteString(p.Text)
	case *protocol.ToolPart:
		pending, ok := p.State.(*protocol.ToolPending)
		if !ok {
			return nil
		}
		g.typ = protocol.DeltaToolInput
		g.text.WriteString(pending.PartialInput)
	default:
		return nil
	}
	return g
}

// settle brings the text of deltas into the timeline. The strings share their bytes with the growing text, which only ever gets longer.
func (s *State) settle() {
	for _, g := range s.dirty {
		if !g.dirty {
			continue
		}
		g.dirty = false
		next := *s.partAt(g.place)
		next.Part = withText(next.Part, g.text.String())
		s.storePart(g.place, &next)
	}
	clear(s.dirty)
	s.dirty = s.dirty[:0]
}

// withText returns a copy of an open part with another text or partial input.
func withText(p protocol.Part, text string) protocol.Part {
	switch p := p.(type) {
	case *protocol.TextPart:
		c := *p
		c.Text = text
		return protocol.Fresh(&c)
	case *protocol.ReasoningPart:
		c := *p
		c.Text = text
		return protocol.Fresh(&c)
	case *protocol.ToolPart:
		c := *p
		pending := &protocol.ToolPending{PartialInput: text}
		if before, ok := p.State.(*protocol.ToolPending); ok {
			pending.Meta = before.Meta
		}
		c.State = pending
		return protocol.Fresh(&c)
	}
	return p
}

// closeParts closes what is open in the active turn.
func (s *State) closeParts(at int64) {
	s.settle()
	for _, place := range s.opened {
		p := s.partAt(place)
		if kindOf(p.Part) == kindClosed {
			continue
		}
		delete(s.growing, p.Part.Header().ID)
		next := *p
		next.Part = closed(p.Part, at)
		s.setPart(place, &next)
	}
}

// closed returns a copy of an open part as the end of its turn leaves it.
func closed(p protocol.Part, at int64) protocol.Part {
	switch p := p.(type) {
	case *protocol.TextPart:
		c := *p
		c.State = protocol.PartDone
		return protocol.Fresh(&c)
	case *protocol.ReasoningPart:
		c := *p
		c.State = protocol.PartDone
		if p.Time != nil && p.Time.End == 0 {
			c.Time = &protocol.TimeSpan{Start: p.Time.Start, End: at}
		}
		return protocol.Fresh(&c)
	case *protocol.ToolPart:
		c := *p
		c.State = cancelled(p.State, at)
		return protocol.Fresh(&c)
	}
	return p
}

func cancelled(state protocol.ToolState, at int64) protocol.ToolState {
	out := &protocol.ToolCancelled{Input: json.RawMessage("{}"), Time: protocol.TimeSpan{Start: at, End: at}}
	switch before := state.(type) {
	case *protocol.ToolInProgress:
		out.Input, out.Meta, out.Time.Start = before.Input, before.Meta, before.Time.Start
	case *protocol.ToolPending:
		out.Meta = before.Meta
		if before.PartialInput != "" {
			out.Meta = out.Meta.With(protocol.MetaPartialInput, before.PartialInput)
		}
	}
	return out
}
