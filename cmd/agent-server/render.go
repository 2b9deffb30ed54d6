package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"agentserver/protocol"
)

// A renderer shows one turn's events to a person: what the assistant says goes to out, everything else (tools, thoughts, notices) to info, so
// that out can be piped. It is used by one goroutine.
type renderer struct {
	out, info io.Writer
	color     bool
	progress  *progressView

	open     protocol.PartID // the part whose text ends the output so far
	written  map[protocol.PartID]int
	shown    map[protocol.PartID]protocol.ToolStatus
	atMargin bool      // nothing stands on the current line
	last     io.Writer // where the current line stands
}

func newRenderer(out, info io.Writer, color bool) *renderer {
	r := &renderer{out: out, info: info, color: color, atMargin: true, written: map[protocol.PartID]int{}, shown: map[protocol.PartID]protocol.ToolStatus{}}
	r.progress = newProgressView(info, func(message string) { r.line("· %s", message) })
	return r
}

// event shows e.
func (r *renderer) event(e protocol.Event) {
	if n, ok := e.(*protocol.SessionNotice); ok && n.Progress != nil {
		r.progress.show(n)
		return
	}
	r.progress.end()
	switch e := e.(type) {
	case *protocol.MessagePart:
		r.part(e)
	case *protocol.MessagePartDelta:
		switch d := e.Delta.(type) {
		case *protocol.TextDelta:
			r.text(e.PartID, d.Text, false)
		case *protocol.ReasoningDelta:
			r.text(e.PartID, d.Text, true)
		}
	case *protocol.SessionNotice:
		if e.Kind != protocol.NoticeRetry { // the error event beside it says the same
			r.line("· %s", e.Message)
		}
	case *protocol.SessionCompaction:
		r.line("· context compaction: %s", e.Status)
	case *protocol.SessionCreated:
		if e.Resumed != nil && !*e.Resumed {
			r.line("! the earlier session could not be resumed; its context is lost")
		}
	case *protocol.ErrorEvent:
		r.line("! %s: %s", e.Category, e.Message)
	case *protocol.TurnEnded:
		r.ended(e)
	}
}

func (r *renderer) part(e *protocol.MessagePart) {
	if e.OutputIndex == 0 {
		return // the echo of what the person has just typed
	}
	switch p := e.Part.(type) {
	case *protocol.TextPart:
		r.rest(p.ID, p.Text, false)
	case *protocol.ReasoningPart:
		r.rest(p.ID, p.Text, true)
	case *protocol.ToolPart:
		r.tool(p)
	}
}

// rest writes what a snapshot has beyond what deltas have already shown.
func (r *renderer) rest(id protocol.PartID, text string, thought bool) {
	if n := r.written[id]; n < len(text) {
		r.text(id, text[n:], thought)
	}
}

func (r *renderer) text(id protocol.PartID, text string, thought bool) {
	if text == "" {
		return
	}
	if r.open != id {
		r.margin()
		r.open = id
	}
	r.written[id] += len(text)
	r.atMargin = strings.HasSuffix(text, "\n")
	r.last = r.out
	if thought {
		r.last, text = r.info, r.dim(text)
	}
	fmt.Fprint(r.last, text)
}

func (r *renderer) tool(p *protocol.ToolPart) {
	status := p.State.Status()
	if r.shown[p.ID] == status {
		return
	}
	indent := ""
	if p.ParentToolCallID != "" {
		indent = "  "
	}
	switch s := p.State.(type) {
	case *protocol.ToolInProgress:
		r.line("%s→ %s", indent, toolTitle(p, s.Input))
	case *protocol.ToolCompleted:
		if r.shown[p.ID] == "" {
			r.line("%s→ %s", indent, toolTitle(p, s.Input))
		}
		r.line("%s✓ %s", indent, firstLine(s.Output, "done"))
	case *protocol.ToolFailed:
		r.line("%s✗ %s: %s", indent, p.ToolName, firstLine(s.Error, "failed"))
	case *protocol.ToolCancelled:
		r.line("%s✗ %s: cancelled", indent, p.ToolName)
	default:
		return
	}
	r.shown[p.ID] = status
}

func (r *renderer) ended(e *protocol.TurnEnded) {
	r.margin()
	switch e.StopReason {
	case protocol.StopEndTurn:
	case protocol.StopError:
		if e.Error != nil {
			r.line("! the turn failed: %s: %s", e.Error.Category, e.Error.Message)
		}
	default:
		r.line("! the turn ended early: %s", e.StopReason)
	}
	if t := e.Tokens; t != nil {
		in := t.Input
		if t.Cache != nil {
			in += t.Cache.Read + t.Cache.Write
		}
		cost := ""
		if e.Cost != nil {
			cost = fmt.Sprintf(", %s %.4f", e.Cost.Currency, e.Cost.Amount)
		}
		r.line("· %d tokens in, %d out%s", in, t.Output, cost)
	}
}

// line writes one whole line to info.
func (r *renderer) line(format string, args ...any) {
	r.margin()
	fmt.Fprintln(r.info, r.dim(fmt.Sprintf(format, args...)))
}

// margin ends a line of text that is still open, so that what follows starts at the left.
func (r *renderer) margin() {
	if !r.atMargin {
		fmt.Fprintln(r.last)
	}
	r.atMargin, r.open = true, ""
}

func (r *renderer) dim(s string) string {
	if !r.color {
		return s
	}
	return "\x1b[2m" + s + "\x1b[0m"
}

// toolTitle is what a call is about, on one line.
func toolTitle(p *protocol.ToolPart, input json.RawMessage) string {
	if p.Title != "" && p.Title != p.ToolName {
		return p.ToolName + ": " + firstLine(p.Title, "")
	}
	return p.ToolName + " " + firstLine(string(input), "")
}

// firstLine returns the first line of s, cut to a readable length and cleaned of control characters, or empty when s is blank.
func firstLine(s, empty string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return empty
	}
	line, _, more := strings.Cut(s, "\n")
	line = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, line)
	if runes := []rune(line); len(runes) > 120 {
		return string(runes[:120]) + "…"
	}
	if more {
		return line + " …"
	}
	return line
}
