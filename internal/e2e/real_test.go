package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"agentserver/client"
	"agentserver/protocol"
)

// TestRealTurns walks one warm process through text, thought, a model switch and a tool.
func TestRealTurns(t *testing.T) {
	t.Parallel()
	s := newWorld(t, realClaude(t)).serve()
	c, got := s.client()
	v := converse(t, c)

	first := v.run("SAY hello from afar", s.config(), nil).want(protocol.StopEndTurn).wantText("hello from afar")
	if first.native == "" || first.model == "" || first.resumed != nil {
		t.Errorf("session.created says %q, %q, resumed %v", first.native, first.model, first.resumed)
	}
	pids := s.claudes()
	if len(pids) != 1 {
		t.Fatalf("the processes of claude are %v", pids)
	}
	if out := v.run("THINK deep", s.config(), nil).want(protocol.StopEndTurn).wantText("deep"); !strings.Contains(out.thought, "Considering") {
		t.Errorf("thought %q", out.thought)
	}
	tokens := first.end.Tokens
	out := v.run("SAY three more words", s.config(), nil).want(protocol.StopEndTurn)
	if tokens == nil || tokens.Output == 0 || out.end.Tokens.Output != tokens.Output || out.end.Cost == nil || out.end.Cost.Amount <= 0 {
		t.Errorf("tokens %+v, then %+v for the same answer; cost %+v", tokens, out.end.Tokens, out.end.Cost)
	}
	haiku := s.config(func(c *protocol.RunConfig) { c.Model = "claude-haiku-4-5" })
	v.run("ECHOMODEL", haiku, nil).want(protocol.StopEndTurn).wantText("claude-haiku-4-5")
	v.run("TOOL bash echo $((6*7))", haiku, nil).want(protocol.StopEndTurn).wantText("42")
	if now := s.claudes(); !slices.Equal(now, pids) {
		t.Errorf("processes %v, then %v: it was not kept warm", pids, now)
	}
	same(t, v.id, 5, got, s.witness)
}

// TestRealPermissions answers in every way.
func TestRealPermissions(t *testing.T) {
	t.Parallel()
	s := newWorld(t, realClaude(t)).serve()
	c, got := s.client()
	v := converse(t, c)
	answer := func(o protocol.PermissionOutcome) {
		v.answer = func(*protocol.PermissionRequested) *protocol.PermissionOutcome { return &o }
	}

	out := v.run("TOOL bash touch one", s.config(), nil).want(protocol.StopEndTurn)
	tool := out.wantTool(protocol.ToolStatusCompleted)
	if len(out.asked) != 1 || len(out.asked[0].Options) != 4 || out.asked[0].ToolCall.ToolCallID != tool.ToolCallID || !s.made("one") {
		t.Errorf("asked %+v, file made: %t", out.asked, s.made("one"))
	}

	answer(protocol.Selected(protocol.OptionIDReject))
	v.run("TOOL bash touch two", s.config(), nil).want(protocol.StopEndTurn).wantTool(protocol.ToolStatusFailed)
	if s.made("two") {
		t.Error("a call that was rejected ran")
	}

	edited := protocol.Selected(protocol.OptionIDAllow)
	edited.UpdatedInput = json.RawMessage(`{"command":"touch edited"}`)
	answer(edited)
	v.run("TOOL bash touch three", s.config(), nil).want(protocol.StopEndTurn).wantTool(protocol.ToolStatusCompleted)
	if s.made("three") || !s.made("edited") {
		t.Errorf("the original ran: %t, the edited call ran: %t", s.made("three"), s.made("edited"))
	}

	answer(protocol.Selected(protocol.OptionIDAllowAlways))
	v.run("TOOL bash touch four", s.config(), nil).want(protocol.StopEndTurn)
	v.answer = nil
	if out := v.run("TOOL bash touch five", s.config(), nil).want(protocol.StopEndTurn); len(out.asked) != 0 || !s.made("four") || !s.made("five") {
		t.Errorf("asked %d times after \"always\"; made: %t, %t", len(out.asked), s.made("four"), s.made("five"))
	}
	same(t, v.id, 5, got, s.witness)
}

// TestRealCancel cancels at every step, in one process, which goes on.
func TestRealCancel(t *testing.T) {
	t.Parallel()
	s := newWorld(t, realClaude(t)).serve()
	c, got := s.client()
	v := converse(t, c)
	v.run("SAY warm", s.config(), nil).want(protocol.StopEndTurn)
	cancel := func(turn *client.Turn) {
		t.Helper()
		if res, err := turn.Cancel(t.Context()); err != nil || res.Outcome != protocol.CancelConfirmed {
			t.Errorf("turn/cancel: %+v, %v", res, err)
		}
	}
	turns := 1
	check := func(where string, out *outcome) {
		t.Helper()
		out.want(protocol.StopCancelled)
		if out.end.Error != nil || len(out.errors) > 0 {
			t.Errorf("%s: error %+v, %+v", where, out.end.Error, out.errors)
		}
		v.answer = nil
		v.run("SAY there after "+where, s.config(), nil).want(protocol.StopEndTurn).wantText("there after " + where)
		turns += 2
	}

	check("text", v.run("SAY one\nGATE never", s.config(), once(isText, cancel)))
	answered := func(e protocol.Event) bool { _, ok := e.(*protocol.PermissionResolved); return ok }
	check("tool", v.run("TOOL bash touch runs; sleep 60", s.config(), once(answered, func(turn *client.Turn) {
		eventually(t, "the tool runs", patience, func() bool { return s.made("runs") })
		cancel(turn)
	})))
	v.answer = func(*protocol.PermissionRequested) *protocol.PermissionOutcome { return nil }
	out := v.run("TOOL bash touch never", s.config(), once(isAsk, cancel))
	if s.made("never") || len(out.asked) != 1 {
		t.Errorf("asked %d times, ran: %t", len(out.asked), s.made("never"))
	}
	check("permission", out)
	turn := v.start("HANG", s.config())
	cancel(turn)
	check("ack", v.follow(turn, nil))
	same(t, v.id, turns, got, s.witness)
}
