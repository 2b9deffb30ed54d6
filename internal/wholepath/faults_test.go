package wholepath

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agentserver/client"
	"agentserver/protocol"
)

func TestSecondServerOnThePort(t *testing.T) {
	e := withoutAgents(t)
	s := e.serve(t)
	var stderr bytes.Buffer
	cmd := exec.Command(binary, "--listen", strings.TrimPrefix(s.url, "ws://"))
	cmd.Env, cmd.Stderr = e.vars, &stderr
	if err := cmd.Run(); err == nil || !strings.Contains(stderr.String(), "is another server running there?") {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

func TestRefusedTurns(t *testing.T) {
	e := withoutAgents(t)
	c := e.serve(t).dialSelf()
	for name, tc := range map[string]struct {
		change func(*protocol.RunConfig)
		want   *protocol.Error
		text   string
	}{
		"unknown harness": {func(c *protocol.RunConfig) { c.Harness = "nope" }, protocol.ErrHarnessNotAvailable, "available"},
		"missing cwd":     {func(c *protocol.RunConfig) { c.Cwd = "/does/not/exist" }, protocol.ErrInvalidParams, "config.cwd"},
		"cwd is a file":   {func(c *protocol.RunConfig) { c.Cwd = binary }, protocol.ErrInvalidParams, "config.cwd"},
		"PATH":            {func(c *protocol.RunConfig) { c.Env = map[string]string{"PATH": "/tmp"} }, protocol.ErrInvalidParams, "PATH"},
		"LD_PRELOAD":      {func(c *protocol.RunConfig) { c.Env = map[string]string{"LD_PRELOAD": "x"} }, protocol.ErrInvalidParams, "LD_PRELOAD"},
	} {
		config := e.config("mock")
		tc.change(&config)
		_, err := c.StartTurn(testContext(t), protocol.TurnStartParams{Input: protocol.Text("hi"), Config: config})
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, ended := (turn{prompt: "hi", config: e.config("mock")}).run(t, c); ended.StopReason != protocol.StopEndTurn {
		t.Errorf("afterwards: %s", ended.StopReason)
	}
}

// TestBrokenAgents: an agent that is none is an error of the turn that says what it said.
func TestBrokenAgents(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"exits at once":       {"echo 'license expired' >&2; exit 3", "license expired"},
		"prints garbage":      {"echo '<html>'; echo '{\"half\":'; echo 'no agent here' >&2; exit 0", "no agent here"},
		"is killed by itself": {"kill -9 $$", "SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			e := withoutAgents(t)
			path := filepath.Join(t.TempDir(), "claude")
			script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '2.1.332 (Claude Code)'; exit 0; fi\n" + tc.script + "\n"
			if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			e.vars = append(e.vars, "CLAUDE_CLI_PATH="+path)
			s := e.serve(t)
			c := s.dialSelf()
			_, ended := turn{prompt: "hi", config: e.config(claude)}.run(t, c)
			if ended.StopReason != protocol.StopError || ended.Error == nil || !strings.Contains(ended.Error.Message, tc.want) {
				t.Errorf("%s, %+v", ended.StopReason, ended.Error)
			}
		})
	}
}

// TestNoAgentAtAll: the error lists where it was looked for and what to do.
func TestNoAgentAtAll(t *testing.T) {
	e := withoutAgents(t)
	e.vars = append(e.vars, "PATH=/nonexistent")
	c := e.serve(t).dialSelf()
	_, ended := turn{prompt: "hi", config: e.config(claude)}.run(t, c)
	if ended.StopReason != protocol.StopError || ended.Error == nil || !strings.Contains(ended.Error.Message, "CLAUDE_CLI_PATH") {
		t.Errorf("%s, %+v", ended.StopReason, ended.Error)
	}
}

func TestToken(t *testing.T) {
	e := withoutAgents(t)
	e.vars = append(e.vars, "AGENT_SERVER_TOKEN=right")
	s := e.serve(t)
	for token, want := range map[string]bool{"": false, "wrong": false, "right": true} {
		c, err := client.Dial(testContext(t), s.url, &client.Options{Token: token, NoReconnect: true})
		if (err == nil) != want {
			t.Errorf("token %q: %v", token, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
	resp, err := http.Get("http" + strings.TrimPrefix(s.url, "ws") + "/healthz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("healthz: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
	if strings.Contains(s.log.String(), "right") {
		t.Error("the token is in the log")
	}
}

// TestMalformedFrames: each is answered, and the connection lives.
func TestMalformedFrames(t *testing.T) {
	s := withoutAgents(t).serve(t)
	ctx := testContext(t)
	conn, _, err := websocket.Dial(ctx, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	for _, tc := range []struct {
		in   string
		code protocol.Code
		id   string
	}{
		{`{`, protocol.CodeParseError, `null`}, {`[]`, protocol.CodeParseError, `null`}, {`[{"jsonrpc":"2.0","id":1,"method":"initialize"}]`, protocol.CodeParseError, `null`},
		{`{"id":1,"method":"initialize"}`, protocol.CodeParseError, `null`}, {`{"jsonrpc":"2.0"}`, protocol.CodeInvalidRequest, `null`},
		{`{"jsonrpc":"2.0","id":12345678901234567890,"method":"nope"}`, protocol.CodeMethodNotFound, `12345678901234567890`},
		{`{"jsonrpc":"2.0","id":"a\u0062","method":"deus/x"}`, protocol.CodeMethodNotFound, `"a\u0062"`},
		{`{"jsonrpc":"2.0","id":7,"method":"turn/start","params":{"input":7}}`, protocol.CodeInvalidParams, `7`},
		{`{"jsonrpc":"2.0","id":8,"method":"initialize","params":{"protocolVersion":3}}`, protocol.CodeProtocolVersionMismatch, `8`},
		{`{"jsonrpc":"2.0","id":9,"method":"events/replay","params":{"sessionId":"x","fromSeq":1}}`, protocol.CodeUnknownSession, `9`},
	} {
		if err := conn.Write(ctx, websocket.MessageText, []byte(tc.in)); err != nil {
			t.Fatal(err)
		}
		_, raw, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("%s: %v", tc.in, err)
		}
		var m struct {
			ID    json.RawMessage `json:"id"`
			Error *protocol.Error `json:"error"`
		}
		if err := json.Unmarshal(raw, &m); err != nil || m.Error == nil || m.Error.Code != tc.code || string(m.ID) != tc.id {
			t.Errorf("%s: answered %s, want %s with id %s", tc.in, raw, tc.code, tc.id)
		}
	}
}

// TestRealStdio spawns the server over stdio and ends stdin in the middle of a turn.
func TestRealStdio(t *testing.T) {
	e := withClaude(t)
	r := record(t)
	c, err := client.Spawn(testContext(t), binary, []string{"--stdio"}, &client.Options{Env: e.vars, OnEvent: r.add})
	if err != nil {
		t.Fatal(err)
	}
	if _, ended := (turn{session: "s", prompt: "SAY over stdio", config: e.config(claude)}).run(t, &peer{c, r}); ended.StopReason != protocol.StopEndTurn {
		t.Errorf("ended with %s", ended.StopReason)
	}
	r.loose = true
	ctx := testContext(t)
	h, err := c.StartTurn(ctx, protocol.TurnStartParams{SessionID: "s", Input: protocol.Text("GATE stream"), Config: e.config(claude)})
	if err != nil {
		t.Fatal(err)
	}
	for ev := range h.Events(ctx) {
		if ev != nil && ev.EventType() == protocol.EventMessagePartDelta {
			break
		}
	}
	_ = c.Close() // ends stdin, and waits for the server
	eventually(t, 15*time.Second, "no process is left", func() bool { return len(e.agents()) == 0 })
}
