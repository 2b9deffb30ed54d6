package claude_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// TestSubagent lets a sub-agent run a tool that needs permission. On 2.1.332 it runs in the background: its turn ends before it does, and what it
// says and asks afterwards belongs to turns of the agent's own.
func TestSubagent(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		r := newRig(t, cli).open()
		var asked []harness.Permission
		r.onPermission = func(p harness.Permission) harness.Decision {
			asked = append(asked, p)
			return harness.Decision{Allow: true}
		}
		var agent, child *protocol.ToolPart
		var childParent string
		var said []string
		ends := 0
		r.on = func(e harness.Event) {
			if _, ok := e.(harness.TurnEnd); ok {
				ends++
			}
			u, ok := e.(harness.PartUpdate)
			if !ok {
				return
			}
			switch p := u.Part.(type) {
			case *protocol.ToolPart:
				if p.ToolName == "Agent" {
					agent = p
				} else {
					child, childParent = p, u.ParentToolCallID
				}
			case *protocol.TextPart:
				if u.ParentToolCallID != "" {
					said = append(said, p.Text)
				}
			}
		}
		r.send("TASK TOOL bash touch from-subagent")
		done := func() bool {
			return ends > 0 && agent != nil && agent.State.Status().Terminal() && child != nil && child.State.Status().Terminal() && len(said) >= 2
		}
		for !done() {
			if r.recv() == nil {
				t.Fatal("the stream ended")
			}
		}
		if agent.Kind != protocol.ToolKindTask || agent.Subagent == nil || agent.Subagent.Type != "general-purpose" || agent.Subagent.AgentID == "" {
			t.Errorf("agent %+v %+v", agent, agent.Subagent)
		}
		if agent.State.Status() != protocol.ToolStatusCompleted || child.State.Status() != protocol.ToolStatusCompleted {
			t.Errorf("agent %#v, its call %#v", agent.State, child.State)
		}
		if childParent != agent.ToolCallID || len(asked) != 1 || asked[0].ParentToolCallID != agent.ToolCallID {
			t.Errorf("parent of the call %q, permissions %+v; want %q", childParent, asked, agent.ToolCallID)
		}
		r.drainUntilQuiet()
		wantEnd(t, r.turn("SAY afterwards"), protocol.StopEndTurn)
	})
}

// drainUntilQuiet receives what the CLI still says by itself.
func (r *rig) drainUntilQuiet() {
	r.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(r.t.Context(), 700*time.Millisecond)
		e, err := r.s.Recv(ctx)
		cancel()
		if err != nil {
			return
		}
		if r.on != nil {
			r.on(e)
		}
	}
}

// TestBackground checks a sub-agent in the background: the turn ends first, the work goes on, and is followed by a turn of the agent's own.
func TestBackground(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		r := newRig(t, cli).open()
		res := r.turn("TASK TOOL bash echo begin && sleep 1 && echo bgdone BG")
		wantEnd(t, res, protocol.StopEndTurn)
		if len(res.end.Background) == 0 || res.tools[0].State.Status().Terminal() {
			t.Errorf("background %v, agent %#v", res.end.Background, res.tools[0].State)
		}
		var output string
		own := 0
		r.on = func(e harness.Event) {
			switch e := e.(type) {
			case harness.TurnEnd:
				own++
			case harness.PartUpdate:
				if p, ok := e.Part.(*protocol.ToolPart); ok {
					if done, ok := p.State.(*protocol.ToolCompleted); ok && p.ToolName == "Bash" {
						output = done.Output
					}
				}
			}
		}
		r.until("the follow-up's end", func(e harness.Event) bool { _, ok := e.(harness.TurnEnd); return ok })
		for !strings.Contains(output, "bgdone") {
			r.recv()
		}
		r.drainUntilQuiet()
		if own == 0 {
			t.Error("the agent's own turn did not end")
		}
		wantEnd(t, r.turn("SAY afterwards"), protocol.StopEndTurn)
	})
}

// TestSteer sends messages into a running turn.
func TestSteer(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		r := newRig(t, cli).open()
		steerer := r.s.(harness.Steerer)
		if ok, err := steerer.Steer(t.Context(), protocol.Text("nothing runs")); ok || err != nil {
			t.Errorf("idle: %t, %v", ok, err)
		}

		// While a tool runs the message joins the turn.
		r.send("TOOL bash echo x && sleep 1")
		r.until("a running tool", toolIs(protocol.ToolStatusInProgress))
		if ok, err := steerer.Steer(t.Context(), protocol.Text("also mention bananas")); !ok || err != nil {
			t.Errorf("in a tool: %t, %v", ok, err)
		}
		res := r.finish()
		wantEnd(t, res, protocol.StopEndTurn)
		calls := r.model.Calls()
		if body := string(calls[len(calls)-1].Body); !strings.Contains(body, "also mention bananas") {
			t.Error("the model was not told")
		}

		// While text streams it waits for a tool, and is declined when none comes.
		type answer struct {
			ok  bool
			err error
		}
		answers := make(chan answer, 1)
		r.send("SAY one\nGATE stop")
		r.until("text", isText)
		go func() {
			ok, err := steerer.Steer(t.Context(), protocol.Text("too late"))
			answers <- answer{ok, err}
		}()
		time.AfterFunc(200*time.Millisecond, func() { r.model.Release("stop") })
		wantEnd(t, r.finish(), protocol.StopEndTurn)
		if a := <-answers; a.ok || a.err != nil {
			t.Errorf("in text: %+v", a)
		}
		r.drainUntilQuiet()
		calls = r.model.Calls()
		if body := string(calls[len(calls)-1].Body); strings.Contains(body, "too late") {
			t.Error("a declined message was sent all the same")
		}

		r.send("GATE go\nTOOL bash echo y && sleep 1")
		r.until("text", isText)
		go func() {
			ok, err := steerer.Steer(t.Context(), protocol.Text("just in time"))
			answers <- answer{ok, err}
		}()
		time.AfterFunc(200*time.Millisecond, func() { r.model.Release("go") })
		wantEnd(t, r.finish(), protocol.StopEndTurn)
		if a := <-answers; !a.ok || a.err != nil {
			t.Errorf("text, then a tool: %+v", a)
		}
		calls = r.model.Calls()
		if body := string(calls[len(calls)-1].Body); !strings.Contains(body, "just in time") {
			t.Error("the model was not told")
		}

		// An interrupt drops what was not taken up.
		r.send("TOOL bash echo z && sleep 60")
		r.until("a running tool", toolIs(protocol.ToolStatusInProgress))
		if ok, err := steerer.Steer(t.Context(), protocol.Text("SAY dropped")); !ok || err != nil {
			t.Errorf("in a tool: %t, %v", ok, err)
		}
		r.interrupt()
		wantEnd(t, r.finish(), protocol.StopCancelled)
		r.drainUntilQuiet()
		res = r.turn("SAY last")
		if res.text != "last" {
			t.Errorf("text %q", res.text)
		}
	})
}
