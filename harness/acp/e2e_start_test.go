package acp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/harness/acp"
	"agentserver/protocol"
)

func TestStartFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		cfg      agentConfig
		set      func(*rig)
		category protocol.ErrorCategory
		parts    []string
	}{
		{"hangs", agentConfig{HangAt: "initialize"}, func(r *rig) { r.opts.InitializeTimeout = 300 * time.Millisecond }, protocol.CategoryProcessExit,
			[]string{"initialize", "in time", "I hang at initialize"}},
		{"hangs with a banner", agentConfig{HangAt: "session/new", Banner: true}, func(r *rig) { r.opts.SessionTimeout = 300 * time.Millisecond }, protocol.CategoryProcessExit,
			[]string{"session/new"}},
		{"exits", agentConfig{ExitAt: "initialize"}, nil, protocol.CategoryProcessExit, []string{"status 3", "cannot go on"}},
		{"exits later", agentConfig{ExitAt: "session/new"}, nil, protocol.CategoryProcessExit, []string{"status 3", "cannot go on"}},
		{"version", agentConfig{Version: 2}, nil, protocol.CategoryInvalidRequest, []string{"version 2", "version 1 is needed"}},
		{"auth", agentConfig{Auth: true}, nil, protocol.CategoryAuth, []string{"needs a login", "key (API key)"}},
		{"auth in a terminal", agentConfig{Auth: true, AuthTypes: "terminal"}, func(r *rig) { r.opts.AuthMethod = "key" }, protocol.CategoryAuth, []string{"terminal"}},
		{"auth unknown", agentConfig{Auth: true}, func(r *rig) { r.opts.AuthMethod = "nope" }, protocol.CategoryAuth, []string{"nope failed", "key (API key)"}},
		{"no agent", agentConfig{}, func(r *rig) { r.opts.Command = []string{"/bin/echo", "usage: foo"} }, protocol.CategoryProcessExit, []string{"status 0", "usage: foo"}},
		{"not installed", agentConfig{}, func(r *rig) { r.opts.Command = []string{"no-such-agent"} }, protocol.CategoryInvalidRequest, []string{"no-such-agent", "--acp-agent"}},
		{"no command", agentConfig{}, func(r *rig) { r.opts.Command = nil }, protocol.CategoryInvalidRequest, []string{acp.CommandVariable}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := scripted(t, c.cfg)
			if c.set != nil {
				c.set(r)
			}
			wantError(t, r.tryOpen(), c.category, c.parts...)
		})
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{Auth: true})
	r.opts.AuthMethod = "key"
	wantText(t, r.open().turn("SAY in"), "in")
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		r := scripted(t, agentConfig{Legacy: legacy})
		r.spec.Config.Model = "The large"
		r.spec.Config.PermissionMode = protocol.ModePlan
		if !legacy {
			r.spec.Config.ThinkingLevel = protocol.ThinkingHigh
		}
		r.open()
		want := "mode=plan model=large thought=high"
		if legacy {
			want = "mode=plan model=large thought=low"
		}
		res := r.turn("STATE")
		wantText(t, res, want)
		if len(res.failures) != 0 || res.started.Model != "large" {
			t.Errorf("failures %+v, model %q", res.failures, res.started.Model)
		}
		// Back to what the session began with; its mode judges for itself, so the one that asks is taken.
		r.spec.Config.Model, r.spec.Config.ThinkingLevel, r.spec.Config.PermissionMode = "", "", ""
		r.apply()
		wantText(t, r.turn("STATE"), "mode=default model=small thought=low")
		r.spec.Config.Model, r.spec.Config.ThinkingLevel = "enormous", protocol.ThinkingXHigh
		r.apply()
		res = r.turn("STATE")
		wantText(t, res, "model=small thought=low")
		if len(res.failures) != 2 || !strings.Contains(res.failures[0].Message, "config.model") || !strings.Contains(res.failures[0].Message, "small, large") ||
			!strings.Contains(res.failures[1].Message, "config.thinkingLevel") {
			t.Errorf("failures %+v", res.failures)
		}
	}
}

