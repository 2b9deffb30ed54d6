package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentserver/client"
	"agentserver/protocol"
)

// resume is a config that goes on from an agent's session.
func resume(id string) func(*protocol.RunConfig) {
	return func(c *protocol.RunConfig) { c.ResumeSessionID = id }
}

// TestRealResume goes on in a new server's new process, and says so where there is nothing to go on from.
func TestRealResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, realClaude(t))
	first := w.serve()
	c, _ := first.client()
	out := converse(t, c).run("SAY remember the first", w.config(), nil).want(protocol.StopEndTurn)
	first.stop()

	second := w.serve()
	c, got := second.client()
	v := converse(t, c)
	next := v.run("SAY and the second", w.config(resume(out.native)), nil).want(protocol.StopEndTurn)
	if next.native != out.native || next.resumed == nil || !*next.resumed {
		t.Errorf("session %s, resumed %v; want %s", next.native, next.resumed, out.native)
	}
	requests := w.model.Calls()
	if body := string(requests[len(requests)-1].Body); !strings.Contains(body, "remember the first") {
		t.Error("the model was not told what came before")
	}
	if strings.Contains(next.text, "first") {
		t.Errorf("the past was told again: %q", next.text)
	}
	same(t, v.id, 1, got, second.witness)

	v = converse(t, c)
	v.run("SAY nothing", w.config(resume("11111111-2222-4333-8444-555555555555")), nil).wantError(protocol.CategoryInvalidRequest, "No conversation found")
}

// TestRealErrors: each failure of the provider is a failure of the turn, of the right category, and the session goes on.
func TestRealErrors(t *testing.T) {
	t.Parallel()
	s := newWorld(t, realClaude(t)).serve()
	c, _ := s.client()
	v := converse(t, c)
	for _, f := range []struct {
		script   string
		category protocol.ErrorCategory
		text     string
	}{
		{"ERR 400", protocol.CategoryInvalidRequest, "400"},
		{"ERR 429", protocol.CategoryRateLimit, "429"},
		{"ERR 500", protocol.CategoryInternal, "500"},
		{"ERR credit", protocol.CategoryUsageLimit, "redit balance"},
		{"ERR context", protocol.CategoryContextLimit, "too long"},
		{"ERR drop", protocol.CategoryNetwork, "onnect"},
		{"ERR 401", protocol.CategoryAuth, "API key"},
	} {
		v.run(f.script, s.config(), nil).wantError(f.category, f.text)
	}
	v.run("MAXTOK", s.config(), nil).want(protocol.StopMaxTokens)
	v.run("REFUSE I will not", s.config(), nil).want(protocol.StopRefusal)
	v.run("SAY all is well", s.config(), nil).want(protocol.StopEndTurn).wantText("all is well")
}

// TestRealKilled kills the CLI in the middle of a turn. The turn ends at once and says why, and the next one goes on from it.
func TestRealKilled(t *testing.T) {
	t.Parallel()
	s := newWorld(t, realClaude(t)).serve()
	c, got := s.client()
	v := converse(t, c)
	v.run("SAY before it died", s.config(), nil).want(protocol.StopEndTurn)
	var at time.Time
	out := v.run("SAY one\nGATE never", s.config(), once(isText, func(*client.Turn) {
		for _, pid := range s.claudes() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		at = time.Now()
	}))
	took := time.Since(at)
	out.wantError(protocol.CategoryProcessExit, "SIGKILL")
	t.Logf("noticed after %v", took)
	if took > 3*time.Second { // it is some milliseconds; a second on a busy machine
		t.Errorf("the end came %v after the kill", took)
	}
	v.run("SAY still here", s.config(), nil).want(protocol.StopEndTurn).wantText("still here")
	requests := s.model.Calls()
	if body := string(requests[len(requests)-1].Body); !strings.Contains(body, "before it died") {
		t.Error("the next turn did not go on from the earlier ones")
	}
	same(t, v.id, 3, got, s.witness)
}

// stuck is a turn whose tool has started a process in a session of its own, both of which do not care for signals.
const stuck = "TOOL bash setsid -f sh -c 'touch up; trap \"\" TERM INT HUP; while :; do sleep 1; done'; touch tool; sleep 600"

