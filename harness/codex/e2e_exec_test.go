package codex_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentserver/harness"
	"agentserver/harness/codex"
	"agentserver/internal/fakemodel"
	"agentserver/protocol"
)

func newExecRig(t *testing.T) *rig {
	t.Parallel()
	return newSerialExecRig(t)
}

func newSerialExecRig(t *testing.T) *rig {
	r := newRigOf(t, codex.NewExec, codex.ExecID)
	r.opts.KeyVariable = fakemodel.CodexKeyVar
	return r
}

func TestRealExecText(t *testing.T) {
	r := newExecRig(t)
	const key = "sk-of-the-config-3141592653"
	r.spec.Config.APIKey, r.spec.Config.SystemPromptAppend, r.spec.Config.ThinkingLevel = key, "Speak like a \"sailor\".\nAlways.", protocol.ThinkingHigh
	r.open()
	res := r.turn("Some lines\nbefore it.\nUSAGE 100 0 20 30 7\nSAY hello there")
	wantEnd(t, res, protocol.StopEndTurn)
	wantText(t, res, "hello there")
	deltas := ""
	for _, e := range res.events {
		if d, ok := e.(harness.Delta); ok {
			deltas += d.Text
		}
	}
	if deltas != "hello there" {
		t.Errorf("deltas %q", deltas)
	}
	if got := res.end.Tokens; got == nil || got.Input != 100 || got.Cache.Read != 20 || got.Output != 30 || got.Reasoning != 7 {
		t.Errorf("tokens %s", input(got))
	}
	call := r.model.Calls()[0]
	if call.Header.Get("Authorization") != "Bearer "+key {
		t.Error("config.apiKey is not used")
	}
	var request struct{ Reasoning struct{ Effort string } }
	mustDecode(t, call.Body, &request)
	if body := string(call.Body); request.Reasoning.Effort != "high" || !strings.Contains(body, `Speak like a \"sailor\".\nAlways.`) {
		t.Errorf("effort %q, instructions given: %t", request.Reasoning.Effort, strings.Contains(body, "sailor"))
	}
	res = r.turn("USAGE 10 0 0 5\nSAY again") // codex tells the thread's total
	wantText(t, res, "again")
	if got := res.end.Tokens; got == nil || got.Input != 10 || got.Output != 5 {
		t.Errorf("tokens of the second turn %s", input(got))
	}
	calls := r.model.Calls()
	if !strings.Contains(string(calls[len(calls)-1].Body), "hello there") {
		t.Error("the second turn does not know the first")
	}
	if text := string(input(r.turn("SHELL env; sleep 0.3").tools[0].State)); strings.Contains(text, key) || strings.Contains(text, "sk-of-the-server") {
		t.Error("a command sees a key")
	}
}

func TestRealExecTools(t *testing.T) {
	r := newExecRig(t)
	gitRepository(t, r.spec.Config.Cwd)
	r.spec.Config.PermissionMode = protocol.ModeAcceptEdits
	r.spec.Config.IncludeRaw = true
	r.open()
	res := r.turn("SHELL echo text; sleep 0.3; exit 3")
	wantEnd(t, res, protocol.StopEndTurn)
	failed, ok := res.tools[0].State.(*protocol.ToolFailed)
	if !ok || failed.Error != "text\n" || string(failed.Meta.Get("agent-server/exitCode")) != "3" || res.tools[0].ToolName != "commandExecution" {
		t.Errorf("%+v %#v", res.tools[0], res.tools[0].State)
	}
	res = r.turn("PATCH hello.txt one")
	res.completed(t, 0)
	if part := res.tools[0]; part.ToolName != "fileChange" || part.Kind != protocol.ToolKindEdit || part.Title != "Edit hello.txt" {
		t.Errorf("%+v", part)
	}
	if got, _ := os.ReadFile(filepath.Join(r.spec.Config.Cwd, "hello.txt")); string(got) != "one\n" {
		t.Errorf("file %q", got)
	}
	if data, err := os.ReadFile(filepath.Join(r.home, "config.toml")); err == nil {
		t.Errorf("config.toml was written: %s", data)
	}
	r.spec.Config.PermissionMode = protocol.ModeDefault
	if err := r.s.Apply(t.Context(), r.spec); err != nil {
		t.Fatal(err)
	}
	r.turn("PATCH more.txt one")
	if _, err := os.Stat(filepath.Join(r.spec.Config.Cwd, "more.txt")); err == nil {
		t.Error("the default mode has nobody to ask, and wrote a file")
	}
}