func (r *rig) apply() {
	r.t.Helper()
	if err := r.s.Apply(r.t.Context(), r.spec); err != nil {
		r.t.Fatalf("Apply: %v", err)
	}
}

func TestNoSettings(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{Bare: true})
	r.spec.Config.Model, r.spec.Config.ThinkingLevel, r.spec.Config.PermissionMode = "m", protocol.ThinkingLow, protocol.ModePlan
	res := r.open().turn("SAY x")
	if len(res.failures) != 3 {
		t.Errorf("failures %+v", res.failures)
	}
	r = scripted(t, agentConfig{RefuseMode: true})
	r.spec.Config.PermissionMode = protocol.ModeAcceptEdits
	res = r.open().turn("ASK edit /f", "SAY x")
	wantText(t, res, `"2"`)
	if len(res.asked) != 0 {
		t.Errorf("asked %+v", res.asked)
	}
}

func TestContent(t *testing.T) {
	t.Parallel()
	in := protocol.Input{
		{Type: protocol.PartText, Text: "BLOCKS"},
		{Type: protocol.PartImage, Data: "aGk=", MimeType: "image/png"},
		{Type: protocol.PartImage, URL: "https://example.org/a.png", MimeType: "image/png"},
		{Type: protocol.PartFile, Data: "aGk=", MimeType: "text/plain", Filename: "a b.txt"},
		{Type: protocol.PartFile, Data: "/w==", MimeType: "application/x-thing"},
	}
	r := scripted(t, agentConfig{}).open()
	r.sendInput(in)
	res := r.finish()
	wantText(t, res, `{"data":"aGk=","mimeType":"image/png","type":"image"}`, `"type":"resource_link","uri":"https://example.org/a.png"`,
		`"text":"hi","uri":"attachment:///a%20b.txt"`, `"blob":"/w=="`)
	if len(res.failures) != 0 {
		t.Errorf("failures %+v", res.failures)
	}
	r = scripted(t, agentConfig{NoImages: true, NoContext: true}).open()
	r.sendInput(in)
	res = r.finish()
	wantText(t, res, "image left out", `File a b.txt:\nhi`, "file left out")
	if len(res.failures) != 2 || !strings.Contains(res.failures[0].Message, "input[1]") || !strings.Contains(res.failures[1].Message, "input[4]") {
		t.Errorf("failures %+v", res.failures)
	}
}

func TestSessionParams(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{NoHTTP: true})
	r.spec.Config.MCPServers = map[string]protocol.MCPServer{
		"a": {Type: protocol.MCPStdio, Command: "/bin/a", Env: map[string]string{"K": "secret-of-a"}},
		"b": {Type: protocol.MCPHTTP, URL: "http://127.0.0.1:1/mcp", Headers: map[string]string{"X": "secret-of-b"}},
	}
	extra := t.TempDir()
	r.spec.Config.AdditionalDirectories = []string{extra}
	res := r.open().turn("SETUP")
	wantText(t, res, `{"args":[],"command":"/bin/a","env":[{"name":"K","value":"secret-of-a"}],"name":"a"}`, extra)
	if len(res.failures) != 1 || !strings.Contains(res.failures[0].Message, "config.mcpServers.b") {
		t.Errorf("failures %+v", res.failures)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{})
	r.opts.APIKeyVars, r.opts.Env = []string{"MY_KEY"}, map[string]string{"FROM_OPTIONS": "yes", "MINE": "no"}
	r.spec.Env = append(r.spec.Env, "MY_KEY=outer-key", "CLAUDECODE=1", "MINE=yes", "NODE_OPTIONS=--bad")
	r.spec.Config.APIKey, r.spec.Config.IncludeRaw = "key-of-the-config", true
	r.open()
	res := r.turn("ENV MY_KEY", "ENV CLAUDECODE", "ENV NODE_OPTIONS", "ENV FROM_OPTIONS", "ENV MINE")
	if res.text != "key-of-the-configyesyes" {
		t.Errorf("text %q", res.text)
	}
	raw := 0
	for _, e := range res.events {
		if e, ok := e.(harness.Raw); ok {
			raw++
			if strings.Contains(string(e.Data), "key-of-the-config") {
				t.Errorf("a secret in %s", e.Data)
			}
		}
	}
	if raw < 4 {
		t.Errorf("%d raw events", raw)
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{}).open()
	wantText(t, r.turn("REQUEST vendor/thing", "REQUEST terminal/create", "REQUEST fs/read_text_file"), "-32601")
	big := r.turn("BIG 600000")
	if len(big.text) != 600000 {
		t.Errorf("%d bytes of text", len(big.text))
	}
}

