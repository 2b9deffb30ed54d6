package examples

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// patience is how long anything may take that is not stuck.
const patience = 20 * time.Second

// A script is a server that does what the test says.
type script struct {
	t     *testing.T
	url   string
	conns chan *conn
}

func newScript(t *testing.T) *script {
	s := &script{t: t, conns: make(chan *conn, 16)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		ws.SetReadLimit(1 << 20)
		c := &conn{t: t, ws: ws, requests: make(chan request, 64)}
		s.conns <- c
		for {
			_, data, err := ws.Read(context.Background())
			var r request
			if err != nil || json.Unmarshal(data, &r) != nil {
				close(c.requests)
				return
			}
			c.requests <- r
		}
	}))
	t.Cleanup(server.Close)
	s.url = "ws" + strings.TrimPrefix(server.URL, "http")
	return s
}

// accept waits for the next connection, and for its initialize.
func (s *script) accept() (c *conn, hello request) {
	s.t.Helper()
	select {
	case c = <-s.conns:
		return c, c.request("initialize")
	case <-time.After(patience):
		s.t.Fatal("the client does not connect")
		return nil, hello
	}
}

// greet accepts the next connection as an instance.
func (s *script) greet(instance string) *conn {
	s.t.Helper()
	c, hello := s.accept()
	c.reply(hello, fmt.Sprintf(`{"protocolVersion":2,"instanceId":%q,"server":{"name":"script"},"harnesses":{}}`, instance))
	return c
}

type request struct {
	ID     json.RawMessage
	Method string
	Params struct {
		SessionID string
		TurnID    string
		FromSeq   int
	}
}

type conn struct {
	t        *testing.T
	ws       *websocket.Conn
	requests chan request
}

// request returns the next request, which must be of that method.
func (c *conn) request(method string) request {
	c.t.Helper()
	select {
	case r, ok := <-c.requests:
		if !ok || r.Method != method {
			c.t.Fatalf("the client asked for %q (connected: %v), want %q", r.Method, ok, method)
		}
		return r
	case <-time.After(patience):
		c.t.Fatalf("the client does not ask for %s", method)
		return request{}
	}
}

// replay returns the next request, which must be a replay of a session from a number on.
func (c *conn) replay(session string, from int) request {
	c.t.Helper()
	r := c.request("events/replay")
	if r.Params.SessionID != session || r.Params.FromSeq != from {
		c.t.Fatalf("the client asked for %s from %d, want %s from %d", r.Params.SessionID, r.Params.FromSeq, session, from)
	}
	return r
}

func (c *conn) write(format string, args ...any) {
	c.t.Helper()
	if err := c.ws.Write(c.t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *conn) reply(r request, result string) {
	c.t.Helper()
	c.write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, result)
}

func (c *conn) refuse(r request, code int, message string) {
	c.t.Helper()
	c.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, r.ID, code, message)
}

// page answers a replay with the events of those numbers.
func (c *conn) page(r request, first, latest int, seqs ...int) {
	c.t.Helper()
	events := []string{}
	for _, seq := range seqs {
		events = append(events, envelope(r.Params.SessionID, seq, "x"))
	}
	c.reply(r, fmt.Sprintf(`{"events":[%s],"firstAvailableSeq":%d,"latestSeq":%d}`, strings.Join(events, ","), first, latest))
}

func (c *conn) events(session string, seqs ...int) {
	c.t.Helper()
	for _, seq := range seqs {
		c.event(session, seq, "x")
	}
}

func (c *conn) event(session string, seq int, typ string) {
	c.t.Helper()
	c.write(`{"jsonrpc":"2.0","method":"event","params":%s}`, envelope(session, seq, typ))
}

func envelope(session string, seq int, typ string) string {
	return fmt.Sprintf(`{"sessionId":%q,"seq":%d,"event":{"type":%q,"sessionId":%[1]q,"timestamp":1,"reason":"released"}}`, session, seq, typ)
}

func (c *conn) drop() { _ = c.ws.CloseNow() }

// A program is client.mjs in a process of its own. It prints what happens and does what it is told.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	err   bytes.Buffer
}

const programScript = `
import { AgentClient } from %q;
import { createInterface } from 'node:readline';
const say = (...words) => console.log(words.join(' '));
const client = new AgentClient(process.argv[1], {
  onEvent: (session, seq, e) => { say('event', session, seq); if (e.type === 'boom') throw new Error('a mistake'); },
  onLost: (session, why) => say('lost', session, why),
});
const told = {
  start: (session) => client.startTurn('hi', { harness: 'mock', cwd: '/' }, session),
  follow: async (session, seq) => client.follow(session, Number(seq)),
  list: () => client.call('session/list', {}),
  close: async () => client.close(),
};
for await (const line of createInterface({ input: process.stdin })) {
  const [word, ...args] = line.split(' ');
  told[word](...args).then(() => say(word, 'ok'), (e) => say(word, 'failed:', e.message));
}`

