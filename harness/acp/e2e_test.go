package acp_test

import (
	"testing"

	"agentserver/protocol"
)

func TestTurn(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{Banner: true, Early: true}).open()
	res := r.turn("THINK let me see", "SAY I will ", "SAY run it.", "TOOL ls", "DONE ls", "PLAN first", "USAGE 0.5", "COMMANDS 563000", "JUNK", "STRANGE", "SAY Done.")
	wantEnd(t, res, protocol.StopEndTurn)
	if res.text != "I will run it.Done." || res.thought != "let me see" || res.messages != 1 {
		t.Errorf("text %q, thought %q, %d messages", res.text, res.thought, res.messages)
	}
	done, ok := res.state(t, 0).(*protocol.ToolCompleted)
	if !ok || done.Output != "out of ls" || string(done.Input) != `{"command":"ls"}` || string(done.Metadata) != `{"exitCode":0}` || len(done.Content) != 1 || done.Title != "run ls" {
		t.Errorf("tool %#v", res.state(t, 0))
	}
	if plan, ok := res.state(t, 1).(*protocol.ToolCompleted); !ok || string(plan.Input) != `{"entries":[{"content":"first","priority":"high","status":"in_progress"}]}` {
		t.Errorf("plan %#v", res.state(t, 1))
	}
	if res.started == nil || res.started.Model != "small" || res.started.Resumed != nil {
		t.Errorf("started %+v", res.started)
	}
	if res.usage == nil || res.usage.Used != 20 || res.usage.Size != 1000 || res.usage.Cost.Amount != 0.5 {
		t.Errorf("usage %+v", res.usage)
	}
	if c := res.end.Cost; c == nil || c.Amount != 0.5 {
		t.Errorf("cost %+v", c)
	}
	if k := res.end.Tokens; k == nil || k.Input != 20 || k.Output != 15 || k.Cache == nil || k.Cache.Read != 10 {
		t.Errorf("tokens %+v", k)
	}
	if title, commands := res.end.Meta.GetString("acp/title"), string(res.end.Meta.Get("acp/availableCommands")); title != "early title" ||
		commands != `[{"name":"init","description":"Start"}]` {
		t.Errorf("meta %s", res.end.Meta)
	}
	res = r.turn("STATE", "USAGE 0.75")
	wantText(t, res, "mode=default model=small thought=low turns=2")
	if c := res.end.Cost; c == nil || c.Amount != 0.25 {
		t.Errorf("cost of the second turn %+v", c)
	}
}
