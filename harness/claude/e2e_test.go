package claude_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentserver/harness"
	"agentserver/protocol"
)

// TestTurns walks one warm process through what a turn can hold.
func TestTurns(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		r := newRig(t, cli).open()
		var deltas strings.Builder
		var native, model string
		r.on = func(e harness.Event) {
			switch e := e.(type) {
			case harness.Delta:
				if e.Type == protocol.DeltaText {
					deltas.WriteString(e.Text)
				}
			case harness.SessionStarted:
				native, model = e.NativeSessionID, e.Model
				if e.Resumed != nil {
					t.Errorf("resumed is %v, nobody asked", *e.Resumed)
				}
			case harness.Usage:
				if e.Used == 0 {
					t.Error("the gauge shows 0")
				}
			}
		}

		res := r.turn("SAY hello \\n\"world\" ü")
		wantEnd(t, res, protocol.StopEndTurn)
		if want := "hello \n\"world\" ü"; res.text != want || deltas.String() != want {
			t.Errorf("text %q, deltas %q, want %q", res.text, deltas.String(), want)
		}
		first := native
		if native == "" || model == "" {
			t.Errorf("session %q, model %q", native, model)
		}
		wantUsage(t, r, res)

		res = r.turn("THINK deep thought")
		wantText(t, res, "deep thought")
		if !strings.Contains(res.thought, "Considering") {
			t.Errorf("thought %q", res.thought)
		}

		res = r.turn("TOOL bash touch made && ls")
		done := res.completed(t, 0)
		if done.Output != "made" || string(done.Metadata) != `{"exitCode":0}` {
			t.Errorf("output %q, metadata %s", done.Output, done.Metadata)
		}
		call := res.tools[0]
		if call.Kind != protocol.ToolKindExecute || call.Title != "touch made && ls" || call.ToolName != "Bash" {
			t.Errorf("call %+v", call)
		}
		wantUsage(t, r, res)

		spec := r.spec
		spec.Config.Model = "claude-haiku-4-5"
		if err := r.s.Apply(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		res = r.turn("ECHOMODEL")
		wantText(t, res, "claude-haiku-4-5")
		wantText(t, r.turn("/context"), "Tokens") // a command of the CLI, answered without the model
		if native != first {
			t.Errorf("the session changed from %s to %s", first, native)
		}
		wantUsage(t, r, r.turn("SAY the last"))
	})
}

// wantUsage compares the turn's tokens with what the provider has reported since the last comparison.
func wantUsage(t *testing.T, r *rig, res result) {
	t.Helper()
	records := r.model.Usage()
	var want protocol.Tokens
	want.Cache = &protocol.CacheTokens{}
	// The calls of the newest turn: all that the scripted text of this turn caused.
	turn := records[len(records)-1].Turn
	for _, u := range records {
		if u.Turn == turn {
			want.Input += int64(u.Usage.Input)
			want.Output += int64(u.Usage.Output)
			want.Cache.Read += int64(u.Usage.CacheRead)
			want.Cache.Write += int64(u.Usage.CacheCreation)
		}
	}
	got := res.end.Tokens
	if got == nil || got.Cache == nil || got.Input != want.Input || got.Output != want.Output || *got.Cache != *want.Cache {
		t.Errorf("tokens %+v, want %+v %+v", got, want, want.Cache)
	}
	if res.end.Cost == nil || res.end.Cost.Amount <= 0 {
		t.Errorf("cost %+v", res.end.Cost)
	}
}