func (s *script) program() *program {
	s.t.Helper()
	p := &program{t: s.t, lines: make(chan string, 1<<16)}
	p.cmd = nodeCommand(s.t, "--input-type=module", "-e", fmt.Sprintf(programScript, here(s.t, "client.mjs")), s.url)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	p.in, p.cmd.Stderr = in, &p.err
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			p.lines <- sc.Text()
		}
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		for range p.lines { // until the pipe is closed
		}
		_ = p.cmd.Wait()
	})
	return p
}

func (p *program) tell(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
}

// says waits for these lines, and no others between them.
func (p *program) says(want ...string) {
	p.t.Helper()
	for i, w := range want {
		select {
		case got, ok := <-p.lines:
			if got != w || !ok {
				p.t.Fatalf("line %d is %q, want %q\n%s", i, got, w, &p.err)
			}
		case <-time.After(patience):
			p.t.Fatalf("line %d does not come: %q\n%s", i, w, &p.err)
		}
	}
}

// got waits for a session's events, in order and each once.
func (p *program) got(session string, from, to int) {
	p.t.Helper()
	for seq := from; seq <= to; seq++ {
		p.says(fmt.Sprintf("event %s %d", session, seq))
	}
}

// idle has the client ask for something, so that whatever it did before is seen first.
func (p *program) idle(c *conn) {
	p.t.Helper()
	p.tell("list")
	c.reply(c.request("session/list"), `{"sessions":[]}`)
	p.says("list ok")
}

func TestEventsArriveDuringReplay(t *testing.T) {
	s := newScript(t)
	p := s.program()
	c := s.greet("one")
	c.events("s", 1, 2, 2, 5)
	r := c.replay("s", 3)
	c.events("s", 7, 6, 4, 2, 5)
	c.events("other", 1)
	c.page(r, 1, 5, 3, 4, 5)
	c.events("s", 8)
	p.got("s", 1, 2)
	p.says("event other 1")
	p.got("s", 3, 8)
	p.idle(c)
}

func TestReplayInPages(t *testing.T) {
	s := newScript(t)
	p := s.program()
	c := s.greet("one")
	c.events("s", 1, 9)
	c.page(c.replay("s", 2), 1, 9, 2, 3)
	r := c.replay("s", 4)
	c.events("s", 10)
	c.page(r, 1, 10, 4, 5, 6, 7, 8)
	p.got("s", 1, 10)
	p.idle(c)
}

func TestReconnectWithPendingReplay(t *testing.T) {
	s := newScript(t)
	p := s.program()
	c := s.greet("one")
	c.events("s", 1, 4)
	c.events("quiet", 1)
	c.replay("s", 2)
	c.drop()
	c = s.greet("one")
	c.page(c.replay("s", 2), 1, 4, 2, 3, 4)
	c.page(c.replay("quiet", 2), 1, 2, 2)
	p.says("event s 1", "event quiet 1")
	p.got("s", 2, 4)
	p.says("event quiet 2")
	p.idle(c)
}

// TestInstanceChangesDuringReplay lets the new process speak before it says who it is: its events must not be taken for the old one's.
func TestInstanceChangesDuringReplay(t *testing.T) {
	s := newScript(t)
	p := s.program()
	c := s.greet("one")
	c.events("s", 1, 4)
	c.replay("s", 2)
	p.says("event s 1")
	c.drop()
	c, hello := s.accept()
	c.events("s", 2)
	c.reply(hello, `{"protocolVersion":2,"instanceId":"two","server":{"name":"script"},"harnesses":{}}`)
	p.says("lost s the server was replaced")
	r := c.replay("s", 1)
	c.events("s", 3)
	c.page(r, 1, 2, 1, 2)
	p.got("s", 1, 3)
	p.idle(c)
}

func TestManyEventsAreHeld(t *testing.T) {
	s := newScript(t)
	p := s.program()
	c := s.greet("one")
	const n = 30_000
	c.events("s", 1)
	for seq := 3; seq <= n; seq++ {
		c.event("s", seq, "x")
	}
	c.page(c.replay("s", 2), 1, 2, 2)
	p.got("s", 1, n)
	p.idle(c)
}

