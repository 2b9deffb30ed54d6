package engine

import (
	"strings"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// A processor turns what an agent says about messages and parts into events: it mints ids, gives indices, keeps the brackets, and remembers where
// each part stands, so that every update goes to the address of the part's first event. It belongs to one session and to its actor.
type processor struct {
	session protocol.SessionID
	emit    func(protocol.Event)

	parts    map[string]*part
	open     []*part // those that are not over, in order, and some that are
	overs    int     // how many in open are over
	finished []*part // those that are over, oldest first: the bound of parts

	turn    protocol.TurnID // the last turn that began
	running bool            // it has not ended
	out     int             // the next message's outputIndex
	message *message        // the open one
	next    *harness.MessageStarted
	echoes  []protocol.Input // steering input that waits for the open message to end

	compactions map[string]protocol.CompactionID
}

// A message is the one that is open.
type message struct {
	id     protocol.MessageID
	out    int
	parent string
	parts  int
}

// A part is where a part stands. It keeps its address for ever.
type part struct {
	key     string
	typ     protocol.PartType
	id      protocol.PartID
	turn    protocol.TurnID
	message protocol.MessageID
	out, at int
	parent  string
	over    bool // nothing changes any more, but for a repeated end of a tool
	start   int64

	text strings.Builder // what deltas and snapshots built so far
	tool *toolProgress   // of a tool part
}

// maxFinished bounds how many finished parts keep their address.
const maxFinished = 4096

func newProcessor(session protocol.SessionID, emit func(protocol.Event)) *processor {
	return &processor{session: session, emit: emit, parts: make(map[string]*part)}
}

// begin starts a turn with the echo of its input; a turn of the agent's own has none.
func (p *processor) begin(turn protocol.TurnID, input protocol.Input) {
	p.turn, p.running, p.out = turn, true, 1
	p.message, p.next, p.echoes = nil, nil, nil
	if input != nil {
		id := protocol.EchoMessageID(turn)
		p.echo(id, 0, input, func(i int) protocol.PartID { return protocol.EchoPartID(turn, i) })
	}
}

// echo appends a whole user message.
func (p *processor) echo(id protocol.MessageID, out int, input protocol.Input, partID func(int) protocol.PartID) {
	p.emit(&protocol.MessageStarted{TurnID: p.turn, MessageID: id, OutputIndex: out, Role: protocol.RoleUser})
	for i, item := range input {
		h := protocol.PartHeader{ID: partID(i), SessionID: p.session, MessageID: id}
		p.emit(&protocol.MessagePart{TurnID: p.turn, MessageID: id, OutputIndex: out, PartIndex: i, Part: echoPart(h, item)})
	}
	p.emit(&protocol.MessageEnded{TurnID: p.turn, MessageID: id})
}

func echoPart(h protocol.PartHeader, item protocol.InputItem) protocol.Part {
	switch item.Type {
	case protocol.PartImage:
		return &protocol.ImagePart{PartHeader: h, Data: item.Data, URL: item.URL, MimeType: item.MimeType}
	case protocol.PartFile:
		return &protocol.FilePart{PartHeader: h, Data: item.Data, URL: item.URL, MimeType: item.MimeType, Filename: item.Filename}
	}
	return &protocol.TextPart{PartHeader: h, Text: item.Text, State: protocol.PartDone}
}

// steered appends the echo of steering input, once no message is open.
func (p *processor) steered(input protocol.Input) {
	p.echoes = append(p.echoes, input)
	if p.message == nil {
		p.flushEchoes()
	}
}

func (p *processor) flushEchoes() {
	for _, input := range p.echoes {
		p.echo(protocol.MessageID(protocol.NewID()), p.out, input, func(int) protocol.PartID { return protocol.PartID(protocol.NewID()) })
		p.out++
	}
	p.echoes = nil
}

// begins reports whether an event about key opens a part.
func (p *processor) begins(key string) bool { return p.parts[key] == nil }

// messageStarted closes the open message. The new one is opened by its first part, so that none is empty.
func (p *processor) messageStarted(e *harness.MessageStarted) {
	p.messageEnded()
	p.next = e
}

// messageEnded closes the open message, with the texts in it that were left streaming.
func (p *processor) messageEnded() {
	p.next = nil
	if p.message == nil {
		return
	}
	for _, pt := range p.open {
		if !pt.over && pt.tool == nil && pt.message == p.message.id {
			p.finishText(pt)
		}
	}
	p.closeMessage()
}

func (p *processor) closeMessage() {
	if p.message == nil {
		return
	}
	p.emit(&protocol.MessageEnded{TurnID: p.turn, MessageID: p.message.id})
	p.message = nil
	p.flushEchoes()
}

// within makes sure that a message of the given parent is open.
func (p *processor) within(parent string) *message {
	if p.message != nil && p.message.parent == parent {
		return p.message
	}
	next := p.next
	p.closeMessage() // texts in it may go on: a sub-agent spoke in between
	p.next = nil
	m := &message{id: protocol.MessageID(protocol.NewID()), out: p.out, parent: parent}
	p.out++
	started := &protocol.MessageStarted{TurnID: p.turn, MessageID: m.id, OutputIndex: m.out, Role: protocol.RoleAssistant, ParentToolCallID: parent}
	if next != nil && next.ParentToolCallID == parent {
		started.Model = next.Model
	}
	p.emit(started)
	p.message = m
	return m
}

// add gives a new part its address.
func (p *processor) add(key, parent string, typ protocol.PartType) *part {
	m := p.within(parent)
	pt := &part{key: key, typ: typ, id: protocol.PartID(protocol.NewID()), turn: p.turn, message: m.id, out: m.out, at: m.parts, parent: parent,
		start: time.Now().UnixMilli()}
	if typ == protocol.PartTool {
		pt.tool = &toolProgress{}
	}
	m.parts++
	p.parts[key] = pt
	if p.overs >= 64 && p.overs > len(p.open)/2 {
		p.prune()
	}
	p.open = append(p.open, pt)
	return pt
}

// find returns the part of key for an event of the given type. It returns nil for one that must be passed over: of a turn that has ended only the
// tools that go on can change. A text that ended in this turn, or a key used for another type, gets a new part: nothing that the agent says is lost.
func (p *processor) find(key, parent string, typ protocol.PartType, isDelta bool) (pt *part, added bool) {
	pt = p.parts[key]
	switch {
	case pt == nil:
	case pt.turn != p.turn || !p.running:
		if pt.over || typ != protocol.PartTool {
			return nil, false
		}
		return pt, false
	case pt.typ != typ:
	case pt.over && pt.tool == nil && isDelta:
	default:
		return pt, false
	}
	if !p.running {
		return nil, false
	}
	return p.add(key, parent, typ), true
}

// header returns the header of a part for a snapshot.
func (p *processor) header(pt *part, meta protocol.Meta) protocol.PartHeader {
	return protocol.PartHeader{ID: pt.id, SessionID: p.session, MessageID: pt.message, ParentToolCallID: pt.parent, Meta: validMeta(meta)}
}

func (p *processor) snapshot(pt *part, snapshot protocol.Part) {
	p.emit(&protocol.MessagePart{TurnID: pt.turn, MessageID: pt.message, OutputIndex: pt.out, PartIndex: pt.at, Part: snapshot})
}

// update takes a snapshot.
func (p *processor) update(u *harness.PartUpdate) {
	pt, _ := p.find(u.Key, u.ParentToolCallID, u.Part.PartType(), false)
	if pt == nil {
		return
	}
	switch in := u.Part.(type) {
	case *protocol.TextPart:
		p.updateText(pt, in)
	case *protocol.ReasoningPart:
		p.updateReasoning(pt, in)
	case *protocol.ToolPart:
		p.updateTool(pt, in)
	case *protocol.ImagePart:
		c := *in
		c.PartHeader = p.header(pt, in.Meta)
		p.snapshot(pt, &c)
		p.finish(pt)
	case *protocol.FilePart:
		c := *in
		c.PartHeader = p.header(pt, in.Meta)
		p.snapshot(pt, &c)
		p.finish(pt)
	}
}

func (p *processor) updateText(pt *part, in *protocol.TextPart) {
	text, state, drop := pt.settleText(in.Text, in.State)
	if drop {
		return
	}
	p.snapshot(pt, &protocol.TextPart{PartHeader: p.header(pt, in.Meta), Text: text, State: state})
	if state != protocol.PartStreaming {
		p.finish(pt)
	}
}

func (p *processor) updateReasoning(pt *part, in *protocol.ReasoningPart) {
	text, state, drop := pt.settleText(in.Text, in.State)
	if drop {
		return
	}
	c := &protocol.ReasoningPart{PartHeader: p.header(pt, in.Meta), Text: text, State: state, Time: in.Time, ProviderMetadata: validJSON(in.ProviderMetadata)}
	if c.Time == nil {
		c.Time = &protocol.TimeSpan{Start: pt.start}
		if state != protocol.PartStreaming {
			c.Time.End = time.Now().UnixMilli()
		}
	}
	p.snapshot(pt, c)
	if state != protocol.PartStreaming {
		p.finish(pt)
	}
}

// settleText takes a snapshot's text in, and fills in what it leaves out: a snapshot without text and state opens a stream; an end without text
// ends what was streamed; and a stream is not emptied by another opening.
func (pt *part) settleText(text string, state protocol.PartState) (string, protocol.PartState, bool) {
	if state == "" {
		state = protocol.PartDone
		if text == "" {
			state = protocol.PartStreaming
		}
	}
	if text == "" && pt.text.Len() > 0 {
		if state == protocol.PartStreaming {
			return "", state, true
		}
		return pt.text.String(), state, false
	}
	if pt.over && state == protocol.PartStreaming {
		state = protocol.PartDone
	}
	if state == protocol.PartStreaming {
		pt.text.Reset()
		pt.text.WriteString(text)
	}
	return text, state, false
}

// finish notes that a part is over. Its address is kept for late updates.
func (p *processor) finish(pt *part) {
	pt.text = strings.Builder{}
	if pt.over {
		return
	}
	pt.over = true
	p.finished = append(p.finished, pt)
	if len(p.finished) > maxFinished {
		old := p.finished[0]
		p.finished = p.finished[1:]
		if p.parts[old.key] == old {
			delete(p.parts, old.key)
		}
	}
	p.overs++
}

// prune takes what is over out of open.
func (p *processor) prune() {
	rest := p.open[:0]
	for _, pt := range p.open {
		if !pt.over {
			rest = append(rest, pt)
		}
	}
	clear(p.open[len(rest):])
	p.open, p.overs = rest, 0
}

// finishText closes a text that was left streaming.
func (p *processor) finishText(pt *part) {
	if pt.typ == protocol.PartReasoning {
		p.snapshot(pt, &protocol.ReasoningPart{PartHeader: p.header(pt, nil), Text: pt.text.String(), State: protocol.PartDone,
			Time: &protocol.TimeSpan{Start: pt.start, End: time.Now().UnixMilli()}})
	} else {
		p.snapshot(pt, &protocol.TextPart{PartHeader: p.header(pt, nil), Text: pt.text.String(), State: protocol.PartDone})
	}
	p.finish(pt)
}

// end closes what the turn left open, but for the tools that go on in the background.
func (p *processor) end(background []string) {
	goesOn := make(map[string]bool, len(background))
	for _, key := range background {
		goesOn[key] = true
	}
	for _, pt := range p.open {
		switch {
		case pt.over || pt.turn != p.turn:
		case pt.tool != nil && goesOn[pt.key]:
		case pt.tool != nil:
			p.cancelTool(pt)
		default:
			p.finishText(pt)
		}
	}
	p.closeMessage()
	p.flushEchoes()
	p.running = false
	p.next = nil
	p.prune()
}

// busy reports whether a tool goes on in the background.
func (p *processor) busy() bool {
	for _, pt := range p.open {
		if !pt.over && pt.tool != nil {
			return true
		}
	}
	return false
}

// abandon closes what goes on from earlier turns: the agent that ran it is gone. Its keys go with it, for the next agent may use them for other
// parts. What the running turn has open stays open until that ends.
func (p *processor) abandon() {
	for _, pt := range p.open {
		if !pt.over && pt.tool != nil && (pt.turn != p.turn || !p.running) {
			p.cancelTool(pt)
		}
	}
	p.prune()
	clear(p.parts)
	p.finished = nil
	p.compactions = nil
}
