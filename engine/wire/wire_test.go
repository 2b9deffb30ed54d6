package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/engine"
	"agentserver/engine/wire"
	"agentserver/internal/transport"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A peer is a client that sees the raw texts.
type peer struct {
	t      *testing.T
	pipe   transport.Pipe
	served chan error // what Serve returned
}

// dial connects a peer to s through memory.
func dial(t *testing.T, s *wire.Server) *peer {
	t.Helper()
	a, b := transport.Memory()
	p := &peer{t: t, pipe: a, served: make(chan error, 1)}
	go func() { p.served <- s.Serve(context.Background(), b) }()
	t.Cleanup(func() { a.Close(transport.CloseNormal, "") })
	return p
}

func (p *peer) send(text string) {
	p.t.Helper()
	if err := p.pipe.Write(context.Background(), []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

// next returns the next text.
func (p *peer) next() string {
	p.t.Helper()
	text, err := p.pipe.Read(context.Background())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// answer returns the next text that is no event.
func (p *peer) answer() string {
	p.t.Helper()
	for {
		if text := p.next(); !strings.Contains(text, `"method":"event"`) {
			return text
		}
	}
}

func (p *peer) ask(id, method, params string) string {
	p.t.Helper()
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	return p.answer()
}

// events returns the events up to and including the first of a type.
func (p *peer) events(until protocol.EventType) []protocol.Envelope {
	p.t.Helper()
	var all []protocol.Envelope
	for {
		text := []byte(p.next())
		params := jsonscan.Get(text, "params")
		if params == nil {
			continue
		}
		env, err := protocol.DecodeEnvelope(params)
		if err != nil {
			p.t.Fatal(err)
		}
		if all = append(all, env); env.Event.EventType() == until {
			return all
		}
	}
}

func startParams(t *testing.T, session, turn, input string) string {
	return fmt.Sprintf(`{"sessionId":%q,"turnId":%q,"input":%q,"config":{"harness":"script","cwd":%q}}`, session, turn, input, t.TempDir())
}

// TestErrors: every wire error of spec section 2, as a client sees it, and the connection lives on.
func TestErrors(t *testing.T) {
	rt := newRuntime(t, func(o *engine.Options) { o.MaxSessions = 2 })
	s := wire.New(rt, wire.Options{})
	t.Cleanup(func() { s.Close() })
	p := dial(t, s)
	dir := t.TempDir()
	config := fmt.Sprintf(`{"harness":"script","cwd":%q}`, dir)
	hang := fmt.Sprintf(`{"sessionId":"busy","turnId":"t1","input":"hang","config":%s}`, config)
	if got := p.ask("1", "turn/start", hang); !strings.Contains(got, `"result"`) {
		t.Fatal(got)
	}
	p.ask("1", "turn/start", fmt.Sprintf(`{"sessionId":"done","turnId":"t1","input":"say 1","config":%s}`, config))
	p.events(protocol.EventTurnEnded)
	request := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)
	}
	tests := []struct {
		name, send string
		id         string
		code       protocol.Code
		data       string // what error.data must hold
	}{
		{"not JSON", `hello`, "null", protocol.CodeParseError, ""},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"initialize"}]`, "null", protocol.CodeParseError, ""},
		{"no version", `{"id":7,"method":"initialize"}`, "null", protocol.CodeParseError, ""},
		{"neither request nor response", `{"jsonrpc":"2.0","id":7}`, "7", protocol.CodeInvalidRequest, ""},
		{"unknown method", request("deus/magic", `{}`), "7", protocol.CodeMethodNotFound, ""},
		{"wrong type", request("turn/start", `{"sessionId":5}`), "7", protocol.CodeInvalidParams, `"path":"sessionId"`},
		{"wrong type deep down", request("turn/start", `{"input":"x","config":{"maxTurns":"many"}}`), "7", protocol.CodeInvalidParams, `"path":"config.maxTurns"`},
		{"params are no object", request("turn/start", `[1]`), "7", protocol.CodeInvalidParams, `"path":"params"`},
		{"empty input", request("turn/start", fmt.Sprintf(`{"input":"","config":%s}`, config)), "7", protocol.CodeInvalidParams, `"path":"input"`},
		{"cwd does not exist", request("turn/start", `{"input":"x","config":{"harness":"script","cwd":"/does/not/exist"}}`), "7", protocol.CodeInvalidParams, `"path":"config.cwd"`},
		{"an id with a control character", request("session/close", `{"sessionId":"a\u0000b"}`), "7", protocol.CodeInvalidParams, `"path":"sessionId"`},
		{"a cancel of an empty turn", request("turn/cancel", `{"sessionId":"busy","turnId":""}`), "7", protocol.CodeInvalidParams, `"path":"turnId"`},
		{"a turn in an empty session", request("turn/start", fmt.Sprintf(`{"sessionId":"","input":"x","config":%s}`, config)), "7", protocol.CodeInvalidParams, `"path":"sessionId"`},
		{"fromSeq 0", request("events/replay", `{"sessionId":"busy","fromSeq":0}`), "7", protocol.CodeInvalidParams, `"path":"fromSeq"`},
		{"fromSeq fraction", request("events/replay", `{"sessionId":"busy","fromSeq":1.5}`), "7", protocol.CodeInvalidParams, `"path":"fromSeq"`},
		{"no version to initialize with", request("initialize", `{}`), "7", protocol.CodeInvalidParams, `"path":"protocolVersion"`},
		{"no such harness", request("turn/start", fmt.Sprintf(`{"input":"x","config":{"harness":"gone","cwd":%q}}`, dir)), "7", protocol.CodeHarnessNotAvailable, `"available":["script"]`},
		{"unknown session", request("events/replay", `{"sessionId":"nobody","fromSeq":1}`), "7", protocol.CodeUnknownSession, ""},
		{"unknown session to respond in", request("permission/respond", `{"sessionId":"nobody","requestId":"r","outcome":{"outcome":"cancelled"}}`), "7", protocol.CodeUnknownSession, ""},
		{"turn active", request("turn/start", fmt.Sprintf(`{"sessionId":"busy","input":"x","config":%s}`, config)), "7", protocol.CodeTurnActive, `"turnId":"t1"`},
		{"turn active on close", request("session/close", `{"sessionId":"busy"}`), "7", protocol.CodeTurnActive, `"turnId":"t1"`},
		{"version mismatch", request("initialize", `{"protocolVersion":3}`), "7", protocol.CodeProtocolVersionMismatch, `"supported":[2]`},
		{"turn conflict", request("turn/start", fmt.Sprintf(`{"sessionId":"busy","turnId":"t1","input":"other","config":%s}`, config)), "7", protocol.CodeTurnConflict, `"turnId":"t1"`},
		{"overloaded", request("turn/start", fmt.Sprintf(`{"input":"x","config":%s}`, config)), "7", protocol.CodeOverloaded, `"limit":2`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p.t = t
			p.send(tt.send)
			got := p.answer()
			var e protocol.Error
			if err := json.Unmarshal(jsonscan.Get([]byte(got), "error"), &e); err != nil {
				t.Fatalf("%s: %v", got, err)
			}
			if id := string(jsonscan.Get([]byte(got), "id")); id != tt.id || e.Code != tt.code || !strings.Contains(string(e.Data), tt.data) || e.Message == "" {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestErrorsInBetween: the errors that only a state of transition gives.
func TestErrorsInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, nil)
		s := wire.New(rt, wire.Options{})
		p := dial(t, s)
		p.ask("1", "turn/start", startParams(t, "slow", "t", "slow close"))
		p.events(protocol.EventTurnEnded)
		p.send(`{"jsonrpc":"2.0","id":2,"method":"session/close","params":{"sessionId":"slow"}}`)
		synctest.Wait()
		if got := p.ask("3", "turn/start", startParams(t, "slow", "t2", "x")); !strings.Contains(got, "-32005") {
			t.Errorf("want sessionClosing, got %s", got)
		}
		if got := p.answer(); got != `{"jsonrpc":"2.0","id":2,"result":{"closed":true}}` {
			t.Error(got)
		}
		p.ask("4", "turn/start", startParams(t, "s", "t", "stubborn"))
		p.events(protocol.EventMessagePartDelta)
		go s.Shutdown(context.Background())
		synctest.Wait()
		if got := p.ask("5", "turn/start", startParams(t, "s2", "t", "x")); !strings.Contains(got, "-32003") {
			t.Errorf("want shuttingDown, got %s", got)
		}
		p.events(protocol.EventSessionEnded)
		<-s.Done()
	})
}

// TestTokens: ids come back as they were written, and what a client says arrives as it was written.
func TestTokens(t *testing.T) {
	p := dial(t, newServer(t, wire.Options{}))
	for _, id := range []string{`1`, `-7`, `0`, `9007199254740993`, `123456789012345678901234567890`, `"a"`, `""`, `"\u00e9\/"`, `"é<>&"`, `"1"`} {
		got := p.ask(id, "initialize", `{"protocolVersion":2,"unknown":{"z":1,"a":[]},"client":{"name":"ünïcode <&>"}}`)
		if token := string(jsonscan.Get([]byte(got), "id")); token != id {
			t.Errorf("id %s came back as %s", id, token)
		}
		if !strings.Contains(got, `"instanceId":"instance-1"`) {
			t.Error(got)
		}
	}
	// The echo of the input shows what arrived; the tokens of turn.ended that large integers survive.
	text := `<b> & "quotes" \ é 世界 😀`
	quoted, _ := json.Marshal(text)
	p.ask("1", "turn/start", fmt.Sprintf(`{"config":{"cwd":%q,"harness":"script"},"input":[{"text":%s,"type":"text"}],"sessionId":"世界"}`, t.TempDir(), quoted))
	for _, env := range p.events(protocol.EventTurnEnded) {
		switch e := env.Event.(type) {
		case *protocol.MessagePart:
			if part, ok := e.Part.(*protocol.TextPart); ok && e.OutputIndex == 0 && part.Text != text {
				t.Errorf("the echo is %q", part.Text)
			}
		case *protocol.TurnEnded:
			if env.SessionID != "世界" || e.Tokens.Input != 1<<53+1 {
				t.Errorf("%s: %+v", env.SessionID, e.Tokens)
			}
		}
	}
}

// TestQuickAck: the answer to turn/start stands before the turn's first event, every time.
func TestQuickAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, wire.Options{})
		p := dial(t, s)
		other := dial(t, s)
		for i := range 300 {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"turn/start","params":%s}`, i, startParams(t, "s", fmt.Sprint("t", i), "say 3")))
			if first := p.next(); !strings.Contains(first, `"result"`) {
				t.Fatalf("turn %d: the first text is %s", i, first)
			}
			mine, theirs := p.events(protocol.EventTurnEnded), other.events(protocol.EventTurnEnded)
			if len(mine) != len(theirs) || mine[0].Event.EventType() != protocol.EventTurnStarted {
				t.Fatalf("turn %d: %d events here, %d there", i, len(mine), len(theirs))
			}
		}
	})
}

