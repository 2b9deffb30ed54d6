package claude_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentserver/harness"
	"agentserver/harness/claude"
	"agentserver/protocol"
)

// TestConfig checks that each setting reaches the model, or the CLI's behaviour.
func TestConfig(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		lastBody := func(r *rig) string {
			calls := r.model.Calls()
			return string(calls[len(calls)-1].Body)
		}

		r := newRig(t, cli)
		extra := t.TempDir()
		turns := 2
		c := &r.spec.Config
		c.Model, c.ThinkingLevel, c.SystemPromptAppend, c.MaxTurns = "claude-opus-4-8", protocol.ThinkingLow, "speak like a pirate", &turns
		c.AdditionalDirectories = []string{extra, extra + "/nowhere"}
		c.APIKey = "sk-key-of-the-config"
		c.PermissionMode = protocol.ModeAcceptEdits
		c.Env = map[string]string{"SECRET_OF_TEST": "hunter3-hunter3"}
		r.spec.Env = append(r.spec.Env, "SECRET_OF_TEST=hunter3-hunter3")
		c.IncludeRaw = true
		r.open()
		r.on = func(e harness.Event) {
			if raw, ok := e.(harness.Raw); ok && (strings.Contains(string(raw.Data), "sk-key-of-the-config") || strings.Contains(string(raw.Data), "hunter3")) {
				t.Errorf("raw shows a secret: %s", raw.Data)
			}
		}
		res := r.turn("ECHOMODEL")
		wantText(t, res, "claude-opus-4-8")
		if f, ok := res.events[0].(harness.Failure); !ok || !strings.Contains(f.Message, "nowhere") {
			t.Errorf("the missing directory was not reported: %#v", res.events[0])
		}
		body := lastBody(r)
		if !strings.Contains(body, "speak like a pirate") || !strings.Contains(body, `"effort":"low"`) || !strings.Contains(body, extra) {
			t.Errorf("the request lacks the system prompt, the effort or the directory")
		}
		calls := r.model.Calls()
		if key := calls[len(calls)-1].Header.Get("X-Api-Key"); key != "sk-key-of-the-config" {
			t.Errorf("api key %q", key)
		}
		res = r.turn(`TOOL Write {"file_path":"` + filepath.Join(extra, "note.txt") + `","content":"alpha\nbeta\n"}`)
		if d := res.completed(t, 0).Content; len(d) != 1 || d[0].Type != protocol.ContentDiff || d[0].OldText != nil || *d[0].NewText != "alpha\nbeta\n" {
			t.Errorf("content %+v", d)
		}
		// The tools see the session's environment, and not what was set for us by an outer claude.
		res = r.turn("TOOL bash echo \"$SECRET_OF_TEST/$CLAUDE_CODE_ENTRYPOINT\"")
		if out := res.completed(t, 0).Output; out != "hunter3-hunter3/agent-server" {
			t.Errorf("environment of a tool: %q", out)
		}
		wantEnd(t, r.turn("LOOP bash echo again"), protocol.StopMaxTurnRequests)
		wantEnd(t, r.turn("SAY goes on"), protocol.StopEndTurn)

		// What cannot be changed while it runs.
		for name, change := range map[string]func(*protocol.RunConfig){
			"cwd": func(c *protocol.RunConfig) { c.Cwd = extra }, "permissionMode": func(c *protocol.RunConfig) { c.PermissionMode = protocol.ModePlan },
			"env": func(c *protocol.RunConfig) { c.Env = nil }, "resumeSessionId": func(c *protocol.RunConfig) { c.ResumeSessionID = "x" },
			"apiKey": func(c *protocol.RunConfig) { c.APIKey = "" }, "maxTurns": func(c *protocol.RunConfig) { c.MaxTurns = nil },
			"thinkingLevel": func(c *protocol.RunConfig) { c.ThinkingLevel = "" }, "disableTools": func(c *protocol.RunConfig) { c.DisableTools = true },
			"systemPromptAppend": func(c *protocol.RunConfig) { c.SystemPromptAppend = "" },
			"directories":        func(c *protocol.RunConfig) { c.AdditionalDirectories = nil },
		} {
			spec := r.spec
			change(&spec.Config)
			if err := r.s.Apply(t.Context(), spec); !errors.Is(err, harness.ErrRestart) {
				t.Errorf("%s: Apply is %v, want a restart", name, err)
			}
		}
	})
}

