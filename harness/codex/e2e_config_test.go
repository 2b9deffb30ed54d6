package codex_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentserver/harness"
	"agentserver/protocol"
)

func TestRealMCP(t *testing.T) {
	r := newRig(t)
	r.spec.Config.MCPServers = map[string]protocol.MCPServer{
		"local":  {Type: protocol.MCPStdio, Command: os.Args[0], Env: map[string]string{mcpVariable: "from stdio"}},
		"remote": {Type: protocol.MCPHTTP, URL: httpMCP(t, "from http", "secret-header"), Headers: map[string]string{"X-Test": "secret-header"}},
		"old":    {Type: protocol.MCPSSE, URL: "http://127.0.0.1:1/sse"},
	}
	r.open()
	var asked []harness.Permission
	answer := harness.Decision{Allow: true}
	r.onPermission = func(p harness.Permission) harness.Decision {
		asked = append(asked, p)
		return answer
	}
	res := r.turn("TOOL mcp__local::say {}")
	if done := res.completed(t, 0); done.Output != "from stdio" || len(asked) != 0 {
		t.Errorf("output %q, asked %d times", done.Output, len(asked))
	}
	if part := res.tools[0]; part.ToolName != "mcp__local__say" || part.Title != "local: say" {
		t.Errorf("part %+v", part)
	}
	failures := 0
	for _, e := range res.events {
		if f, ok := e.(harness.Failure); ok && strings.Contains(f.Message, "config.mcpServers.old") {
			failures++
		}
	}
	if failures != 1 {
		t.Errorf("%d errors name the server that codex cannot reach", failures)
	}
	if done := r.turn("TOOL mcp__remote::say {}").completed(t, 0); done.Output != "from http" {
		t.Errorf("output %q", done.Output)
	}
	res = r.turn(`TOOL mcp__local::write {"text":"w"}`)
	res.completed(t, 0)
	if len(asked) != 1 || asked[0].Tool.ToolName != "mcp__local__write" || asked[0].Tool.ToolCallID != res.tools[0].ToolCallID || string(asked[0].Tool.RawInput) != `{"text":"w"}` {
		t.Fatalf("asked %+v", asked)
	}
	answer = harness.Decision{Message: "Never."}
	if res = r.turn(`TOOL mcp__local::write {"text":"x"}`); res.tools[0].State.Status() != protocol.ToolStatusFailed {
		t.Errorf("refused: %#v", res.tools[0].State)
	}
	answer = harness.Decision{Allow: true, Always: true}
	r.turn(`TOOL mcp__local::write {"text":"y"}`).completed(t, 0)
	r.turn(`TOOL mcp__local::write {"text":"z"}`).completed(t, 0)
	if len(asked) != 3 {
		t.Errorf("asked %d times, want 3: the last was allowed for the session", len(asked))
	}
}

// The key of the config is used, and found neither by the agent's commands, nor in a file, an event or the raw lines.
func TestRealAPIKey(t *testing.T) {
	r := newRig(t)
	const key = "sk-of-the-config-3141592653"
	r.spec.Config.APIKey = key
	r.spec.Config.IncludeRaw = true
	r.spec.Config.Env = map[string]string{"PLAIN": "plain-value", "MY_TOKEN": "token-value"}
	r.spec.Env = append(r.spec.Env, "PLAIN=plain-value", "MY_TOKEN=token-value")
	r.open()
	res := r.turn("SHELL env; cat /proc/$PPID/environ /proc/$PPID/cmdline")
	wantEnd(t, res, protocol.StopEndTurn)
	if got := r.model.Calls()[0].Header.Get("Authorization"); got != "Bearer "+key {
		t.Errorf("authorization %q", strings.ReplaceAll(got, key, "KEY"))
	}
	state := string(input(res.tools[0].State))
	if !strings.Contains(state, "plain-value") {
		t.Errorf("the command lacks config.env: %s", state)
	}
	for _, secret := range []string{key, "sk-of-the-server", "token-value"} {
		if strings.Contains(state, secret) {
			t.Errorf("the command sees the secret %s…", secret[:6])
		}
	}
	raws := 0
	for _, e := range res.events {
		if raw, ok := e.(harness.Raw); ok {
			raws++
			if strings.Contains(string(raw.Data), key) {
				t.Errorf("raw holds the key")
			}
		}
	}
	if raws == 0 {
		t.Error("no raw line")
	}
	r.close()
	_ = filepath.WalkDir(r.home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if data, _ := os.ReadFile(path); strings.Contains(string(data), key) {
				t.Errorf("%s holds the key", path)
			}
		}
		return nil
	})
}

