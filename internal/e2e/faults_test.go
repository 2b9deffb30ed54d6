package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"agentserver/client"
	"agentserver/protocol"
)

// TestSecondServer: a port that is taken is said at once, with what to do.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	s := newWorld(t, "").serve()
	second := exec.Command(binary, "--listen", s.addr)
	var stderr bytes.Buffer
	second.Env, second.Stderr = s.env, &stderr
	err := second.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit code 1", err)
	}
	for _, want := range []string{s.addr, "is another server running there?", "another port"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is missing in %s", want, &stderr)
		}
	}
	c, _ := s.client()
	converse(t, c).run("say the first one serves", s.mock(), nil).want(protocol.StopEndTurn)
}

// TestRefusedTurns: what cannot run is refused with what would, and starts nothing.
func TestRefusedTurns(t *testing.T) {
	t.Parallel()
	s := newWorld(t, "").serve("--harness", "mock", "--max-turns", "2")
	c, _ := s.client()
	file := filepath.Join(s.cwd, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]struct {
		change func(*protocol.RunConfig)
		want   error
		text   string
		data   string
	}{
		"unknown harness":  {func(c *protocol.RunConfig) { c.Harness = "nonsense" }, protocol.ErrHarnessNotAvailable, "nonsense", `{"available":["mock"]}`},
		"harness left out": {func(c *protocol.RunConfig) { c.Harness = "claude-code" }, protocol.ErrHarnessNotAvailable, "claude-code", `{"available":["mock"]}`},
		"no such cwd":      {func(c *protocol.RunConfig) { c.Cwd = s.cwd + "/gone" }, protocol.ErrInvalidParams, "", "config.cwd"},
		"cwd is a file":    {func(c *protocol.RunConfig) { c.Cwd = file }, protocol.ErrInvalidParams, "", "config.cwd"},
		"relative cwd":     {func(c *protocol.RunConfig) { c.Cwd = "." }, protocol.ErrInvalidParams, "", "config.cwd"},
		"forbidden env":    {func(c *protocol.RunConfig) { c.Env = map[string]string{"LD_PRELOAD": "s3cret"} }, protocol.ErrInvalidParams, "", "LD_PRELOAD"},
	} {
		config := s.mock()
		r.change(&config)
		_, err := c.StartTurn(t.Context(), protocol.TurnStartParams{Input: protocol.Text("say x"), Config: config})
		said, ok := errors.AsType[*protocol.Error](err)
		if !ok || !errors.Is(err, r.want) || !strings.Contains(said.Message, r.text) || !strings.Contains(string(said.Data), r.data) {
			t.Errorf("%s: %v %s", name, err, said)
		} else if strings.Contains(said.Message+string(said.Data), "s3cret") {
			t.Errorf("%s: the answer shows a secret: %v", name, err)
		}
	}

	v := converse(t, c)
	running := v.start("hang", s.mock())
	start := func(session, text string) error {
		_, err := c.StartTurn(t.Context(), protocol.TurnStartParams{SessionID: protocol.SessionID(session), Input: protocol.Text(text), Config: s.mock()})
		return err
	}
	if err := start(string(v.id), "say x"); !errors.Is(err, protocol.ErrTurnActive) {
		t.Errorf("a second turn in the session: %v", err)
	}
	second := converse(t, c)
	last := second.start("hang", s.mock())
	if err := start("another", "say x"); !errors.Is(err, protocol.ErrOverloaded) {
		t.Errorf("one turn more than may run: %v", err)
	}
	if _, err := running.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
	v.follow(running, nil).want(protocol.StopCancelled)
	if _, err := last.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
	second.follow(last, nil).want(protocol.StopCancelled)
	v.run("say on", s.mock(), nil).want(protocol.StopEndTurn)
}

