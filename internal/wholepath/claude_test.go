package wholepath

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentserver/client"
	"agentserver/protocol"
)

const claude protocol.HarnessID = "claude-code"

// TestRealTurns walks one session of the real CLI through text, permissions, cancels and a change of model, in one warm process.
func TestRealTurns(t *testing.T) {
	e := withClaude(t)
	c := e.serve(t).dialSelf()
	turn := func(prompt string, on func(*client.Turn, protocol.Event)) turn {
		return turn{session: "s", prompt: prompt, config: e.config(claude), on: on}
	}

	events, ended := turn("THINK hello from the model", nil).run(t, c)
	if ended.StopReason != protocol.StopEndTurn || text(events) != "hello from the model" || count[*protocol.MessagePartDelta](events) == 0 {
		t.Errorf("text: %s, %q", ended.StopReason, text(events))
	}
	if ended.Tokens == nil || ended.Tokens.Input != 100 || ended.Cost == nil {
		t.Errorf("text: tokens %+v, cost %+v", ended.Tokens, ended.Cost)
	}

	events, _ = turn("TOOL bash touch allowed && echo made", answer(t, protocol.Selected(protocol.OptionIDAllow))).run(t, c)
	if s, ok := lastTool(events).(*protocol.ToolCompleted); !ok || s.Output != "made" || !e.exists("allowed") {
		t.Errorf("allow: %#v", lastTool(events))
	}

	events, _ = turn("TOOL bash touch rejected", answer(t, protocol.Selected(protocol.OptionIDReject))).run(t, c)
	if _, ok := lastTool(events).(*protocol.ToolFailed); !ok || e.exists("rejected") {
		t.Errorf("reject: %#v", lastTool(events))
	}

	edited := protocol.Selected(protocol.OptionIDAllow)
	edited.UpdatedInput = json.RawMessage(`{"command":"touch edited"}`)
	turn("TOOL bash touch original", answer(t, edited)).run(t, c)
	if e.exists("original") || !e.exists("edited") {
		t.Error("edited: the original input ran")
	}

	turn("TOOL bash touch first", answer(t, protocol.Selected(protocol.OptionIDAllowAlways))).run(t, c)
	events, _ = turn("TOOL bash touch second", nil).run(t, c)
	if count[*protocol.PermissionRequested](events) != 0 || !e.exists("second") {
		t.Error("always: the standing rule did not answer")
	}

	other := turn("ECHOMODEL", nil)
	other.config.Model = "claude-sonnet-4-5"
	if events, _ = other.run(t, c); !strings.Contains(text(events), "claude-sonnet-4-5") {
		t.Errorf("model: %q", text(events))
	}
	if n := len(e.clis()); n != 1 {
		t.Errorf("%d CLIs run after the turns, want the one that they all used", n)
	}
}

// TestRealCancel cancels a turn at each of its steps; the session goes on after each.
func TestRealCancel(t *testing.T) {
	e := withClaude(t)
	c := e.serve(t).dialSelf()
	cancel := func(h *client.Turn) {
		if _, err := h.Cancel(testContext(t)); err != nil {
			t.Error(err)
		}
	}
	for _, step := range []struct {
		name, prompt string
		on           func(*client.Turn, protocol.Event)
	}{
		{"right after the ack", "SAY too late", func(h *client.Turn, ev protocol.Event) {
			if ev.EventType() == protocol.EventTurnStarted {
				cancel(h)
			}
		}},
		{"while streaming", "GATE stream", func(h *client.Turn, ev protocol.Event) {
			if ev.EventType() == protocol.EventMessagePartDelta {
				cancel(h)
			}
		}},
		{"in a permission", "TOOL bash touch never", func(h *client.Turn, ev protocol.Event) {
			if ev.EventType() == protocol.EventPermissionRequest {
				cancel(h)
			}
		}},
		{"in a tool", "TOOL bash echo started > started && sleep 300", func(h *client.Turn, ev protocol.Event) {
			answer(t, protocol.Selected(protocol.OptionIDAllow))(h, ev)
			if ev.EventType() == protocol.EventPermissionResolved {
				eventually(t, 20*time.Second, "the command runs", func() bool { return e.exists("started") })
				cancel(h)
			}
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			_, ended := turn{session: "s", prompt: step.prompt, config: e.config(claude), on: step.on}.run(t, c)
			if ended.StopReason != protocol.StopCancelled || ended.Error != nil {
				t.Errorf("ended with %s, %+v", ended.StopReason, ended.Error)
			}
			events, ended := turn{session: "s", prompt: "SAY still here", config: e.config(claude)}.run(t, c)
			if ended.StopReason != protocol.StopEndTurn || text(events) != "still here" {
				t.Errorf("the next turn: %s, %q", ended.StopReason, text(events))
			}
		})
	}
	if e.exists("never") {
		t.Error("a cancelled permission let the command run")
	}
}

// TestRealErrors: an error of the provider is an error of the turn, never a success.
func TestRealErrors(t *testing.T) {
	e := withClaude(t)
	c := e.serve(t).dialSelf()
	for prompt, want := range map[string]protocol.ErrorCategory{
		"ERR 401 no": protocol.CategoryAuth, "ERR 400 credit balance is too low": protocol.CategoryUsageLimit, "ERR context": protocol.CategoryContextLimit,
	} {
		_, ended := turn{session: "s", prompt: prompt, config: e.config(claude)}.run(t, c)
		if ended.StopReason != protocol.StopError || ended.Error == nil || ended.Error.Category != want {
			t.Errorf("%s: %s, %+v; want %s", prompt, ended.StopReason, ended.Error, want)
		}
	}
}