// TestPermissions answers in every way.
func TestPermissions(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		r := newRig(t, cli).open()
		made := func(name string) bool {
			_, err := os.Stat(filepath.Join(r.spec.Config.Cwd, name))
			return err == nil
		}

		var asked []harness.Permission
		r.onPermission = func(p harness.Permission) harness.Decision {
			asked = append(asked, p)
			return harness.Decision{Allow: true, Always: true}
		}
		res := r.turn("TOOL bash touch one")
		wantEnd(t, res, protocol.StopEndTurn)
		if len(asked) != 1 || !made("one") {
			t.Fatalf("asked %d times, file made %t", len(asked), made("one"))
		}
		if p := asked[0]; p.Tool.ToolName != "Bash" || p.Tool.ToolCallID != res.tools[0].ToolCallID || p.NoRules || !strings.Contains(string(p.Tool.RawInput), "touch one") {
			t.Errorf("permission %+v", p)
		}
		if made(".claude/settings.local.json") {
			t.Error("an answer was stored in the project's settings")
		}

		r.onPermission = func(harness.Permission) harness.Decision {
			return harness.Decision{Allow: true, UpdatedInput: input(map[string]string{"command": "touch edited"})}
		}
		r.turn("TOOL bash touch two")
		if made("two") || !made("edited") {
			t.Errorf("original ran: %t, edited ran: %t", made("two"), made("edited"))
		}

		r.onPermission = func(harness.Permission) harness.Decision { return harness.Decision{Message: "not on my watch"} }
		res = r.turn("TOOL bash touch three")
		wantEnd(t, res, protocol.StopEndTurn)
		if failed, ok := res.tools[0].State.(*protocol.ToolFailed); !ok || !strings.Contains(failed.Error, "not on my watch") || made("three") {
			t.Errorf("refused call is %#v, ran: %t", res.tools[0].State, made("three"))
		}

		r.onPermission = func(harness.Permission) harness.Decision {
			return harness.Decision{Allow: true, UpdatedInput: []byte(`"not an object"`)}
		}
		r.turn("TOOL bash touch four")
		if made("four") {
			t.Error("an answer that cannot be expressed ran the original")
		}

		r.onPermission = func(p harness.Permission) harness.Decision {
			if !p.NoRules {
				t.Error("a question may be answered by a standing rule")
			}
			var in map[string]any
			mustDecode(t, p.Tool.RawInput, &in)
			in["answers"] = map[string]string{"Which colour?": "Red"}
			return harness.Decision{Allow: true, UpdatedInput: input(in)}
		}
		res = r.turn(`TOOL AskUserQuestion {"questions":[{"question":"Which colour?","header":"Colour","multiSelect":false,` +
			`"options":[{"label":"Red","description":"warm"},{"label":"Blue","description":"cold"}]}]}`)
		if done := res.completed(t, 0); !strings.Contains(done.Output, "Red") {
			t.Errorf("answer %q", done.Output)
		}
	})
}

// TestCancel interrupts at every step. Every turn ends as cancelled, shows no diagnostics, and leaves a process that goes on.
func TestCancel(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		r := newRig(t, cli).open()
		check := func(where string, res result) {
			t.Helper()
			wantEnd(t, res, protocol.StopCancelled)
			if res.end.Error != nil {
				t.Errorf("%s: error %v", where, res.end.Error)
			}
			next := r.turn("SAY still there after " + where)
			wantEnd(t, next, protocol.StopEndTurn)
			wantText(t, next, "still there after "+where)
		}

		r.interrupt() // nothing runs
		r.send("HANG not started yet")
		r.interrupt()
		check("send", r.finish())

		r.send("SAY one\nGATE text")
		r.until("text", isText)
		r.interrupt()
		check("text", r.finish())

		r.send("HANG")
		r.until("a message", func(e harness.Event) bool { _, ok := e.(harness.MessageStarted); return ok })
		r.interrupt()
		check("no text", r.finish())

		r.send("TOOL bash echo x && sleep 60")
		r.until("a running tool", toolIs(protocol.ToolStatusInProgress))
		r.interrupt()
		res := r.finish()
		check("a tool", res)

		r.onPermission = func(harness.Permission) harness.Decision { return harness.Decision{Message: "no answer"} }
		r.send("TOOL bash touch never")
		r.until("a permission", func(e harness.Event) bool { _, ok := e.(harness.Permission); return ok })
		r.interrupt()
		withdrawn := false
		r.on = func(e harness.Event) {
			if _, ok := e.(harness.PermissionWithdrawn); ok {
				withdrawn = true
			}
		}
		res = r.finish()
		if !withdrawn {
			t.Error("the permission was not withdrawn")
		}
		check("a permission", res)
	})
}