func TestBeginningIsGone(t *testing.T) {
	s := newScript(t)
	p := s.program()
	c := s.greet("one")
	c.events("s", 1, 9)
	c.page(c.replay("s", 2), 6, 9, 6, 7, 8, 9)
	p.says("event s 1", "lost s events 2 to 5 are no longer held")
	p.got("s", 6, 9)
	p.idle(c)
}

// TestReplayFails lets replays end in every other way. None may be asked for again and again.
func TestReplayFails(t *testing.T) {
	s := newScript(t)
	p := s.program()
	c := s.greet("one")
	c.events("gone", 1, 4)
	c.refuse(c.replay("gone", 2), -32001, "no such session")
	p.says("event gone 1", "lost gone no such session")
	p.idle(c)

	c.events("broken", 1, 4)
	c.refuse(c.replay("broken", 2), -32603, "a bug")
	p.says("event broken 1", "lost broken a bug")
	p.idle(c)
	c.events("broken", 5) // the next event is another chance
	c.page(c.replay("broken", 2), 1, 5, 2, 3, 4, 5)
	p.got("broken", 2, 5)

	c.events("empty", 1, 4)
	c.page(c.replay("empty", 2), 1, 9)
	p.says("event empty 1", "lost empty events 2 to 3 are no longer held")
	c.page(c.replay("empty", 4), 1, 9)
	p.says("event empty 4")
	p.idle(c)

	c.events("stale", 1, 4)
	c.page(c.replay("stale", 2), 1, 4, 1)
	r := c.replay("stale", 2)
	c.page(r, 1, 4, 2, 3)
	p.got("stale", 1, 4)
	p.idle(c)
}

func TestFollowFromSnapshot(t *testing.T) {
	s := newScript(t)
	p := s.program()
	c := s.greet("one")
	p.idle(c)
	p.tell("follow s 7")
	p.says("follow ok")
	r := c.replay("s", 8)
	c.events("s", 7, 10)
	c.page(r, 3, 9, 8, 9)
	p.got("s", 8, 10)
	p.idle(c)
}

func TestHandlerThrows(t *testing.T) {
	s := newScript(t)
	p := s.program()
	c := s.greet("one")
	c.event("s", 1, "boom")
	c.events("s", 2, 4)
	r := c.replay("s", 3)
	c.reply(r, fmt.Sprintf(`{"events":[%s],"firstAvailableSeq":1,"latestSeq":3}`, envelope("s", 3, "boom")))
	p.got("s", 1, 4)
	p.idle(c)
}

func TestClosedSessionIsNotAskedFor(t *testing.T) {
	s := newScript(t)
	p := s.program()
	c := s.greet("one")
	c.events("s", 1)
	c.event("s", 2, "session.ended")
	c.events("again", 1)
	c.event("again", 2, "session.ended")
	c.events("again", 3)
	p.got("s", 1, 2)
	p.got("again", 1, 3)
	c.drop()
	c = s.greet("one")
	c.page(c.replay("again", 4), 1, 3)
	p.idle(c)
}

// TestRequestsInFlight lets the connection drop under requests: a start is sent again as it was, everything else fails.
func TestRequestsInFlight(t *testing.T) {
	s := newScript(t)
	p := s.program()
	c := s.greet("one")
	p.tell("start s")
	first := c.request("turn/start")
	p.tell("list")
	c.request("session/list")
	c.drop()
	p.says("list failed: connection lost")
	c = s.greet("one")
	again := c.request("turn/start")
	if again.Params != first.Params {
		t.Errorf("sent again as %+v, was %+v", again.Params, first.Params)
	}
	c.reply(again, `{"sessionId":"s","turnId":"t","deduplicated":true}`)
	c.page(c.replay("s", 1), 1, 2, 1, 2) // what came before the connection dropped may be lost
	p.says("start ok")
	p.got("s", 1, 2)
	p.idle(c)
}

// TestCloseWhileDisconnected expects the process to end: nothing may connect again, or wait.
func TestCloseWhileDisconnected(t *testing.T) {
	s := newScript(t)
	p := s.program()
	for range 4 { // so that the client waits for longer
		c, _ := s.accept()
		c.drop()
	}
	p.tell("close")
	_ = p.in.Close()
	p.says("close ok")
	select {
	case line, ok := <-p.lines:
		if ok {
			t.Errorf("it said %q", line)
		}
	case <-time.After(patience):
		t.Fatal("the program does not end")
	}
	if err := p.cmd.Wait(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 0 {
			t.Errorf("%v\n%s", err, &p.err)
		}
	}
	if n := len(s.conns); n > 0 {
		t.Errorf("%d more connections", n)
	}
}
