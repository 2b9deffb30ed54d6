package e2e

import (
	"strings"
	"testing"

	"agentserver/client"
	"agentserver/protocol"
)

// An outcome is what a turn came to.
type outcome struct {
	t       *testing.T
	turn    *client.Turn
	end     *protocol.TurnEnded
	text    string
	thought string
	native  string // the agent's own session
	model   string
	resumed *bool
	tools   []*protocol.ToolPart // the last state of each call
	asked   []*protocol.PermissionRequested
	errors  []*protocol.ErrorEvent
}

// A conversation drives turns of one session through one client.
type conversation struct {
	t  *testing.T
	c  *client.Client
	id protocol.SessionID
	// answer answers permission requests; nil allows.
	answer func(*protocol.PermissionRequested) *protocol.PermissionOutcome
}

func converse(t *testing.T, c *client.Client) *conversation {
	return &conversation{t: t, c: c, id: protocol.SessionID(protocol.NewID())}
}

// start starts a turn.
func (v *conversation) start(prompt string, config protocol.RunConfig) *client.Turn {
	v.t.Helper()
	turn, err := v.c.StartTurn(v.t.Context(), protocol.TurnStartParams{SessionID: v.id, Input: protocol.Text(prompt), Config: config})
	if err != nil {
		v.t.Fatalf("turn/start %q: %v", prompt, err)
	}
	return turn
}

// run runs a turn to its end. react, if not nil, sees each event.
func (v *conversation) run(prompt string, config protocol.RunConfig, react func(*client.Turn, protocol.Event)) *outcome {
	v.t.Helper()
	return v.follow(v.start(prompt, config), react)
}

func (v *conversation) follow(turn *client.Turn, react func(*client.Turn, protocol.Event)) *outcome {
	v.t.Helper()
	out := &outcome{t: v.t, turn: turn}
	texts := map[protocol.PartID]int{}
	for e, err := range turn.Events(v.t.Context()) {
		if err != nil {
			v.t.Fatalf("the turn's stream: %v", err)
		}
		switch e := e.(type) {
		case *protocol.SessionCreated:
			out.native, out.model, out.resumed = e.NativeSessionID, e.Model, e.Resumed
		case *protocol.MessagePart:
			out.part(e, texts)
		case *protocol.PermissionRequested:
			out.asked = append(out.asked, e)
			v.respond(turn, e)
		case *protocol.ErrorEvent:
			out.errors = append(out.errors, e)
		case *protocol.TurnEnded:
			out.end = e
		}
		if react != nil {
			react(turn, e)
		}
	}
	return out
}

func (v *conversation) respond(turn *client.Turn, ask *protocol.PermissionRequested) {
	v.t.Helper()
	outcome := protocol.Selected(protocol.OptionIDAllow)
	if v.answer != nil {
		own := v.answer(ask)
		if own == nil {
			return
		}
		outcome = *own
	}
	if accepted, err := turn.Respond(v.t.Context(), ask.RequestID, outcome); err != nil || !accepted {
		v.t.Errorf("permission/respond: accepted %t, %v", accepted, err)
	}
}

// part keeps the last snapshot of each part.
func (o *outcome) part(e *protocol.MessagePart, texts map[protocol.PartID]int) {
	if e.OutputIndex == 0 {
		return // the echo
	}
	switch p := e.Part.(type) {
	case *protocol.TextPart:
		if p.State == protocol.PartDone {
			o.text += p.Text
		}
	case *protocol.ReasoningPart:
		if p.State == protocol.PartDone {
			o.thought += p.Text
		}
	case *protocol.ToolPart:
		if i, ok := texts[p.ID]; ok {
			o.tools[i] = p
			return
		}
		texts[p.ID] = len(o.tools)
		o.tools = append(o.tools, p)
	}
}

func (o *outcome) want(stop protocol.StopReason) *outcome {
	o.t.Helper()
	if o.end == nil || o.end.StopReason != stop {
		o.t.Fatalf("the turn ended with %+v (%+v), want %s; text %q", o.end, o.end.Error, stop, o.text)
	}
	return o
}

func (o *outcome) wantText(part string) *outcome {
	o.t.Helper()
	if !strings.Contains(o.text, part) {
		o.t.Errorf("text %q, want it to hold %q", o.text, part)
	}
	return o
}

func (o *outcome) wantError(category protocol.ErrorCategory, part string) {
	o.t.Helper()
	o.want(protocol.StopError)
	if o.end.Error == nil || o.end.Error.Category != category || !strings.Contains(o.end.Error.Message, part) {
		o.t.Errorf("error %+v, want %s with %q", o.end.Error, category, part)
	}
}

// status is the state of the only call.
func (o *outcome) wantTool(status protocol.ToolStatus) *protocol.ToolPart {
	o.t.Helper()
	if len(o.tools) != 1 || o.tools[0].State.Status() != status {
		o.t.Fatalf("calls %+v, want one that is %s", o.tools, status)
	}
	return o.tools[0]
}

// isText matches a piece of the answer.
func isText(e protocol.Event) bool {
	d, ok := e.(*protocol.MessagePartDelta)
	return ok && d.Delta.DeltaType() == protocol.DeltaText
}

func isAsk(e protocol.Event) bool { _, ok := e.(*protocol.PermissionRequested); return ok }

// once calls act at the first event that matches.
func once(match func(protocol.Event) bool, act func(*client.Turn)) func(*client.Turn, protocol.Event) {
	done := false
	return func(turn *client.Turn, e protocol.Event) {
		if !done && match(e) {
			done = true
			act(turn)
		}
	}
}
