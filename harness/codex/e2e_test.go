package codex_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentserver/harness"
	"agentserver/protocol"
)

func TestRealText(t *testing.T) {
	r := newRig(t)
	r.spec.Config.SystemPromptAppend = "Speak like a sailor."
	r.spec.Config.ThinkingLevel = protocol.ThinkingHigh
	r.open()
	res := r.turn("USAGE 100 0 20 30 7\nSAY hello there")
	wantEnd(t, res, protocol.StopEndTurn)
	wantText(t, res, "hello there")
	want := protocol.Tokens{Input: 100, Output: 30, Reasoning: 7, Cache: &protocol.CacheTokens{Read: 20}}
	if got := res.end.Tokens; got == nil || got.Input != want.Input || got.Output != want.Output || got.Reasoning != want.Reasoning || got.Cache.Read != 20 {
		t.Errorf("tokens %s, want %s", input(got), input(want))
	}
	deltas, gauge, started := "", harness.Usage{}, harness.SessionStarted{}
	for _, e := range res.events {
		switch e := e.(type) {
		case harness.Delta:
			deltas += e.Text
		case harness.Usage:
			gauge = e
		case harness.SessionStarted:
			started = e
		}
	}
	if deltas != "hello there" {
		t.Errorf("deltas %q", deltas)
	}
	if gauge.Used != 150 || gauge.Size < 100_000 {
		t.Errorf("gauge %+v", gauge)
	}
	if started.NativeSessionID == "" || started.Model != "gpt-5.5" || started.Resumed != nil {
		t.Errorf("started %+v", started)
	}
	var request struct {
		Reasoning struct{ Effort string }
	}
	body := r.model.Calls()[0].Body
	mustDecode(t, body, &request)
	if request.Reasoning.Effort != "high" || !strings.Contains(string(body), "like a sailor") {
		t.Errorf("effort %q, instructions given: %t", request.Reasoning.Effort, strings.Contains(string(body), "like a sailor"))
	}

	res = r.turn("USAGE 10 0 0 5\nSAY again") // the account is a turn's own
	if got := res.end.Tokens; got == nil || got.Input != 10 || got.Output != 5 {
		t.Errorf("tokens of the second turn %s", input(got))
	}
}

func TestRealReasoning(t *testing.T) {
	r := newRig(t)
	r.opts.Args = append(r.opts.Args, "-c", `model_reasoning_summary="detailed"`)
	r.open()
	res := r.turn("THINK so be it")
	wantEnd(t, res, protocol.StopEndTurn)
	wantText(t, res, "so be it")
	if want := "**Considering** the request before answering.\n\n**Deciding** what to say."; res.thought != want {
		t.Errorf("thought %q", res.thought)
	}
	deltas := ""
	for _, e := range res.events {
		if d, ok := e.(harness.Delta); ok && d.Type == protocol.DeltaReasoning {
			deltas += d.Text
		}
	}
	if deltas != res.thought {
		t.Errorf("deltas %q", deltas)
	}
}

func TestRealCommandWithEachAnswer(t *testing.T) {
	r := newRig(t).open()
	file := filepath.Join(r.spec.Config.Cwd, "made")
	run := func(d harness.Decision) (result, harness.Permission) {
		t.Helper()
		_ = os.Remove(file)
		var asked harness.Permission
		r.onPermission = func(p harness.Permission) harness.Decision {
			asked = p
			return d
		}
		res := r.turn("SHELLESC echo text; touch " + file)
		wantEnd(t, res, protocol.StopEndTurn)
		return res, asked
	}
	made := func() bool { _, err := os.Stat(file); return err == nil }

	res, asked := run(harness.Decision{Allow: true})
	done := res.completed(t, 0)
	if !made() || done.Output != "text\n" || !strings.Contains(string(done.Metadata), `"exitCode":0`) {
		t.Errorf("allowed: made %t, output %q, metadata %s", made(), done.Output, done.Metadata)
	}
	part := res.tools[0]
	if part.ToolName != "commandExecution" || part.Kind != protocol.ToolKindExecute || part.Title != "echo text; touch "+file {
		t.Errorf("part %+v", part)
	}
	if asked.Tool.ToolCallID != part.ToolCallID || !strings.Contains(string(asked.Tool.RawInput), "touch") || asked.Tool.ToolName != part.ToolName {
		t.Errorf("permission %+v", asked.Tool)
	}

	res, _ = run(harness.Decision{Message: "Not on a Sunday."})
	if failed, ok := res.tools[0].State.(*protocol.ToolFailed); !ok || made() {
		t.Errorf("refused: made %t, %#v", made(), failed)
	}
	wantText(t, res, "Not on a Sunday.") // the model hears the reason

	res, _ = run(harness.Decision{Allow: true, UpdatedInput: json.RawMessage(`{"command":"touch other"}`)})
	if made() || res.tools[0].State.Status() != protocol.ToolStatusFailed {
		t.Errorf("edited: made %t, %#v", made(), res.tools[0].State)
	}
	wantText(t, res, "an edited input, which codex cannot run")

	if res, _ = run(harness.Decision{Cancelled: true}); made() || res.tools[0].State.Status() != protocol.ToolStatusFailed {
		t.Errorf("unanswered: made %t, %#v", made(), res.tools[0].State)
	}

	if run(harness.Decision{Allow: true, Always: true}); !made() {
		t.Error("allowed for the session, and not made")
	}
	if _, asked = run(harness.Decision{}); asked.Key != "" || !made() {
		t.Error("asked again for what was allowed for the session")
	}
}

