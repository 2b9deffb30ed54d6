package acp_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"agentserver/harness"
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

func TestNothingSaid(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{}).open()
	res := r.turn("STDERR 401 unauthorized: bad key", "USAGE 0")
	wantEnd(t, res, protocol.StopError)
	if e := res.end.Error; e == nil || e.Category != protocol.CategoryAuth || !strings.Contains(e.Message, "without a word") || !strings.Contains(e.Message, "bad key") {
		t.Errorf("error %+v", res.end.Error)
	}
	res = r.turn("ERR 429 slow down")
	wantEnd(t, res, protocol.StopError)
	if e := res.end.Error; e == nil || e.Category != protocol.CategoryRateLimit || !strings.Contains(e.Message, "slow down") {
		t.Errorf("error %+v", res.end.Error)
	}
	res = r.turn("SAY x", "STOP max_tokens")
	wantEnd(t, res, protocol.StopMaxTokens)
	res = r.turn("SAY x", "STOP something_new")
	wantEnd(t, res, protocol.StopEndTurn)
	if res.end.FinishReason != "something_new" {
		t.Errorf("finish reason %q", res.end.FinishReason)
	}
}

// What an agent sends after the response to the prompt still belongs to the turn; what comes much later is a turn of the agent's own.
func TestLate(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{}).open()
	res := r.turn("TOOL a", "SAY head", "LATE SAY  tail", "LATE DONE a")
	if _, ok := res.state(t, 0).(*protocol.ToolCompleted); !ok || res.text != "head tail" {
		t.Errorf("text %q, tool %#v", res.text, res.state(t, 0))
	}
	res = r.turn("TOOL never", "SAY x")
	if failed, ok := res.state(t, 0).(*protocol.ToolFailed); !ok || !strings.Contains(failed.Error, "without saying") {
		t.Errorf("tool %#v", res.state(t, 0))
	}
	late := make([]string, 8) // 30 ms each
	for i := range late {
		late[i] = "LATE NOTHING"
	}
	r.turn(append(late, "SAY now", "LATE SAY much later")...)
	e := r.until("the late text", isText).(harness.Delta)
	if e.Text != "much later" {
		t.Errorf("late text %q", e.Text)
	}
	end := r.until("its end", func(e harness.Event) bool { _, ok := e.(harness.TurnEnd); return ok }).(harness.TurnEnd)
	if end.StopReason != protocol.StopEndTurn || end.Error != nil {
		t.Errorf("the agent's own turn ended with %+v", end)
	}
	wantText(t, r.turn("SAY next"), "next")
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{}).open()
	for _, c := range []struct {
		name   string
		d      harness.Decision
		option string
	}{
		{"allow", harness.Decision{Allow: true}, `"2"`},
		{"always", harness.Decision{Allow: true, Always: true}, `"2"`},
		{"deny", harness.Decision{}, `"cancel"`},
		{"out of time", harness.Decision{Cancelled: true}, `"cancel"`},
		{"edited", harness.Decision{Allow: true, UpdatedInput: json.RawMessage(`{"command":"true"}`)}, `"cancel"`},
	} {
		r.onPermission = func(harness.Permission) harness.Decision { return c.d }
		res := r.turn("ASK ls -l", "SAY ok")
		wantEnd(t, res, protocol.StopEndTurn)
		wantText(t, res, c.option)
		if len(res.asked) != 1 {
			t.Fatalf("%s: %d requests", c.name, len(res.asked))
		}
		if tool := res.asked[0].Tool; tool.ToolName != "execute" || tool.Kind != protocol.ToolKindExecute || string(tool.RawInput) != `{"command":"ls -l"}` {
			t.Errorf("%s: %+v", c.name, tool)
		}
		_, failed := res.state(t, 0).(*protocol.ToolFailed)
		if allowed := c.option == `"2"`; failed == allowed {
			t.Errorf("%s: %#v", c.name, res.state(t, 0))
		}
		if edited := c.d.UpdatedInput != nil; edited != (len(res.failures) == 1) {
			t.Errorf("%s: failures %+v", c.name, res.failures)
		}
	}
	res := r.turn("WITHDRAW")
	wantText(t, res, `"cancelled"`)
}