// An agent that says more than anybody takes is held back, but a cancel still gets its answer.
func TestFlood(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{}).open()
	r.send(strings.Repeat("BIG 1000000\n", 40) + "HANG")
	r.interrupt()
	wantEnd(t, r.finish(), protocol.StopCancelled)
	res := r.turn(strings.Repeat("BIG 1000000\n", 40))
	wantEnd(t, res, protocol.StopEndTurn)
	if len(res.text) != 40_000_000 {
		t.Errorf("%d bytes of text", len(res.text))
	}
}

func TestServeFS(t *testing.T) {
	t.Parallel()
	r := scripted(t, agentConfig{})
	r.opts.ServeFS = true
	cwd, outside := r.spec.Config.Cwd, t.TempDir()
	for path, text := range map[string]string{cwd + "/f": "one\ntwo\nthree", outside + "/secret": "a\nsecret"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, cwd+"/link"); err != nil {
		t.Fatal(err)
	}
	r.open()
	wantText(t, r.turn("READ "+cwd+"/f"), `"content":"two\n"`)
	wantText(t, r.turn("READ "+cwd+"/missing"), "-32002")
	for _, path := range []string{outside + "/secret", cwd + "/link/secret", cwd + "/../x"} {
		if res := r.turn("READ " + path); strings.Contains(res.text, "secret\"") || !strings.Contains(res.text, "code") {
			t.Errorf("read of %s: %q", path, res.text)
		}
		if res := r.turn("WRITE " + path + " owned"); !strings.Contains(res.text, "code") {
			t.Errorf("write of %s: %q", path, res.text)
		}
	}
	r.turn("WRITE " + cwd + "/new/dir/f hello")
	if got, err := os.ReadFile(filepath.Join(cwd, "new/dir/f")); string(got) != "hello" {
		t.Errorf("written %q, %v", got, err)
	}
}

func TestSplitCommand(t *testing.T) {
	for line, want := range map[string]string{
		"gemini --acp":                   "gemini|--acp",
		`  "/my dir/agent"  -x 'a "b"' `: `/my dir/agent|-x|a "b"`,
		`a\ b "c\"d\e" '' $HOME`:         `a b|c"d\e||$HOME`,
	} {
		got, err := acp.SplitCommand(line)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
	for _, line := range []string{"", "  ", `a "b`, `a \`, `'' x`} {
		if got, err := acp.SplitCommand(line); err == nil {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestKnown(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range acp.Names() {
		a, ok := acp.Known(name)
		if !ok || seen[name] || len(a.Commands) == 0 || len(a.Commands[0]) == 0 {
			t.Errorf("%s: %+v", name, a)
		}
		seen[name] = true
		h := acp.New(a.Options())
		if h.ID() != protocol.HarnessID(name) {
			t.Errorf("%s: harness %s", name, h.ID())
		}
	}
	if a, ok := acp.Known("qwen-code"); !ok || a.Name != "qwen" {
		t.Errorf("an alias: %+v", a)
	}
	if _, ok := acp.Known("nobody"); ok {
		t.Error("an unknown agent is known")
	}
}
