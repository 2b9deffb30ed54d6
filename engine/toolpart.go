package engine

import (
	"encoding/json"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// toolProgress is what a tool part remembers from one snapshot to the next.
type toolProgress struct {
	callID, name string
	status       protocol.ToolStatus // empty before the first snapshot
	input        json.RawMessage     // the last whole input
	forgotten    bool                // the input was too large to be kept beyond the end
	started      int64
	last         *protocol.ToolPart // the last snapshot, until the call is over
}

// keptInput is the greatest input, in bytes, that is kept for late updates of a call that is over. Late updates of a greater one bring it along, or
// are passed over.
const keptInput = 4096

// updateTool takes a snapshot of a tool part. States go forward only: what would go back, or end a call in another way than it has ended, is
// passed over.
func (p *processor) updateTool(pt *part, in *protocol.ToolPart) {
	tp := pt.tool
	if !forward(tp.status, in.State.Status()) || tp.forgotten && !hasInput(in.State) {
		return
	}
	c := *in
	c.PartHeader = p.header(pt, in.Meta)
	if blank(string(c.Kind)) {
		c.Kind = ""
	}
	c.ToolCallID = firstOf(in.ToolCallID, tp.callID, pt.key)
	c.ToolName = firstOf(in.ToolName, tp.name, "unknown")
	if c.Subagent != nil {
		c.Kind = protocol.ToolKindTask
	}
	c.State = pt.fillState(in.State)
	tp.callID, tp.name, tp.status, tp.last = c.ToolCallID, c.ToolName, c.State.Status(), &c
	p.snapshot(pt, &c)
	if tp.status.Terminal() {
		tp.last = nil
		if len(tp.input) > keptInput {
			tp.input, tp.forgotten = nil, true
		}
		p.finish(pt)
	}
}

// forward reports whether a tool may go from one status to another.
func forward(from, to protocol.ToolStatus) bool {
	if from.Terminal() {
		return from == to
	}
	return rank(to) >= rank(from)
}

func rank(s protocol.ToolStatus) int {
	switch s {
	case "":
		return 0
	case protocol.ToolStatusPending:
		return 1
	case protocol.ToolStatusInProgress:
		return 2
	}
	return 3
}

// fillState returns a copy of a state with what the driver left to the engine: times, and the input that came before.
func (pt *part) fillState(in protocol.ToolState) protocol.ToolState {
	switch s := in.(type) {
	case *protocol.ToolPending:
		c := *s
		c.Touch()
		c.Meta = validMeta(c.Meta)
		pt.text.Reset()
		pt.text.WriteString(c.PartialInput)
		return &c
	case *protocol.ToolInProgress:
		c := *s
		c.Touch()
		c.Meta = validMeta(c.Meta)
		c.Input, _ = pt.takeInput(c.Input)
		c.Time = pt.span(c.Time, false)
		return &c
	case *protocol.ToolCompleted:
		c := *s
		c.Touch()
		c.Meta = validMeta(c.Meta)
		c.Input, _ = pt.takeInput(c.Input)
		c.Content, c.Metadata = validContent(c.Content), validJSON(c.Metadata)
		c.Time = pt.span(c.Time, true)
		return &c
	case *protocol.ToolFailed:
		c := *s
		c.Touch()
		c.Meta = validMeta(c.Meta)
		c.Input, c.Meta = pt.takeInputOrPartial(c.Input, c.Meta)
		c.Time = pt.span(c.Time, true)
		return &c
	case *protocol.ToolCancelled:
		c := *s
		c.Touch()
		c.Meta = validMeta(c.Meta)
		c.Input, c.Meta = pt.takeInputOrPartial(c.Input, c.Meta)
		c.Time = pt.span(c.Time, true)
		return &c
	}
	return in
}

// takeInput returns the call's input: the one given, else the one that came before, else what was streamed, if that is whole. Whole is false when
// there is none of these and {} stands in.
func (pt *part) takeInput(given json.RawMessage) (input json.RawMessage, whole bool) {
	tp := pt.tool
	switch {
	case validJSON(given) != nil:
		tp.input = given
		pt.text.Reset()
	case tp.input != nil:
	case json.Valid([]byte(pt.text.String())):
		tp.input = json.RawMessage(pt.text.String())
	default:
		return json.RawMessage("{}"), false
	}
	return tp.input, true
}

func hasInput(state protocol.ToolState) bool {
	switch s := state.(type) {
	case *protocol.ToolCompleted:
		return len(s.Input) > 0
	case *protocol.ToolFailed:
		return len(s.Input) > 0
	case *protocol.ToolCancelled:
		return len(s.Input) > 0
	}
	return false
}

// takeInputOrPartial is takeInput, and puts a streamed input that was cut off into the meta.
func (pt *part) takeInputOrPartial(given json.RawMessage, meta protocol.Meta) (json.RawMessage, protocol.Meta) {
	input, whole := pt.takeInput(given)
	if partial := pt.text.String(); !whole && partial != "" {
		meta = meta.With(protocol.MetaPartialInput, partial)
	}
	return input, meta
}

// span fills in a state's time. A call keeps its first start.
func (pt *part) span(given protocol.TimeSpan, over bool) protocol.TimeSpan {
	tp, now := pt.tool, time.Now().UnixMilli()
	if tp.started == 0 {
		if tp.started = given.Start; tp.started == 0 {
			tp.started = now
		}
	}
	span := protocol.TimeSpan{Start: tp.started}
	if over {
		if span.End = given.End; span.End == 0 {
			span.End = max(now, span.Start)
		}
	}
	return span
}

// cancelTool closes a tool part that will not go on.
func (p *processor) cancelTool(pt *part) {
	last := pt.tool.last
	if last == nil {
		last = &protocol.ToolPart{}
	}
	c := *last
	c.State = &protocol.ToolCancelled{}
	p.updateTool(pt, &c)
}

func firstOf(all ...string) string {
	for _, s := range all {
		if !blank(s) {
			return s
		}
	}
	return ""
}

// maxCompactions bounds how many compactions may go on at the same time.
const maxCompactions = 256

// compaction appends an upsert. A compaction keeps the id of its first event until it is over; then its key may name another.
func (p *processor) compaction(e *harness.Compaction) {
	status := e.Status
	if blank(string(status)) {
		status = protocol.CompactionCompleted
	}
	id, known := p.compactions[e.Key]
	if !known {
		id = protocol.CompactionID(protocol.NewID())
	}
	switch {
	case status != protocol.CompactionInProgress:
		delete(p.compactions, e.Key)
	case !known:
		if p.compactions == nil || len(p.compactions) >= maxCompactions {
			p.compactions = make(map[string]protocol.CompactionID)
		}
		p.compactions[e.Key] = id
	}
	p.emit(&protocol.SessionCompaction{TurnID: p.turn, CompactionID: id, Status: status, Trigger: e.Trigger,
		PreTokens: e.PreTokens, PostTokens: e.PostTokens, Summary: e.Summary})
}
