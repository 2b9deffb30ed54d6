package claude

import (
	"slices"
	"strings"
	"testing"

	"agentserver/harness"
	"agentserver/harness/internal/redact"
	"agentserver/protocol"
)

// TestArguments checks the flags of each setting, and that no secret is among them.
func TestArguments(t *testing.T) {
	turns, no := 3, false
	for name, c := range map[string]struct {
		spec harness.Spec
		want string // flags that follow each other
		not  string
	}{
		"fresh":        {harness.Spec{}, "--session-id NEW", "--resume"},
		"resume":       {harness.Spec{Resume: "old", ResumeAt: "at"}, "--resume old --resume-session-at at --model default", "--session-id"},
		"model":        {harness.Spec{Resume: "old", Config: protocol.RunConfig{Model: "m"}}, "--model m", "default"},
		"asks":         {harness.Spec{}, "--permission-prompt-tool stdio", "--permission-mode"},
		"does not ask": {harness.Spec{Config: protocol.RunConfig{PermissionRequests: &no}}, "--replay-user-messages", "stdio"},
		"plan":         {harness.Spec{Config: protocol.RunConfig{PermissionMode: protocol.ModePlan}}, "--permission-mode plan", "dangerously"},
		"bypass": {harness.Spec{Config: protocol.RunConfig{PermissionMode: protocol.ModeBypassPermissions}},
			"--permission-mode bypassPermissions --allow-dangerously-skip-permissions", ""},
		"no auto mode":    {harness.Spec{}, `--settings {"disableAutoMode":"disable"}`, ""},
		"thinking off":    {harness.Spec{Config: protocol.RunConfig{ThinkingLevel: protocol.ThinkingOff}}, "--thinking disabled", "--effort"},
		"thinking xhigh":  {harness.Spec{Config: protocol.RunConfig{ThinkingLevel: protocol.ThinkingXHigh}}, "--thinking adaptive --effort xhigh", ""},
		"max turns":       {harness.Spec{Config: protocol.RunConfig{MaxTurns: &turns}}, "--max-turns 3", ""},
		"directories":     {harness.Spec{Config: protocol.RunConfig{AdditionalDirectories: []string{"/a", "/b"}}}, "--add-dir /a --add-dir /b", ""},
		"no tools":        {harness.Spec{Config: protocol.RunConfig{DisableTools: true}}, "--tools  --strict-mcp-config", ""},
		"secrets":         {harness.Spec{Config: protocol.RunConfig{APIKey: "KEY", MCPServers: map[string]protocol.MCPServer{"s": {Type: "stdio", Command: "c", Env: map[string]string{"A": "SECRET"}}}}}, "", "SECRET"},
		"a prompt append": {harness.Spec{Config: protocol.RunConfig{SystemPromptAppend: "PIRATE"}}, "", "PIRATE"},
	} {
		got := strings.Join(arguments(c.spec, "NEW"), " ")
		if !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) || strings.Contains(got, "KEY") {
			t.Errorf("%s: %s, want %q and not %q", name, got, c.want, c.not)
		}
	}
}

// TestEnvironment checks what is removed, added and overridden.
func TestEnvironment(t *testing.T) {
	spec := harness.Spec{
		Env:    []string{"PATH=/bin", "CLAUDECODE=1", "CLAUDE_CODE_SESSION_ID=x", "NODE_OPTIONS=--inspect", "ANTHROPIC_API_KEY=operator", "CLAUDE_CODE_OAUTH_TOKEN=oauth", "DEBUG=wanted"},
		Config: protocol.RunConfig{APIKey: "mine", Env: map[string]string{"DEBUG": "wanted"}},
	}
	env := environment(spec, "test")
	for _, want := range []string{"PATH=/bin", "ANTHROPIC_API_KEY=mine", "CLAUDE_CODE_ENTRYPOINT=test", "DISABLE_AUTOUPDATER=1", "DEBUG=wanted"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	for _, e := range env {
		for _, gone := range []string{"CLAUDECODE=", "CLAUDE_CODE_SESSION_ID=", "NODE_OPTIONS=", "ANTHROPIC_API_KEY=operator", "CLAUDE_CODE_OAUTH_TOKEN="} {
			if strings.HasPrefix(e, gone) {
				t.Errorf("%s was kept", e)
			}
		}
	}
	if got := secrets(spec); !slices.Contains(got, "mine") || !slices.Contains(got, "oauth") || !slices.Contains(got, "operator") || !slices.Contains(got, "wanted") {
		t.Errorf("secrets %q", got)
	}
	spec.Config.APIKey = ""
	if env := environment(spec, "test"); !slices.Contains(env, "CLAUDE_CODE_OAUTH_TOKEN=oauth") {
		t.Error("the operator's login was dropped")
	}
}

// TestRedactor blanks secrets in each form that JSON gives them.
func TestRedactor(t *testing.T) {
	secret := `pass"word<&>` + "\n\x01"
	r := redact.New([]string{secret, "abc", "tokens", "tokens-longer"})
	for _, in := range []string{secret, string(encode(secret)), `"pass\"word\u003c\u0026\u003e\n\u0001"`} {
		if got := r.Text("<" + in + ">"); strings.Contains(got, "word") {
			t.Errorf("%q became %q", in, got)
		}
	}
	if got := r.Text("abc tokens-longer tokens"); got != "abc [redacted] [redacted]" {
		t.Errorf("%q", got)
	}
	if got := string(redact.Redactor{}.Bytes([]byte("x"))); got != "x" {
		t.Errorf("%q", got)
	}
}

// TestText compares the decoder of JSON strings with encoding/json's.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		`"plain"`: "plain", `"a\nb\t\"\\\/\r"`: "a\nb\t\"\\/\r", `"\u00fc\ud83d\ude00"`: "ü😀", `"\b\f"`: "\b\f", `""`: "", `null`: "", `12`: "", ``: "", `"\`: "", `"ü\n"`: "ü\n",
	} {
		if got := text([]byte(in)); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
	long := strings.Repeat("long line\n", 1000)
	if got := text(encode(long)); got != long {
		t.Errorf("%d bytes, want %d", len(got), len(long))
	}
}