// The built-in provider takes a key too, with no login in CODEX_HOME, and none is made.
func TestRealAPIKeyOfBuiltInProvider(t *testing.T) {
	r := newRig(t)
	const key = "sk-of-the-config-3141592653"
	r.spec.Config.APIKey = key
	r.opts.Args = []string{"--disable", "plugins", "-c", `openai_base_url="` + r.model.URL() + `/v1"`, "-c", `model="gpt-5.5"`}
	r.open()
	wantText(t, r.turn("SAY with a key"), "with a key")
	if got := r.model.Calls()[0].Header.Get("Authorization"); got != "Bearer "+key {
		t.Error("config.apiKey is not used")
	}
	native := ""
	r.on = func(e harness.Event) {
		if s, ok := e.(harness.SessionStarted); ok {
			native = s.NativeSessionID
		}
	}
	r.turn("SAY more")
	r.close()
	r.spec.Resume = native
	r.open()
	wantText(t, r.turn("SAY resumed"), "resumed")
	if _, err := os.Stat(filepath.Join(r.home, "auth.json")); err == nil {
		t.Error("the key was stored")
	}
}

func TestRealImage(t *testing.T) {
	r := newRig(t).open()
	r.sendInput(protocol.Input{
		{Type: protocol.PartText, Text: "IMG"},
		{Type: protocol.PartImage, MimeType: "image/png", Data: pixel},
	})
	wantText(t, r.finish(), "saw 1 image(s)")
}

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func TestRealPlanTool(t *testing.T) {
	r := newRig(t)
	r.opts.Args = append(r.opts.Args, "-c", "tools.update_plan.enabled=true")
	r.open()
	res := r.turn("PLAN")
	done := res.completed(t, 0)
	if part := res.tools[0]; part.ToolName != "update_plan" || part.Kind != protocol.ToolKindThink || !strings.Contains(string(done.Input), `"status":"inProgress"`) {
		t.Errorf("%+v %s", part, done.Input)
	}
}

func TestRealWebSearch(t *testing.T) {
	res := newRig(t).open().turn("WEBSEARCH gophers")
	res.completed(t, 0)
	if part := res.tools[0]; part.ToolName != "webSearch" || part.Kind != protocol.ToolKindSearch || part.Title != "Search the web for gophers" {
		t.Errorf("%+v", part)
	}
}

// A question to the person, which codex asks in plan mode only.
func TestRealUserInput(t *testing.T) {
	r := newRig(t)
	r.spec.Config.PermissionMode = protocol.ModePlan
	r.open()
	r.onPermission = func(p harness.Permission) harness.Decision {
		if !p.NoRules || p.Title != "Which colour?" || !strings.Contains(string(p.Tool.RawInput), `"label":"Red"`) {
			t.Errorf("%+v %s", p, p.Tool.RawInput)
		}
		return harness.Decision{Allow: true, UpdatedInput: []byte(`{"answers":{"q1":"Blue"}}`)}
	}
	res := r.turn(`TOOL request_user_input {"questions":[{"id":"q1","header":"Colour","question":"Which colour?","options":[{"label":"Red","description":"r"},{"label":"Blue","description":"b"}]}]}`)
	wantText(t, res, "Blue")
}

func TestRealCompaction(t *testing.T) {
	r := newRig(t).open()
	wantEnd(t, r.turn("SAY something to be compacted"), protocol.StopEndTurn)
	res := r.turn("/compact")
	wantEnd(t, res, protocol.StopEndTurn)
	var seen []harness.Compaction
	for _, e := range res.events {
		if c, ok := e.(harness.Compaction); ok {
			seen = append(seen, c)
		}
	}
	if len(seen) != 2 || seen[0].Status != protocol.CompactionInProgress || seen[1].Status != protocol.CompactionCompleted || seen[1].Trigger != protocol.TriggerManual {
		t.Errorf("%+v", seen)
	}
	wantText(t, r.turn("SAY fine"), "fine")
}

func TestRealSubagent(t *testing.T) {
	r := newRig(t)
	r.spec.Config.Model = "gpt-5.6-sol"
	r.open()
	res := r.turn("TOOL collaboration::spawn_agent {\"task_name\":\"helper\",\"message\":\"SAY from the sub agent\"}")
	wantEnd(t, res, protocol.StopEndTurn)
	if len(res.tools) == 0 || res.tools[0].Subagent == nil || res.tools[0].Kind != protocol.ToolKindTask {
		t.Fatalf("tools %s, text %q", input(res.tools), res.text)
	}
	call := res.tools[0].ToolCallID
	nested := func(e harness.Event) bool {
		u, ok := e.(harness.PartUpdate)
		return ok && u.ParentToolCallID == call
	}
	found := false
	for _, e := range res.events {
		found = found || nested(e)
	}
	if !found {
		r.until("a part of the sub-agent", nested)
	}
}