// TestDeduplicated: the same turn again runs nothing.
func TestDeduplicated(t *testing.T) {
	p := dial(t, newServer(t, wire.Options{}))
	params := startParams(t, "s", "t", "say 1")
	p.ask("1", "turn/start", params)
	p.events(protocol.EventTurnEnded)
	if got := p.ask("2", "turn/start", params); !strings.Contains(got, `"deduplicated":true`) {
		t.Error(got)
	}
}

// TestStray: notifications and responses of a client are ignored, and so are binary or blank texts.
func TestStray(t *testing.T) {
	p := dial(t, newServer(t, wire.Options{}))
	p.send(`{"jsonrpc":"2.0","method":"initialized"}`)
	p.send(`{"jsonrpc":"2.0","id":3,"result":{}}`)
	p.send(`{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"x"}}`)
	if got := p.ask("4", "session/list", `{}`); got != `{"jsonrpc":"2.0","id":4,"result":{"sessions":[]}}` {
		t.Error(got)
	}
}

// TestPanic: a panic in a driver reaches the client as an error without a stack, a secret or the end of the connection.
func TestPanic(t *testing.T) {
	p := dial(t, newServer(t, wire.Options{}))
	p.ask("1", "turn/start", startParams(t, "s", "t", "panic"))
	events := p.events(protocol.EventTurnEnded)
	ended := events[len(events)-1].Event.(*protocol.TurnEnded)
	if ended.StopReason != protocol.StopError || strings.Contains(ended.Error.Message, "hunter2") || strings.Contains(ended.Error.Message, "goroutine") {
		t.Errorf("%+v %+v", ended, ended.Error)
	}
	p.ask("2", "session/list", `{}`)
}