// TestOlder compares versions.
func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{"2.1.196": true, "2.1.197": false, "2.1.332": false, "2.0.999": true, "3.0": false, "1": true, "": false, "dev": false} {
		if got := older(version, DefaultMinVersion); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}

// TestErrorCategories covers the CLI's words that no script of a model brings about.
func TestErrorCategories(t *testing.T) {
	for _, c := range []struct {
		kind   string
		status int
		text   string
		want   protocol.ErrorCategory
	}{
		{"oauth_org_not_allowed", 0, "x", protocol.CategoryAuth},
		{"billing_error", 402, "x", protocol.CategoryUsageLimit},
		{"rate_limit", 429, "You've hit your limit · resets 5pm", protocol.CategoryUsageLimit},
		{"rate_limit", 0, "Claude AI usage limit reached", protocol.CategoryUsageLimit},
		{"rate_limit", 429, "Request rejected (429)", protocol.CategoryRateLimit},
		{"server_error", 0, "Unable to connect to API (ConnectionRefused)", protocol.CategoryNetwork},
		{"server_error", 0, "Connection lost mid-response", protocol.CategoryNetwork},
		{"server_error", 500, "Internal server error", protocol.CategoryInternal},
		{"invalid_request", 0, "something odd", protocol.CategoryInvalidRequest},
		{"invalid_request", 400, "Prompt is too long", protocol.CategoryContextLimit},
		{"a_new_word", 0, "never seen", protocol.CategoryInternal},
	} {
		if got := categoryOf(c.kind, c.status, c.text); got != c.want {
			t.Errorf("%s %d %q: %s, want %s", c.kind, c.status, c.text, got, c.want)
		}
	}
}

// TestResults covers results that no script brings about.
func TestResults(t *testing.T) {
	for line, want := range map[string]string{
		`{"type":"result","subtype":"error_max_budget_usd","is_error":true,"errors":["Reached maximum budget ($1)"]}`:        "error usage_limit",
		`{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (2)"]}`:     "max_turn_requests",
		`{"type":"result","subtype":"error_max_structured_output_retries","is_error":true}`:                                  "error internal",
		`{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["[ede_diagnostic] x"]}`:               "error internal",
		`{"type":"result","subtype":"success","is_error":false,"stop_reason":"max_tokens"}`:                                  "max_tokens",
		`{"type":"result","subtype":"success","is_error":false,"stop_reason":"refusal"}`:                                     "refusal",
		`{"type":"result","subtype":"success","is_error":false,"stop_reason":null,"structured_output":{"answer":42}}`:        "end_turn",
		`{"type":"result","subtype":"success","is_error":true,"result":"x","terminal_reason":"prompt_too_long"}`:             "error context_limit",
		`{"type":"result","subtype":"success","is_error":false,"stop_reason":"something new","terminal_reason":"completed"}`: "end_turn",
	} {
		s := newStage(t)
		s.start("u")
		s.line([]byte(line))
		end, ok := s.events[len(s.events)-1].(harness.TurnEnd)
		if !ok {
			t.Fatalf("%s: %#v", line, s.events)
		}
		got := string(end.StopReason)
		if end.Error != nil {
			got += " " + string(end.Error.Category)
			if end.Error.Message == "" || strings.Contains(end.Error.Message, "ede_diagnostic") {
				t.Errorf("%s: message %q", line, end.Error.Message)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
		if strings.Contains(line, "answer") && string(end.Meta.Get(MetaStructuredOutput)) != `{"answer":42}` {
			t.Errorf("structured output %s", end.Meta)
		}
	}
}

// TestReusedToolIDs keeps calls apart whose provider counts from 1 in every message.
func TestReusedToolIDs(t *testing.T) {
	s := newStage(t)
	s.start("u")
	result := `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}}`
	for _, l := range []string{lineInit, lineTool, result, strings.Replace(lineTool, `"a"`, `"b"`, 1), result} {
		s.line([]byte(l))
	}
	keys := map[string]int{}
	for _, e := range s.events {
		if u, ok := e.(harness.PartUpdate); ok {
			keys[u.Key]++
			if id := u.Part.(*protocol.ToolPart).ToolCallID; id != "t" {
				t.Errorf("tool call id %q", id)
			}
		}
	}
	if len(keys) != 2 || keys["t"] != 2 || keys["t#2"] != 2 {
		t.Errorf("keys %v", keys)
	}
}
