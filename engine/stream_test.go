package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentserver/protocol"
	"agentserver/protocol/streamcheck"
)

// checkStream holds a session's events to the order and the brackets of the protocol.
func checkStream(t *testing.T, events []protocol.Envelope) {
	t.Helper()
	c := checker{parts: map[protocol.PartID]*seenPart{}, asked: map[protocol.RequestID]bool{}}
	for i, env := range events {
		if env.Seq != events[0].Seq+uint64(i) {
			t.Errorf("number %d follows %d", env.Seq, events[i-1].Seq)
		}
		b, err := protocol.AppendEnvelope(nil, env)
		if err == nil {
			_, err = protocol.DecodeEnvelope(b)
		}
		if err != nil {
			t.Errorf("event %d cannot be read back: %v\n%s", env.Seq, err, b)
		}
		if msg := c.take(env.Event); msg != "" {
			t.Errorf("event %d: %s\n%s", env.Seq, msg, render(events))
			return
		}
	}
	for _, v := range streamcheck.Check(func(yield func(protocol.Envelope, error) bool) {
		for _, env := range events {
			if !yield(env, nil) {
				return
			}
		}
	}) {
		if v.Rule == streamcheck.RuleSnapshotDisagrees || v.Rule == streamcheck.RuleSnapshotRepeated {
			continue // a matter of the driver, whose last word counts
		}
		t.Errorf("%v\n%s", v, render(events))
		return
	}
	if c.turn != "" && len(events) > 0 {
		t.Errorf("turn %s did not end\n%s", c.turn, render(events))
	}
}

type seenPart struct {
	turn    protocol.TurnID
	address string
	typ     protocol.PartType
	text    string
	open    bool
	status  protocol.ToolStatus
}

type checker struct {
	turn    protocol.TurnID
	out     int
	message protocol.MessageID
	parts   map[protocol.PartID]*seenPart
	asked   map[protocol.RequestID]bool
}

func (c *checker) take(event protocol.Event) string {
	switch e := event.(type) {
	case *protocol.TurnStarted:
		if c.turn != "" {
			return "a turn began within a turn"
		}
		c.turn, c.out = e.TurnID, 0
		if e.Meta.GetString(protocol.MetaOrigin) == "agent" {
			c.out = 1
		}
	case *protocol.TurnEnded:
		switch {
		case c.turn != e.TurnID:
			return "a turn ended that does not run"
		case c.message != "":
			return "a message is open at the turn's end"
		case len(c.asked) > 0:
			return "a permission is open at the turn's end"
		case e.StopReason == protocol.StopError && e.Error == nil:
			return "an error without error"
		}
		for id, p := range c.parts {
			if p.open && p.typ != protocol.PartTool {
				return fmt.Sprintf("part %s was left streaming", id)
			}
		}
		c.turn = ""
	case *protocol.MessageStarted:
		switch {
		case e.TurnID != c.turn:
			return "a message outside its turn"
		case c.message != "":
			return "a message within a message"
		case e.OutputIndex != c.out:
			return fmt.Sprintf("outputIndex %d, want %d", e.OutputIndex, c.out)
		}
		c.out++
		c.message = e.MessageID
	case *protocol.MessageEnded:
		if e.MessageID != c.message {
			return "a message ended that is not open"
		}
		c.message = ""
	case *protocol.MessagePart:
		return c.part(e)
	case *protocol.MessagePartDelta:
		return c.delta(e)
	case *protocol.PermissionRequested:
		if e.TurnID != c.turn {
			return "a permission outside its turn"
		}
		c.asked[e.RequestID] = true
	case *protocol.PermissionResolved:
		if !c.asked[e.RequestID] {
			return "a permission was resolved that is not open"
		}
		delete(c.asked, e.RequestID)
	case *protocol.SessionUsage:
		if e.TurnID != c.turn {
			return "usage outside its turn"
		}
	case *protocol.SessionCompaction:
		if e.TurnID != c.turn {
			return "a compaction outside its turn"
		}
	}
	return ""
}