// TestPermission: a request is answered once, the second answer is not accepted.
func TestPermission(t *testing.T) {
	p := dial(t, newServer(t, wire.Options{}))
	p.ask("1", "turn/start", startParams(t, "s", "t", "ask"))
	events := p.events(protocol.EventPermissionRequest)
	id := events[len(events)-1].Event.(*protocol.PermissionRequested).RequestID
	params := fmt.Sprintf(`{"sessionId":"s","requestId":%q,"outcome":{"outcome":"selected","optionId":"allow"}}`, id)
	if got := p.ask("2", "permission/respond", params); !strings.Contains(got, `"accepted":true`) {
		t.Error(got)
	}
	if got := p.ask("3", "permission/respond", params); !strings.Contains(got, `"accepted":false`) {
		t.Error(got)
	}
}

// TestSteerAndCancel: both verbs act on the running turn.
func TestSteerAndCancel(t *testing.T) {
	p := dial(t, newServer(t, wire.Options{}))
	p.ask("1", "turn/start", startParams(t, "s", "t", "hang"))
	p.events(protocol.EventMessagePartDelta)
	if got := p.ask("2", "turn/steer", `{"sessionId":"s","turnId":"t","input":"more"}`); !strings.Contains(got, `"accepted":true`) {
		t.Error(got)
	}
	if got := p.ask("3", "turn/cancel", `{"sessionId":"s","turnId":"other"}`); !strings.Contains(got, `"no_active_turn"`) {
		t.Error(got)
	}
	p.send(`{"jsonrpc":"2.0","id":4,"method":"turn/cancel","params":{"sessionId":"s","turnId":"t"}}`)
	events := p.events(protocol.EventTurnEnded)
	if ended := events[len(events)-1].Event.(*protocol.TurnEnded); ended.StopReason != protocol.StopCancelled {
		t.Errorf("%+v", ended)
	}
}