func TestRealCommandFails(t *testing.T) {
	r := newRig(t).open()
	res := r.turn("SHELL echo oops; sleep 0.3; exit 3")
	failed, ok := res.tools[0].State.(*protocol.ToolFailed)
	if !ok || failed.Error != "oops\n" || string(failed.Meta.Get("agent-server/exitCode")) != "3" {
		t.Errorf("%#v", res.tools[0].State)
	}
}

func TestRealPatch(t *testing.T) {
	r := newRig(t)
	r.open()
	file := filepath.Join(r.spec.Config.Cwd, "hello.txt")
	var asked []harness.Permission
	r.onPermission = func(p harness.Permission) harness.Decision {
		asked = append(asked, p)
		return harness.Decision{Allow: len(asked) < 3}
	}
	done := r.turn(`PATCH hello.txt one\ntwo`).completed(t, 0)
	if got, _ := os.ReadFile(file); string(got) != "one\ntwo\n" {
		t.Errorf("file %q", got)
	}
	if len(done.Content) != 1 || done.Content[0].Path != file || done.Content[0].OldText != nil || *done.Content[0].NewText != "one\ntwo\n" {
		t.Errorf("content %s", input(done.Content))
	}
	res := r.turn("PATCHUPD hello.txt two three")
	done = res.completed(t, 0)
	if len(done.Content) != 1 || *done.Content[0].OldText != "one\ntwo\n" || *done.Content[0].NewText != "one\nthree\n" {
		t.Errorf("content %s", input(done.Content))
	}
	part := res.tools[0]
	if part.Kind != protocol.ToolKindEdit || part.Title != "Edit hello.txt" || len(part.Locations) != 1 || part.Locations[0] != (protocol.Location{Path: file, Line: 1}) {
		t.Errorf("part %+v", part)
	}
	if asked[1].Tool.ToolCallID != part.ToolCallID || !strings.Contains(string(asked[1].Tool.RawInput), "+three") {
		t.Errorf("permission %+v", asked[1].Tool)
	}
	if res = r.turn("PATCHUPD hello.txt three four"); res.tools[0].State.Status() != protocol.ToolStatusFailed {
		t.Errorf("refused: %#v", res.tools[0].State)
	}
	if got, _ := os.ReadFile(file); string(got) != "one\nthree\n" {
		t.Errorf("file %q", got)
	}
}

// gitRepository makes dir one, without git. Codex marks repositories as trusted in the user's settings when their threads may write from the start.
func gitRepository(t *testing.T, dir string) {
	t.Helper()
	for _, sub := range []string{"objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, ".git", sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A patch in accept_edits is not asked about, and the project's folder does not become trusted in the user's settings.
func TestRealModes(t *testing.T) {
	r := newRig(t)
	gitRepository(t, r.spec.Config.Cwd)
	r.spec.Config.PermissionMode = protocol.ModeAcceptEdits
	r.open()
	asked := 0
	r.onPermission = func(harness.Permission) harness.Decision { asked++; return harness.Decision{Allow: true} }
	if r.turn("PATCH a.txt one").completed(t, 0); asked != 0 {
		t.Errorf("accept_edits asked %d times", asked)
	}
	apply := func(mode protocol.PermissionMode) {
		t.Helper()
		r.spec.Config.PermissionMode = mode
		if err := r.s.Apply(t.Context(), r.spec); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "made")
	apply(protocol.ModeBypassPermissions)
	if r.turn("SHELL touch "+outside).completed(t, 0); asked != 0 {
		t.Errorf("bypass_permissions asked %d times", asked)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	apply(protocol.ModePlan)
	res := r.turn("PATCH b.txt two")
	if _, err := os.Stat(filepath.Join(r.spec.Config.Cwd, "b.txt")); err == nil || asked != 0 {
		t.Errorf("plan: written %t, asked %d times; text %q", err == nil, asked, res.text)
	}
	apply(protocol.ModeDontAsk)
	if r.turn("PATCH c.txt one").completed(t, 0); asked != 0 {
		t.Errorf("dont_ask asked %d times", asked)
	}
	apply(protocol.ModeDefault)
	if r.turn("PATCH d.txt one").completed(t, 0); asked != 1 {
		t.Errorf("default asked %d times", asked)
	}
	no := false
	r.spec.Config.PermissionRequests = &no
	apply(protocol.ModeDefault)
	if r.turn("PATCH e.txt one"); asked != 1 {
		t.Error("it asked though nobody is there")
	}
	if _, err := os.Stat(filepath.Join(r.spec.Config.Cwd, "e.txt")); err == nil {
		t.Error("written though nobody is there to allow it")
	}
	if data, err := os.ReadFile(filepath.Join(r.home, "config.toml")); err == nil {
		t.Errorf("config.toml was written: %s", data)
	}
}

func TestRealModelSwitch(t *testing.T) {
	r := newRig(t).open()
	wantText(t, r.turn("ECHOMODEL"), "model=gpt-5.5")
	r.spec.Config.Model = "gpt-5.6-sol"
	if err := r.s.Apply(t.Context(), r.spec); err != nil {
		t.Fatal(err)
	}
	wantText(t, r.turn("ECHOMODEL"), "model=gpt-5.6-sol")
	r.spec.Config.Model = ""
	if err := r.s.Apply(context.Background(), r.spec); err != harness.ErrRestart {
		t.Errorf("back to no model: %v", err)
	}
}