// TestNoTools offers the model no tool at all.
func TestNoTools(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		r := newRig(t, cli)
		// A server of the project's must not bring tools either.
		ambient := `{"mcpServers":{"ambient":{"command":"/bin/false"}}}`
		if err := os.WriteFile(filepath.Join(r.spec.Config.Cwd, ".mcp.json"), []byte(ambient), 0o644); err != nil {
			t.Fatal(err)
		}
		r.spec.Config.DisableTools = true
		r.spec.Config.ThinkingLevel = protocol.ThinkingOff
		r.open()
		res := r.turn("TOOLS")
		wantEnd(t, res, protocol.StopEndTurn)
		if calls := r.model.Calls(); strings.Contains(string(calls[len(calls)-1].Body), `"input_schema"`) {
			t.Errorf("the request offers tools: %s", res.text)
		}
		calls := r.model.Calls()
		if body := string(calls[len(calls)-1].Body); strings.Contains(body, `"type":"adaptive"`) {
			t.Error("the request asks for thinking")
		}
	})
}

// TestModes checks the permission modes where nobody is there to answer, and that planning never approves by itself.
func TestModes(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		open := func(mode protocol.PermissionMode, answers bool) *rig {
			r := newRig(t, cli)
			r.spec.Config.PermissionMode = mode
			r.spec.Config.PermissionRequests = &answers
			r.onPermission = func(p harness.Permission) harness.Decision {
				if !answers {
					t.Errorf("%s: asked for %s", mode, p.Title)
				}
				return harness.Decision{Allow: true}
			}
			return r.open()
		}
		made := func(r *rig) bool {
			_, err := os.Stat(filepath.Join(r.spec.Config.Cwd, "made"))
			return err == nil
		}

		r := open(protocol.ModeDefault, false)
		res := r.turn("TOOL bash touch made")
		wantEnd(t, res, protocol.StopEndTurn)
		if failed, ok := res.tools[0].State.(*protocol.ToolFailed); !ok || made(r) || failed.Error == "" {
			t.Errorf("call %#v, ran: %t", res.tools[0].State, made(r))
		}

		r = open(protocol.ModeBypassPermissions, false) // IS_SANDBOX is 1
		r.turn("TOOL bash touch made")
		if !made(r) {
			t.Error("bypass did not run the command")
		}

		r = open(protocol.ModePlan, true)
		asked := 0
		r.onPermission = func(p harness.Permission) harness.Decision {
			asked++
			return harness.Decision{Allow: p.NoRules}
		}
		r.turn("TOOL bash touch made")
		if asked != 1 || made(r) {
			t.Errorf("planning asked %d times, ran: %t", asked, made(r))
		}
		res = r.turn(`TOOL ExitPlanMode {"plan":"# Plan"}`)
		if asked != 2 || len(res.tools) != 1 || res.tools[0].Kind != protocol.ToolKindSwitchMode {
			t.Errorf("asked %d times, calls %+v", asked, res.tools)
		}
		if err := r.s.Apply(t.Context(), r.spec); err != nil { // the next turn asks for planning again
			t.Fatal(err)
		}
		r.turn("TOOL bash touch made")
		if asked != 3 || made(r) {
			t.Errorf("after the plan: asked %d times, ran: %t", asked, made(r))
		}
	})
}

// TestMCP connects servers of all three types, and swaps them while the CLI runs.
func TestMCP(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		r := newRig(t, cli)
		r.spec.Config.MCPServers = map[string]protocol.MCPServer{
			"a":      {Type: protocol.MCPStdio, Command: self, Args: []string{"-test.run=^$"}, Env: map[string]string{mcpVariable: "stdio says hi"}},
			"b":      {Type: protocol.MCPHTTP, URL: httpMCP(t, "http says hi"), Headers: map[string]string{"X-Token": "token-of-test"}},
			"c":      {Type: protocol.MCPSSE, URL: sseMCP(t, "sse says hi")},
			"broken": {Type: protocol.MCPStdio, Command: "/nonexistent/server"},
		}
		r.open()
		warned := 0
		r.on = func(e harness.Event) {
			if n, ok := e.(harness.Notice); ok && strings.Contains(n.Message, "broken") {
				warned++
			}
		}
		for server, want := range map[string]string{"a": "stdio says hi", "b": "http says hi", "c": "sse says hi"} {
			res := r.turn("TOOL mcp__" + server + "__say {}")
			if out := res.completed(t, 0).Output; out != want || res.tools[0].Title != server+": say" {
				t.Errorf("%s: %q, title %q", server, out, res.tools[0].Title)
			}
		}
		if warned != 1 {
			t.Errorf("%d notices about the broken server, want 1", warned)
		}
		spec := r.spec
		spec.Config.MCPServers = map[string]protocol.MCPServer{"d": {Type: protocol.MCPHTTP, URL: httpMCP(t, "swapped")}}
		if err := r.s.Apply(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		if out := r.turn("TOOL mcp__d__say {}").completed(t, 0).Output; out != "swapped" {
			t.Errorf("after the swap: %q", out)
		}
		res := r.turn("TOOL mcp__a__say {}")
		if _, ok := res.tools[0].State.(*protocol.ToolFailed); !ok {
			t.Errorf("a server that was taken away still answers: %#v", res.tools[0].State)
		}
	})
}