// TestSubscribe: a connection gets what it asked for, and everything again when it asks for that.
func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, wire.Options{})
		p := dial(t, s)
		run := func(session, turn string) {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"turn/start","params":%s}`, startParams(t, session, turn, "say 1")))
			synctest.Wait()
		}
		if got := p.ask("1", "events/subscribe", `{"sessionIds":["b"]}`); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Error(got)
		}
		run("a", "t1")
		run("b", "t1")
		for _, env := range p.events(protocol.EventTurnEnded) {
			if env.SessionID != "b" {
				t.Errorf("got an event of %s", env.SessionID)
			}
		}
		p.ask("1", "events/subscribe", `{"sessionIds":null}`)
		run("a", "t2")
		if events := p.events(protocol.EventTurnEnded); events[0].SessionID != "a" {
			t.Errorf("got %v", events[0])
		}
	})
}

// TestReplay: pages by number and by size, the same bytes as the live events.
func TestReplay(t *testing.T) {
	p := dial(t, newServer(t, wire.Options{}))
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"turn/start","params":%s}`, startParams(t, "s", "t", "say 50")))
	var live []string
	for {
		text := p.next()
		if params := jsonscan.Get([]byte(text), "params"); params != nil {
			live = append(live, string(params))
		}
		if strings.Contains(text, `"turn.ended"`) {
			break
		}
	}
	var replayed []string
	for from := 1; from <= len(live); {
		got := p.ask("2", "events/replay", fmt.Sprintf(`{"sessionId":"s","fromSeq":%d,"limit":7}`, from))
		var page struct {
			Result struct {
				Events                       []json.RawMessage
				FirstAvailableSeq, LatestSeq uint64
			}
		}
		if err := json.Unmarshal([]byte(got), &page); err != nil {
			t.Fatal(err)
		}
		if n := len(page.Result.Events); n == 0 || n > 7 || page.Result.FirstAvailableSeq != 1 || page.Result.LatestSeq != uint64(len(live)) {
			t.Fatal(got)
		}
		for _, e := range page.Result.Events {
			replayed = append(replayed, string(e))
		}
		from += len(page.Result.Events)
	}
	if got, want := strings.Join(replayed, "\n"), strings.Join(live, "\n"); got != want {
		t.Errorf("replayed\n%s\nlive\n%s", got, want)
	}
	past := p.ask("3", "events/replay", `{"sessionId":"s","fromSeq":9999}`)
	if !strings.Contains(past, `"events":[]`) {
		t.Error(past)
	}
}