// TestRealKilledCLI kills the CLI in the middle of a turn.
func TestRealKilledCLI(t *testing.T) {
	e := withClaude(t)
	s := e.serve(t)
	c := s.dialSelf()
	var killed time.Time
	_, ended := turn{session: "s", prompt: "GATE stream", config: e.config(claude), on: func(_ *client.Turn, ev protocol.Event) {
		if ev.EventType() == protocol.EventMessagePartDelta && killed.IsZero() {
			killed = time.Now()
			for _, pid := range e.clis() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}}.run(t, c)
	if ended.StopReason != protocol.StopError || ended.Error == nil || ended.Error.Category != protocol.CategoryProcessExit || !strings.Contains(ended.Error.Message, "SIGKILL") {
		t.Errorf("ended with %s, %+v", ended.StopReason, ended.Error)
	}
	if took := time.Since(killed); killed.IsZero() || took > 10*time.Second {
		t.Errorf("the end came %v after the kill", took)
	}
	events, ended := turn{session: "s", prompt: "SAY again", config: e.config(claude)}.run(t, c)
	if ended.StopReason != protocol.StopEndTurn || text(events) != "again" {
		t.Errorf("the next turn: %s, %q\n%s", ended.StopReason, text(events), strings.Join(c.session("s"), "\n"))
	}
}

// TestRealResumeInANewServer continues the agent's own session from another server, and fails honestly where there is none.
func TestRealResumeInANewServer(t *testing.T) {
	e := withClaude(t)
	first := e.serve(t)
	c := first.dialSelf()
	events, _ := turn{prompt: "SAY remember me", config: e.config(claude)}.run(t, c)
	native := ""
	for _, ev := range events {
		if created, ok := ev.(*protocol.SessionCreated); ok {
			native = created.NativeSessionID
		}
	}
	first.kill(syscall.SIGTERM)
	first.wait(20 * time.Second)

	c = e.serve(t).dialSelf()
	config := e.config(claude)
	config.ResumeSessionID = native
	events, ended := turn{prompt: "SAY resumed", config: config}.run(t, c)
	resumed := slices.ContainsFunc(events, func(ev protocol.Event) bool {
		created, ok := ev.(*protocol.SessionCreated)
		return ok && created.NativeSessionID == native && created.Resumed != nil && *created.Resumed
	})
	if ended.StopReason != protocol.StopEndTurn || !resumed {
		t.Errorf("resume: %s, resumed %v", ended.StopReason, resumed)
	}
	calls := e.model.Calls()
	if last := calls[len(calls)-1]; !strings.Contains(string(mustJSON(t, last.Body)), "remember me") {
		t.Error("resume: the model was not told what came before")
	}
	config.ResumeSessionID = "00000000-0000-4000-8000-000000000000"
	if _, ended = (turn{prompt: "SAY x", config: config}).run(t, c); ended.StopReason != protocol.StopError {
		t.Errorf("an unknown session: %s", ended.StopReason)
	}
}

// TestRealStopMidTurn stops the server while a command runs that has left its process group, by SIGTERM and by SIGKILL.
func TestRealStopMidTurn(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			e := withClaude(t)
			s := e.serve(t)
			c := s.dial(s.url, &client.Options{NoReconnect: true})
			c.loose = sig == syscall.SIGKILL
			ctx := testContext(t)
			h, err := c.StartTurn(ctx, protocol.TurnStartParams{Input: protocol.Text("TOOL bash setsid sleep 600 & echo started > started; sleep 600"), Config: e.config(claude)})
			if err != nil {
				t.Fatal(err)
			}
			for ev, err := range h.Events(ctx) {
				if err != nil {
					break // the server is gone
				}
				answer(t, protocol.Selected(protocol.OptionIDAllow))(h, ev)
				if ev.EventType() == protocol.EventPermissionResolved {
					eventually(t, 20*time.Second, "the command runs", func() bool { return e.exists("started") })
					s.kill(sig)
				}
			}
			code := s.wait(20 * time.Second)
			if sig == syscall.SIGTERM {
				if ended, err := h.Result(ctx); err != nil || ended.StopReason != protocol.StopCancelled {
					t.Errorf("the turn's end: %+v, %v", ended, err)
				}
				if code != 0 {
					t.Errorf("exit code %d", code)
				}
			}
			eventually(t, 10*time.Second, "no process is left", func() bool { return len(e.agents()) == 0 })
		})
	}
}

func (s *server) dialSelf() *peer { return s.dial(s.url, nil) }

func (e *environment) exists(name string) bool {
	_, err := os.Stat(filepath.Join(e.work, name))
	return err == nil
}

// cli is the path of the claude CLI.
func (e *environment) cli() string {
	for _, v := range e.vars {
		if path, ok := strings.CutPrefix(v, "CLAUDE_CLI_PATH="); ok {
			return path
		}
	}
	return ""
}

// clis returns the processes that are the claude CLI itself.
func (e *environment) clis() []int {
	return slices.DeleteFunc(e.agents(), func(pid int) bool { return cmdline(pid)[0] != e.cli() })
}

func cmdline(pid int) []string {
	raw, _ := os.ReadFile(filepath.Join("/proc", itoa(pid), "cmdline"))
	return strings.Split(string(raw), "\x00")
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