// A PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// TestContent gives images and files in, and takes images, diffs and failures out.
func TestContent(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		r := newRig(t, cli).open()
		r.sendInput(protocol.Input{
			{Type: protocol.PartText, Text: "IMG"},
			{Type: protocol.PartImage, Data: pixel, MimeType: "image/png"},
			{Type: protocol.PartImage, URL: "https://example.com/x.png", MimeType: "image/png"},
			{Type: protocol.PartFile, Data: base64.StdEncoding.EncodeToString([]byte("text of the file")), MimeType: "text/markdown", Filename: "notes.md"},
			{Type: protocol.PartFile, Data: base64.StdEncoding.EncodeToString([]byte("%PDF-1.4")), MimeType: "application/pdf"},
		})
		res := r.finish()
		wantEnd(t, res, protocol.StopEndTurn)
		calls := r.model.Calls()
		body := string(calls[len(calls)-1].Body)
		for _, want := range []string{pixel, "https://example.com/x.png", "text of the file", "notes.md", "application/pdf"} {
			if !strings.Contains(body, want) {
				t.Errorf("the request lacks %.40s", want)
			}
		}
		err := r.s.Send(t.Context(), harness.Turn{Input: protocol.Input{{Type: protocol.PartFile, Data: "/////w==", MimeType: "application/zip"}}})
		wantOpenError(t, err, protocol.CategoryInvalidRequest, "input[0]")

		data, _ := base64.StdEncoding.DecodeString(pixel)
		picture := filepath.Join(r.spec.Config.Cwd, "pixel.png")
		if err := os.WriteFile(picture, data, 0o644); err != nil {
			t.Fatal(err)
		}
		done := r.turn(`TOOL Read {"file_path":"`+picture+`"}`).completed(t, 0)
		if len(done.Content) != 1 || done.Content[0].Type != protocol.ContentImage || done.Content[0].MimeType != "image/png" {
			t.Errorf("content %+v", done.Content)
		}

		note := filepath.Join(r.spec.Config.Cwd, "note.txt")
		if err := os.WriteFile(note, []byte("alpha\nbeta\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		r.turn(`TOOL Read {"file_path":"` + note + `"}`)
		res = r.turn(`TOOL Edit {"file_path":"` + note + `","old_string":"beta","new_string":"gamma"}`)
		done = res.completed(t, 0)
		if d := done.Content; len(d) != 1 || d[0].Type != protocol.ContentDiff || *d[0].OldText != "beta" || *d[0].NewText != "gamma" || d[0].Path != note {
			t.Errorf("content %+v", d)
		}
		if l := res.tools[0].Locations; len(l) != 1 || l[0].Line != 2 {
			t.Errorf("locations %+v", l)
		}

		res = r.turn(`MULTI touch one ;; touch two ;; cat nonexistent-file`)
		states := []protocol.ToolStatus{}
		for _, call := range res.tools {
			states = append(states, call.State.Status())
		}
		if !slices.Equal(states, []protocol.ToolStatus{protocol.ToolStatusCompleted, protocol.ToolStatusCompleted, protocol.ToolStatusFailed}) {
			t.Errorf("parallel calls ended as %v", states)
		}
		if failed, ok := res.tools[2].State.(*protocol.ToolFailed); ok && string(failed.Meta.Get(claude.MetaExitCode)) != "1" {
			t.Errorf("exit status %s", failed.Meta)
		}
		wantUsage(t, r, res)

		big := r.turn("BIGTEXT 3000000")
		if len(big.text) < 3000000 {
			t.Errorf("%d bytes of text, want 3000000", len(big.text))
		}
	})
}