// TestReplayBySize: a page that was limited in events is also limited in bytes, and never empty; one that was not is whole.
func TestReplayBySize(t *testing.T) {
	p := dial(t, newServer(t, wire.Options{}))
	big := strings.Repeat("x", 3<<20)
	for i := range 3 {
		p.ask("1", "turn/start", startParams(t, "s", fmt.Sprint("t", i), big))
		p.events(protocol.EventTurnEnded)
	}
	whole := p.ask("2", "events/replay", `{"sessionId":"s","fromSeq":1}`)
	limited := p.ask("3", "events/replay", `{"sessionId":"s","fromSeq":1,"limit":1000}`)
	if len(whole) < 9<<20 || len(limited) < 3<<20 || len(limited) > 5<<20 {
		t.Errorf("whole %d bytes, limited %d", len(whole), len(limited))
	}
}

// TestSnapshotsUnread: snapshots that nobody reads are not made, so that a connection holds a few of them and not all that it asked for.
func TestSnapshotsUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, wire.Options{})
		ours, theirs := net.Pipe() // which holds nothing by itself
		p, other := &peer{t: t, pipe: transport.NewLines(ours, transport.PipeOptions{}), served: make(chan error, 1)}, dial(t, s)
		go func() { p.served <- s.ServeStream(context.Background(), theirs) }()
		defer p.pipe.Close(transport.CloseNormal, "")
		p.ask("0", "events/subscribe", `{"sessionIds":[]}`)
		other.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"turn/start","params":%s}`, startParams(t, "s", "t1", strings.Repeat("x", 5<<20))))
		other.events(protocol.EventTurnEnded)
		const asked = 5
		for i := range asked {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/snapshot","params":{"sessionId":"s"}}`, i))
		}
		synctest.Wait()
		other.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"turn/start","params":%s}`, startParams(t, "s", "t2", "say 1")))
		later := other.events(protocol.EventTurnEnded)
		latest := fmt.Sprint(later[len(later)-1].Seq)
		early := 0
		for range asked {
			if got := string(jsonscan.Get(jsonscan.Get([]byte(p.answer()), "result"), "seq")); got != latest {
				early++
			}
		}
		if early > 3 {
			t.Errorf("%d of %d snapshots were made before anybody read", early, asked)
		}
	})
}

// TestShutdownRequest: the request is answered, the turn's end is delivered, and the connection ends with 1001.
func TestShutdownRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, wire.Options{})
		p := dial(t, s)
		p.ask("1", "turn/start", startParams(t, "s", "t", "hang"))
		p.events(protocol.EventMessagePartDelta)
		p.send(`{"jsonrpc":"2.0","id":2,"method":"shutdown"}`)
		if got := p.answer(); got != `{"jsonrpc":"2.0","id":2,"result":{}}` {
			t.Error(got)
		}
		if events := p.events(protocol.EventSessionEnded); events[len(events)-1].Event.(*protocol.SessionEnded).Reason != protocol.EndShutdown {
			t.Errorf("%+v", events)
		}
		_, err := p.pipe.Read(context.Background())
		if code := transport.CodeOf(err); code != transport.CloseGoingAway {
			t.Errorf("closed with %v", err)
		}
		<-s.Done()
		if err := <-p.served; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
}

// TestStalled: a connection that takes nothing is closed in the end, costs the others nothing, and does not keep the server from closing.
func TestStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, wire.Options{})
		stalled, p := dial(t, s), dial(t, s)
		_ = stalled // reads nothing
		began := time.Now()
		for i := range 5 {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"turn/start","params":%s}`, startParams(t, "s", fmt.Sprint("t", i), "say 500")))
			p.events(protocol.EventTurnEnded)
		}
		if d := time.Since(began); d > 0 {
			t.Errorf("the other connection was delayed by %v", d)
		}
		s.Close()
		if err := <-stalled.served; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
}

// TestClosedServer: what comes after the end is refused.
func TestClosedServer(t *testing.T) {
	s := newServer(t, wire.Options{})
	s.Close()
	p := dial(t, s)
	if err := <-p.served; !errors.Is(err, wire.ErrServerClosed) {
		t.Errorf("got %v", err)
	}
}