func (c *checker) part(e *protocol.MessagePart) string {
	h := e.Part.Header()
	address := fmt.Sprint(e.TurnID, e.MessageID, e.OutputIndex, e.PartIndex, h.ParentToolCallID)
	p := c.parts[h.ID]
	if p == nil {
		if e.MessageID != c.message || e.TurnID != c.turn {
			return "a new part outside the open message"
		}
		p = &seenPart{turn: e.TurnID, address: address, typ: e.Part.PartType()}
		c.parts[h.ID] = p
	}
	switch {
	case h.MessageID != e.MessageID:
		return "the part names another message"
	case p.address != address:
		return "the part moved"
	case p.typ != e.Part.PartType():
		return "the part changed its type"
	case e.TurnID != c.turn && p.typ != protocol.PartTool:
		return "a late part that is no tool"
	}
	switch v := e.Part.(type) {
	case *protocol.TextPart:
		p.open, p.text = v.State == protocol.PartStreaming, v.Text
	case *protocol.ReasoningPart:
		p.open, p.text = v.State == protocol.PartStreaming, v.Text
	case *protocol.ToolPart:
		if p.status.Terminal() && p.status != v.State.Status() {
			return fmt.Sprintf("tool went from %s to %s", p.status, v.State.Status())
		}
		p.status = v.State.Status()
		p.open = !p.status.Terminal()
		if s, ok := v.State.(*protocol.ToolPending); ok {
			p.text = s.PartialInput
		}
	}
	return ""
}

func (c *checker) delta(e *protocol.MessagePartDelta) string {
	p := c.parts[e.PartID]
	switch {
	case p == nil || !p.open:
		return "a delta for a part that is not open"
	case e.TurnID != c.turn:
		return "a delta outside its turn"
	case !strings.HasPrefix(p.address, fmt.Sprint(e.TurnID, e.MessageID, e.OutputIndex, e.PartIndex)):
		return "a delta with another address"
	}
	return ""
}

// render writes events as one line each, with short names in place of minted ids.
func render(events []protocol.Envelope) string {
	r := renderer{names: map[string]string{}}
	var b strings.Builder
	for _, env := range events {
		b.WriteString(strings.TrimSpace(r.line(env.Event)))
		b.WriteByte('\n')
	}
	return b.String()
}

type renderer struct {
	names map[string]string
	next  [256]int
}

// name shortens an id that was minted; what the test chose stays.
func (r *renderer) name(letter byte, id string) string {
	if len(id) != 36 || strings.Count(id, "-") != 4 {
		return id
	}
	if r.names[id] == "" {
		r.next[letter]++
		r.names[id] = fmt.Sprintf("%c%d", letter, r.next[letter])
	}
	return r.names[id]
}