// dialRaw opens a connection without the client library.
func (s *server) dialRaw() *websocket.Conn {
	s.t.Helper()
	conn, _, err := websocket.Dial(s.t.Context(), s.url(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(-1)
	return conn
}

// malformed are messages and how each is answered: its id as it was written, and the code.
var malformed = []struct {
	text string
	id   string
	code protocol.Code
}{
	{`oops`, `null`, protocol.CodeParseError},
	{`{"jsonrpc":"2.0","id":1,`, `null`, protocol.CodeParseError},
	{`[{"jsonrpc":"2.0","id":1,"method":"session/list"}]`, `null`, protocol.CodeParseError},
	{`"text"`, `null`, protocol.CodeParseError},
	{`{"id":1,"method":"session/list"}`, `null`, protocol.CodeParseError},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe", `null`, protocol.CodeParseError},
	{strings.Repeat(`[`, 100_000), `null`, protocol.CodeParseError},
	{`{"jsonrpc":"2.0","a":1}`, `null`, protocol.CodeInvalidRequest},
	{`{"jsonrpc":"2.0","id":12345678901234567890,"method":"deus/something"}`, `12345678901234567890`, protocol.CodeMethodNotFound},
	{`{"jsonrpc":"2.0","id":"a\u0062c","method":"turn/begin"}`, `"a\u0062c"`, protocol.CodeMethodNotFound},
	{`{"jsonrpc":"2.0","id":2,"method":"turn/start","params":[]}`, `2`, protocol.CodeInvalidParams},
	{`{"jsonrpc":"2.0","id":3,"method":"turn/start","params":{"input":"","config":{"harness":"mock","cwd":"/"}}}`, `3`, protocol.CodeInvalidParams},
	{`{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":1}}`, `4`, protocol.CodeProtocolVersionMismatch},
	{`{"jsonrpc":"2.0","id":5,"method":"events/replay","params":{"sessionId":"nobody","fromSeq":1}}`, `5`, protocol.CodeUnknownSession},
}

// wantAnswer compares a response with the id and the code that it must have.
func wantAnswer(t *testing.T, request, answer, id string, code protocol.Code) {
	t.Helper()
	var m struct {
		ID     json.RawMessage
		Error  *protocol.Error
		Result json.RawMessage
	}
	err := json.Unmarshal([]byte(answer), &m)
	ok := err == nil && string(m.ID) == id && (code == 0) == (m.Error == nil) && (code == 0 || m.Error.Code == code && m.Error.Message != "")
	if !ok {
		t.Errorf("%.120s\nis answered with\n%.300s\nwant id %s, code %d (%v)", request, answer, id, code, err)
	}
}

// TestMalformed: each malformed message is answered, on both transports, and the connection lives.
func TestMalformed(t *testing.T) {
	t.Parallel()
	t.Run("websocket", func(t *testing.T) {
		s := newWorld(t, "").serve()
		conn := s.dialRaw()
		for i, m := range malformed {
			kind := websocket.MessageBinary // a text frame must be UTF-8
			if i%2 == 0 && !strings.Contains(m.text, "\xff") {
				kind = websocket.MessageText
			}
			if err := conn.Write(t.Context(), kind, []byte(m.text)); err != nil {
				t.Fatal(err)
			}
			_, answer, err := conn.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wantAnswer(t, m.text, string(answer), m.id, m.code)
		}
		stray := "\n\n{\"jsonrpc\":\"2.0\",\"method\":\"event\"}\n{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n"
		list := `{"jsonrpc":"2.0","id":"last","method":"session/list"}`
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(stray+list+"\n")); err != nil {
			t.Fatal(err)
		}
		_, answer, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, list, string(answer), `"last"`, 0)
	})
	t.Run("stdio", func(t *testing.T) {
		p := newWorld(t, "").pipe("--stdio")
		for _, m := range malformed {
			p.write(m.text)
			wantAnswer(t, m.text, p.reply(), m.id, m.code)
		}
		p.write("\r\n\n" + `{"jsonrpc":"2.0","id":"last","method":"session/list"}`)
		wantAnswer(t, "session/list", p.reply(), `"last"`, 0)
		p.stdin.Close()
		p.wait(0)
	})
}