// Servers are reached, and their secrets are neither in argv nor in the environment of commands.
func TestRealExecMCP(t *testing.T) {
	r := newExecRig(t)
	const word, header = "from 'stdio' \"$HOME\"", "secret-header"
	r.spec.Config.MCPServers = map[string]protocol.MCPServer{
		"local":  {Type: protocol.MCPStdio, Command: os.Args[0], Args: []string{"an 'argument'"}, Env: map[string]string{mcpVariable: word}},
		"remote": {Type: protocol.MCPHTTP, URL: httpMCP(t, "from http", header), Headers: map[string]string{"X-Test": header}},
		"old":    {Type: protocol.MCPSSE, URL: "http://127.0.0.1:1/sse"},
		"a name": {Type: protocol.MCPHTTP, URL: "http://127.0.0.1:1/"},
	}
	r.open()
	res := r.turn("TOOL mcp__local::say {}")
	if done := res.completed(t, 0); done.Output != word || res.tools[0].ToolName != "mcp__local__say" {
		t.Errorf("%+v, output %q", res.tools[0], done.Output)
	}
	failures := 0
	for _, e := range res.events {
		if _, ok := e.(harness.Failure); ok {
			failures++
		}
	}
	if failures != 2 {
		t.Errorf("%d errors about the servers that are left out", failures)
	}
	if done := r.turn("TOOL mcp__remote::say {}").completed(t, 0); done.Output != "from http" {
		t.Errorf("output %q", done.Output)
	}
	r.send("SHELL env; sleep 1")
	r.until("the command", toolIs(protocol.ToolStatusInProgress))
	for _, pid := range processes(t, "exec", r.home) {
		command, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if strings.Contains(string(command), header) || strings.Contains(string(command), "from 'stdio'") {
			t.Errorf("argv holds a secret")
		}
	}
	if env := string(input(r.finish().tools[0].State)); strings.Contains(env, header) || !strings.Contains(env, "PATH=") {
		t.Errorf("a command's environment: %s", env)
	}
}

func TestRealExecImage(t *testing.T) {
	r := newExecRig(t)
	r.spec.Env = append(r.spec.Env, "TMPDIR="+t.TempDir())
	r.open()
	r.sendInput(protocol.Input{{Type: protocol.PartText, Text: "IMG"}, {Type: protocol.PartImage, MimeType: "image/png", Data: pixel}})
	wantText(t, r.finish(), "saw 1 image(s)")
}

func TestRealExecInterrupt(t *testing.T) {
	r := newExecRig(t)
	r.spec.Config.PermissionMode = protocol.ModeBypassPermissions
	r.open()
	wantText(t, r.turn("SAY first"), "first")
	r.send("SHELL echo begin; sleep 7963")
	r.until("the command", toolIs(protocol.ToolStatusInProgress))
	r.interrupt()
	res := r.finish()
	wantEnd(t, res, protocol.StopCancelled)
	if res.tools[0].State.Status() != protocol.ToolStatusCancelled {
		t.Errorf("%#v", res.tools[0].State)
	}
	if pids := processes(t, "", r.home); len(pids) > 0 {
		t.Errorf("processes %v remain", pids)
	}
	r.interrupt()
	r.send("HANG")
	r.interrupt() // at once
	wantEnd(t, r.finish(), protocol.StopCancelled)
	wantText(t, r.turn("SAY fine"), "fine")
	calls := r.model.Calls()
	if !strings.Contains(string(calls[len(calls)-1].Body), "SAY first") {
		t.Error("the thread was lost")
	}
	r.send("SHELL setsid sleep 7964")
	r.until("the command", toolIs(protocol.ToolStatusInProgress))
	r.s.(harness.Killer).Kill()
	if exit := r.finish().exit; exit == nil || exit.Error == nil || !strings.Contains(exit.Error.Message, "killed") {
		t.Errorf("exit %+v", exit)
	}
	r.close()
	r.open()
	r.send("SHELL setsid sleep 7965")
	r.until("the command", toolIs(protocol.ToolStatusInProgress))
	r.close()
	if pids := processes(t, "", r.home); len(pids) > 0 {
		t.Errorf("processes %v remain", pids)
	}
	for e := r.recv(); e != nil; e = r.recv() {
	}
}

func TestRealExecResume(t *testing.T) {
	r := newExecRig(t)
	var started harness.SessionStarted
	r.on = func(e harness.Event) {
		if s, ok := e.(harness.SessionStarted); ok {
			started = s
		}
	}
	r.open()
	r.turn("SAY first")
	native := started.NativeSessionID
	r.close()
	for _, c := range []struct {
		id      string
		resumed bool
	}{{native, true}, {"01a22ebd-383e-7ca0-9314-e8b763244d6c", false}, {"not-a-uuid", false}} {
		r.spec.Resume = c.id
		r.open()
		res := r.turn("USAGE 5 0 0 5\nSAY anew")
		wantText(t, res, "anew")
		if started.Resumed == nil || *started.Resumed != c.resumed || (started.NativeSessionID == c.id) != c.resumed {
			t.Errorf("%s: %+v", c.id, started)
		}
		if got := res.end.Tokens; c.resumed && got != nil { // another harness value knows nothing of the thread's total
			t.Errorf("tokens %s: those of earlier turns are not this one's", input(got))
		}
		r.close()
	}
}

func TestRealExecErrors(t *testing.T) {
	r := newExecRig(t).open()
	wantError(t, r.turn("ERR 401"), protocol.CategoryAuth, "config.apiKey")
	wantError(t, r.turn("ERR 429"), protocol.CategoryRateLimit, "429")
	wantError(t, r.turn("ERR context"), protocol.CategoryContextLimit, "")
	wantError(t, r.turn("DROP"), protocol.CategoryNetwork, "")
	wantText(t, r.turn("SAY fine"), "fine")
}

func TestRealExecStartFailure(t *testing.T) {
	r := newExecRig(t)
	r.opts.Args = append(r.opts.Args, "--no-such-flag")
	r.open()
	wantError(t, r.turn("SAY x"), protocol.CategoryInvalidRequest, "no-such-flag")
}