func (r *renderer) line(event protocol.Event) string {
	turn := func(id protocol.TurnID) string { return r.name('T', string(id)) }
	msg := func(id protocol.MessageID) string { return r.name('m', string(id)) }
	s := string(event.EventType())
	switch e := event.(type) {
	case *protocol.SessionCreated:
		s += " " + e.NativeSessionID + opt(" ", e.Model)
		if e.Resumed != nil {
			s += fmt.Sprint(" resumed=", *e.Resumed)
		}
	case *protocol.SessionEnded:
		s += " " + string(e.Reason)
	case *protocol.SessionUsage:
		s += fmt.Sprint(" ", turn(e.TurnID), " ", e.Used)
	case *protocol.SessionCompaction:
		s += fmt.Sprint(" ", turn(e.TurnID), " ", r.name('c', string(e.CompactionID)), " ", e.Status)
	case *protocol.SessionNotice:
		s += " " + turn(e.TurnID) + " " + e.Message
	case *protocol.TurnStarted:
		s += " " + turn(e.TurnID) + opt(" ", e.Meta.GetString(protocol.MetaOrigin))
	case *protocol.TurnEnded:
		s += " " + turn(e.TurnID) + " " + string(e.StopReason)
		if e.Error != nil {
			s += fmt.Sprintf(" %s: %s", e.Error.Category, e.Error.Message)
		}
	case *protocol.MessageStarted:
		s += fmt.Sprint(" ", msg(e.MessageID), " ", e.Role, " ", e.OutputIndex) + opt(" in ", e.ParentToolCallID) + opt(" ", e.Model)
	case *protocol.MessageEnded:
		s += " " + msg(e.MessageID)
	case *protocol.MessagePart:
		s += fmt.Sprint(" ", msg(e.MessageID), ".", e.PartIndex, " ", r.name('p', string(e.Part.Header().ID)), " ", r.part(e.Part))
	case *protocol.MessagePartDelta:
		s += fmt.Sprint(" ", r.name('p', string(e.PartID)), " ", delta(e.Delta))
	case *protocol.PermissionRequested:
		s += " " + r.name('r', string(e.RequestID)) + " " + e.Title
	case *protocol.PermissionResolved:
		s += " " + r.name('r', string(e.RequestID)) + " " + string(e.Outcome.Outcome) + opt(" ", e.Outcome.OptionID) + opt(" ", string(e.Outcome.UpdatedInput))
	case *protocol.ErrorEvent:
		s += fmt.Sprint(" ", turn(e.TurnID), " ", e.Category, ": ", e.Message)
	case *protocol.Raw:
		s += " " + string(e.Data)
	}
	return s
}

func opt(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

func delta(d protocol.Delta) string {
	switch v := d.(type) {
	case *protocol.TextDelta:
		return fmt.Sprintf("+%q", v.Text)
	case *protocol.ReasoningDelta:
		return fmt.Sprintf("~%q", v.Text)
	case *protocol.ToolInputDelta:
		return fmt.Sprintf("%s(%s)+%q", v.ToolName, v.ToolCallID, v.Input)
	}
	return "?"
}

func (r *renderer) part(part protocol.Part) string {
	switch p := part.(type) {
	case *protocol.TextPart:
		return fmt.Sprintf("%q %s", p.Text, p.State)
	case *protocol.ReasoningPart:
		return fmt.Sprintf("~%q %s", p.Text, p.State)
	case *protocol.ImagePart:
		return "image " + p.Data + p.URL
	case *protocol.FilePart:
		return "file " + p.Data + p.URL
	case *protocol.ToolPart:
		s := fmt.Sprintf("%s(%s) %s", p.ToolName, p.ToolCallID, p.State.Status())
		switch v := p.State.(type) {
		case *protocol.ToolPending:
			s += opt(" ", v.PartialInput)
		case *protocol.ToolInProgress:
			s += " " + string(v.Input)
		case *protocol.ToolCompleted:
			s += " " + string(v.Input) + " =" + opt(" ", v.Output)
		case *protocol.ToolFailed:
			s += " " + string(v.Input) + " ! " + v.Error
		case *protocol.ToolCancelled:
			s += " " + string(v.Input) + opt(" ", v.Meta.GetString(protocol.MetaPartialInput))
		}
		return s
	}
	return "?"
}

// wantStream compares a session's events with lines, one event each. "…" stands for any number of events.
func (b *bench) wantStream(lines string) {
	b.t.Helper()
	got := strings.Split(strings.TrimSpace(render(b.events("s"))), "\n")
	var want []string
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line != "" {
			want = append(want, line)
		}
	}
	if !matchLines(got, want) {
		b.t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func matchLines(got, want []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "…" {
		return slices.ContainsFunc(starts(len(got)), func(i int) bool { return matchLines(got[i:], want[1:]) })
	}
	return len(got) > 0 && got[0] == want[0] && matchLines(got[1:], want[1:])
}

func starts(n int) []int {
	var all []int
	for i := range n + 1 {
		all = append(all, i)
	}
	return all
}