// TestRealServerStops ends the server in the middle of a turn, politely and not. No process remains either way.
func TestRealServerStops(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newWorld(t, realClaude(t)).serve()
			c, _ := s.client(func(o *client.Options) { o.NoReconnect = true })
			turn := converse(t, c).start(stuck, s.config())
			s.witness.until(t, turn.SessionID, "permission", func(e protocol.Event) bool {
				ask, ok := e.(*protocol.PermissionRequested)
				if ok {
					if _, err := turn.Respond(t.Context(), ask.RequestID, protocol.Selected(protocol.OptionIDAllow)); err != nil {
						t.Error(err)
					}
				}
				return ok
			})
			eventually(t, "the tool's child runs", patience, func() bool { return s.made("up") && s.made("tool") })
			s.whole = sig == syscall.SIGTERM
			if err := s.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			end, err := turn.Result(t.Context())
			if s.whole {
				s.wait(0)
				if err != nil || end.StopReason != protocol.StopCancelled {
					t.Errorf("the turn ended with %+v, %v", end, err)
				}
				s.witness.ended(t, turn.SessionID, 1)
				return
			}
			if !errors.Is(err, client.ErrConnectionLost) {
				t.Errorf("the turn's end is %+v, %v", end, err)
			}
			s.wait(-1)
			s.nothingLeft(5 * time.Second)
		})
	}
}

// TestRealStdio: a parent process spawns the server, with the client and without.
func TestRealStdio(t *testing.T) {
	t.Parallel()
	w := newWorld(t, realClaude(t))
	got := newTape()
	c, err := client.Spawn(t.Context(), binary, nil, &client.Options{Env: w.env, OnEvent: got.envelope})
	if err != nil {
		t.Fatal(err)
	}
	v := converse(t, c)
	v.run("SAY over a pipe", w.config(), nil).want(protocol.StopEndTurn).wantText("over a pipe")
	v.run("TOOL bash touch made", w.config(), nil).want(protocol.StopEndTurn)
	got.ended(t, v.id, 2)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	got.check(t, true)
	w.nothingLeft(5 * time.Second)
	if !w.made("made") {
		t.Error("the tool did not run")
	}
}

// TestRealStdinEnds: the parent goes away in the middle of a turn. The turn's end is still written, and all is gone.
func TestRealStdinEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, realClaude(t))
	p := w.pipe()
	p.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":2}}`)
	config, err := json.Marshal(w.config())
	if err != nil {
		t.Fatal(err)
	}
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"turn/start","params":{"sessionId":"s","input":"SAY one\nGATE never","config":%s}}`, config))
	p.got.until(t, "s", "text", isText)
	p.stdin.Close()
	p.wait(0)
	p.got.ended(t, "s", 1)
	p.got.check(t, true)
}

// A pipe is a server on stdio, without a client of ours.
type pipe struct {
	*world
	cmd     *exec.Cmd
	stdin   interface{ Close() error }
	write   func(string)
	got     *tape       // its events
	replies chan string // its other lines
	log     *logBuffer
	read    chan struct{} // closed when its stdout has ended
}

// pipe starts agent-server as a parent process does.
func (w *world) pipe(args ...string) *pipe {
	w.t.Helper()
	p := &pipe{world: w, got: newTape(), replies: make(chan string, 100), log: &logBuffer{}, read: make(chan struct{})}
	p.cmd = exec.Command(binary, args...)
	p.cmd.Env, p.cmd.Stderr = w.env, p.log
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	p.stdin = stdin
	p.write = func(line string) {
		if _, err := stdin.Write([]byte(line + "\n")); err != nil {
			w.t.Error(err)
		}
	}
	go func() {
		defer close(p.read)
		for lines := bufio.NewReader(stdout); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			var m struct {
				Method string
				Params json.RawMessage
			}
			if json.Unmarshal([]byte(line), &m) == nil && m.Method == "event" {
				p.got.raw(m.Params)
			} else {
				p.replies <- line
			}
		}
	}()
	return p
}

// reply returns the next line that is no event.
func (p *pipe) reply() string {
	p.t.Helper()
	select {
	case line := <-p.replies:
		return line
	case <-after(p.t):
		p.t.Fatalf("no answer; the log is\n%s", p.log)
		return ""
	}
}

// wait waits for the end of the server, whose stdin the caller has closed.
func (p *pipe) wait(code int) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-p.read:
	case <-ctx.Done():
		p.t.Error("the server does not end")
		_ = p.cmd.Process.Kill()
		<-p.read
	}
	_ = p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d, want %d; the log is\n%s", got, code, p.log)
	}
	p.nothingLeft(5 * time.Second)
}