// Where nobody asks or the mode decides, the client answers by itself.
func TestPermissionRules(t *testing.T) {
	t.Parallel()
	no := false
	for _, c := range []struct {
		name   string
		config protocol.RunConfig
		edit   string
		other  string
	}{
		{"nobody there", protocol.RunConfig{PermissionRequests: &no}, `"cancel"`, `"cancel"`},
		{"dont_ask", protocol.RunConfig{PermissionMode: protocol.ModeDontAsk}, `"cancel"`, `"cancel"`},
		{"bypass", protocol.RunConfig{PermissionMode: protocol.ModeBypassPermissions}, `"2"`, `"2"`},
		{"accept_edits", protocol.RunConfig{PermissionMode: protocol.ModeAcceptEdits}, `"2"`, "asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := scripted(t, agentConfig{Bare: true})
			c.config.Harness, c.config.Cwd = r.spec.Config.Harness, r.spec.Config.Cwd
			r.spec.Config = c.config
			r.open()
			r.onPermission = func(harness.Permission) harness.Decision { return harness.Decision{Allow: true} }
			edit, other := r.turn("ASK edit /f", "SAY x"), r.turn("ASK ls", "SAY x")
			wantText(t, edit, c.edit)
			if len(edit.asked) != 0 {
				t.Errorf("asked for the edit: %+v", edit.asked)
			}
			if c.other == "asked" {
				if len(other.asked) != 1 {
					t.Errorf("did not ask")
				}
				return
			}
			wantText(t, other, c.other)
			if len(other.asked) != 0 {
				t.Errorf("asked: %+v", other.asked)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"cancelled", "end_turn", "error"} {
		r := scripted(t, agentConfig{CancelEnd: end}).open()
		r.interrupt() // nothing runs
		r.send("SAY x\nTOOL a\nHANG")
		r.until("the call", isTool)
		r.interrupt()
		res := r.finish()
		wantEnd(t, res, protocol.StopCancelled)
		if _, ok := res.state(t, 0).(*protocol.ToolCancelled); !ok {
			t.Errorf("%s: tool %#v", end, res.state(t, 0))
		}
		r.onPermission = func(harness.Permission) harness.Decision { return harness.Decision{Message: "no answer"} }
		r.send("ASK ls")
		r.until("the request", func(e harness.Event) bool { _, ok := e.(harness.Permission); return ok })
		r.interrupt()
		res = r.finish()
		wantEnd(t, res, protocol.StopCancelled)
		if res.end.Error != nil {
			t.Errorf("%s: error %+v", end, res.end.Error)
		}
		wantText(t, r.turn("SAY still here"), "still here")
	}
}

// An agent that ignores a cancel is killed.
func TestCancelIgnored(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{Stubborn: true})
	r.opts.CancelWait = 200 * time.Millisecond
	r.open()
	r.send("SAY x\nHANG")
	r.until("the text", isText)
	r.interrupt()
	res := r.finish()
	if res.exit == nil || res.exit.Error == nil || !strings.Contains(res.exit.Error.Message, "killed") {
		t.Errorf("exit %+v", res.exit)
	}
	if e := r.recv(); e != nil {
		t.Errorf("after the exit: %#v", e)
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		cfg     agentConfig
		resumed bool
	}{
		{"resume", agentConfig{}, true},
		{"load", agentConfig{NoResume: true}, true},
		{"load with a late history", agentConfig{NoResume: true, LateReplay: true}, true},
		{"load after resume failed", agentConfig{FailResume: true}, true},
		{"neither", agentConfig{NoResume: true, NoLoad: true}, false},
		{"both fail", agentConfig{FailResume: true, FailLoad: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := scripted(t, c.cfg).open()
			first := r.turn("SAY one")
			r.close()
			r.spec.Resume = first.started.NativeSessionID
			r.open()
			res := r.turn("STATE")
			if res.started.Resumed == nil || *res.started.Resumed != c.resumed || (res.started.NativeSessionID == r.spec.Resume) != c.resumed {
				t.Errorf("started %+v", res.started)
			}
			want := "turns=1"
			if c.resumed {
				want = "turns=2"
			}
			if !strings.Contains(res.text, want) || strings.Contains(res.text, "old") || len(res.tools) != 0 {
				t.Errorf("text %q, %d tools", res.text, len(res.tools))
			}
		})
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{}).open()
	r.send("SAY x\nCRASH out of luck")
	res := r.finish()
	if res.exit == nil || res.exit.Error == nil || res.exit.Error.Category != protocol.CategoryProcessExit ||
		!strings.Contains(res.exit.Error.Message, "status 9") || !strings.Contains(res.exit.Error.Message, "out of luck") {
		t.Fatalf("exit %+v", res.exit)
	}
	if err := r.s.Apply(t.Context(), r.spec); !errors.Is(err, harness.ErrRestart) {
		t.Errorf("Apply after the crash: %v", err)
	}
	if err := r.s.Send(t.Context(), harness.Turn{Input: protocol.Text("x")}); err == nil {
		t.Error("Send after the crash succeeded")
	}
	r.spec.Resume = res.started.NativeSessionID
	r.open()
	wantText(t, r.turn("STATE"), "turns=2")
}

func TestSteer(t *testing.T) {
	t.Parallel()
	for _, able := range []bool{true, false} {
		r := scripted(t, agentConfig{Steer: able}).open()
		steer := func(text string) bool {
			t.Helper()
			ok, err := r.s.(harness.Steerer).Steer(t.Context(), protocol.Text(text))
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		if steer("early") {
			t.Error("steered without a turn")
		}
		r.send("SAY x\nHANG")
		r.until("text", isText)
		if steer("left") != able {
			t.Errorf("able %v: the steering was not taken as it should be", able)
		}
		if able {
			e := r.until("its effect", isText).(harness.Delta)
			if e.Text != "steered: left" {
				t.Errorf("text %q", e.Text)
			}
		}
		r.interrupt()
		wantEnd(t, r.finish(), protocol.StopCancelled)
	}
}