// TestOversized: a message over the limit is refused, and harms nobody else.
func TestOversized(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("moves 128 MiB; leave out -short")
	}
	big := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"turn/start","params":{"input":"%s"}}`, strings.Repeat("x", 64<<20))
	t.Run("websocket", func(t *testing.T) {
		s := newWorld(t, "").serve()
		c, got := s.client()
		v := converse(t, c)
		turn := v.start("pace 2ms\nburst 200", s.mock())
		conn := s.dialRaw()
		_ = conn.Write(t.Context(), websocket.MessageText, []byte(big)) // the server may hang up before all is written
		var err error
		for err == nil { // events come until it is cut off
			_, _, err = conn.Read(t.Context())
		}
		if closed, ok := errors.AsType[websocket.CloseError](err); ok && closed.Code != websocket.StatusMessageTooBig {
			t.Errorf("closed with %v", err)
		}
		v.follow(turn, nil).want(protocol.StopEndTurn)
		same(t, v.id, 1, got, s.witness)
	})
	t.Run("stdio", func(t *testing.T) {
		p := newWorld(t, "").pipe("--stdio")
		p.write(big)
		wantAnswer(t, big, p.reply(), `null`, protocol.CodeInvalidRequest)
		p.write(`{"jsonrpc":"2.0","id":2,"method":"session/list"}`)
		wantAnswer(t, "session/list", p.reply(), `2`, 0)
		p.stdin.Close()
		p.wait(0)
	})
}

// fakeCLI writes a script that passes for claude as far as its version.
func fakeCLI(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "claude")
	script := "#!/bin/sh\n[ \"$1\" = --version ] && echo '2.1.332 (Claude Code)' && exit\n" + body + "\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBrokenAgents: an agent that is broken fails the turn with what it said, and the server goes on.
func TestBrokenAgents(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]struct {
		script string
		want   []string
	}{
		"exits at once":   {"echo 'the licence has expired' >&2; exit 3", []string{"the licence has expired"}},
		"prints garbage":  {"echo '<html>'; printf '{\"type\":\\n'; head -c 100000 /dev/urandom; echo; echo 'this is not claude' >&2; exit 1", []string{"this is not claude"}},
		"is killed":       {"kill -9 $$", []string{"SIGKILL"}},
		"ends with child": {"setsid sleep 600 & echo 'gone' >&2; exit 4", []string{"gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newWorld(t, fakeCLI(t, broken.script)).serve()
			c, _ := s.client()
			v := converse(t, c)
			for range 2 { // the session is usable again, though no better
				out := v.run("SAY x", s.config(), nil)
				for _, text := range broken.want {
					out.wantError(protocol.CategoryProcessExit, text)
				}
				if strings.Contains(out.end.Error.Message, "sk-fake") {
					t.Errorf("the error shows a secret: %s", out.end.Error.Message)
				}
			}
			converse(t, c).run("say fine", s.mock(), nil).want(protocol.StopEndTurn)
		})
	}
}

// TestNoAgent: without a CLI the turn says where it was looked for and what to do.
func TestNoAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.env = append(w.env, "PATH=/nonexistent")
	s := w.serve()
	c, _ := s.client()
	converse(t, c).run("SAY x", w.config(), nil).wantError(protocol.CategoryInvalidRequest, "CLAUDE_CLI_PATH")
}

// TestRealNoise: text that is no protocol, on stdout and stderr of the CLI, does not disturb a turn.
func TestRealNoise(t *testing.T) {
	t.Parallel()
	real := realClaude(t)
	noisy := fakeCLI(t, "echo 'Update available: 9.9.9'; echo; printf '\\033[1mhint\\033[0m {\"half\\n'; echo warning >&2\nexec "+real+` "$@"`)
	s := newWorld(t, noisy).serve()
	c, got := s.client()
	v := converse(t, c)
	v.run("SAY as if nothing were", s.config(), nil).want(protocol.StopEndTurn).wantText("as if nothing were")
	same(t, v.id, 1, got, s.witness)
}

// TestToken: nobody without the token gets in, and the token is in no log.
func TestToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.env = append(w.env, "AGENT_SERVER_TOKEN=s3same")
	s := w.serve()
	for _, token := range []string{"", "wrong", "s3same2"} {
		_, err := client.Dial(t.Context(), s.url(), &client.Options{Token: token, NoReconnect: true})
		if err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("token %q: %v", token, err)
		}
	}
	c, _ := s.client(func(o *client.Options) { o.Token = "s3same" })
	converse(t, c).run("say hello", s.mock(), nil).want(protocol.StopEndTurn)
	r, err := http.Get("http://" + s.addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if r.StatusCode != http.StatusOK {
		t.Errorf("healthz without a token: %s", r.Status)
	}
	if strings.Contains(s.log.String(), "s3same") {
		t.Errorf("the token is in the log:\n%s", s.log)
	}
}

// TestShutdownRequest: a client stops the server in the middle of another's turn, whose end is delivered.
func TestShutdownRequest(t *testing.T) {
	t.Parallel()
	s := newWorld(t, "").serve()
	c, got := s.client(func(o *client.Options) { o.NoReconnect = true })
	other, _ := s.client(func(o *client.Options) { o.NoReconnect = true })
	v := converse(t, c)
	turn := v.start("ask Bash {\"command\":\"ls\"}", s.mock())
	got.until(t, v.id, "permission", isAsk)
	if err := other.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if end, err := turn.Result(t.Context()); err != nil || end.StopReason != protocol.StopCancelled {
		t.Errorf("the turn ended with %+v, %v", end, err)
	}
	s.wait(0)
	same(t, v.id, 1, got, s.witness)
}
