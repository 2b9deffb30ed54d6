package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentserver/engine"
	"agentserver/engine/acp"
	"agentserver/harness"
	"agentserver/harness/mock"
	"agentserver/internal/transport"
	"agentserver/protocol"
)

// serveVariable makes this test binary serve the mock harness on its standard streams.
const serveVariable = "ACP_TEST_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		rt, err := newRuntime()
		if err == nil {
			err = acp.Serve(context.Background(), rt, mock.ID, transport.Stdio(os.Stdin, os.Stdout))
			_ = rt.Shutdown(context.Background())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func newRuntime() (*engine.Runtime, error) {
	registry, err := harness.NewRegistry(mock.New())
	if err != nil {
		return nil, err
	}
	return engine.New(engine.Options{Registry: registry})
}

const patience = 20 * time.Second

// An editor is a client of the server under test.
type editor struct {
	t      *testing.T
	rt     *engine.Runtime
	conn   *transport.Conn
	served chan error

	mu      sync.Mutex
	updates []map[string]any
	asked   []map[string]any
	answer  string        // the option that permissions are answered with; empty: not at all
	changed chan struct{} // has a token when an update came
}

func newEditor(t *testing.T) *editor {
	rt, err := newRuntime()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	e := &editor{t: t, rt: rt, served: make(chan error, 1), changed: make(chan struct{}, 1), answer: protocol.OptionIDAllow}
	go func() { e.served <- acp.Serve(context.Background(), rt, mock.ID, theirs) }()
	e.conn = transport.NewConn(context.Background(), transport.NewLines(ours, transport.PipeOptions{}), transport.Options{
		Notify: func(n *transport.Notification) {
			var p struct{ Update map[string]any }
			_ = json.Unmarshal(n.Params, &p)
			e.mu.Lock()
			e.updates = append(e.updates, p.Update)
			e.mu.Unlock()
			select {
			case e.changed <- struct{}{}:
			default:
			}
		},
		Handle: func(_ context.Context, r *transport.Request) (any, error) {
			var p map[string]any
			_ = json.Unmarshal(r.Params, &p)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.asked = append(e.asked, p)
			select {
			case e.changed <- struct{}{}:
			default:
			}
			if e.answer == "" {
				return r.Later()
			}
			return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": e.answer}}, nil
		},
	})
	t.Cleanup(func() {
		e.leave()
		_ = rt.Shutdown(context.Background())
	})
	return e
}

func (e *editor) leave() {
	_ = e.conn.Close(transport.CloseNormal, "")
	if err := <-e.served; err != nil {
		e.t.Errorf("Serve: %v", err)
	}
	e.served <- nil
}

func (e *editor) try(method string, params, result any) error {
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	raw, err := e.conn.Call(ctx, method, params)
	if err == nil && result != nil {
		err = json.Unmarshal(raw, result)
	}
	return err
}

func (e *editor) call(method string, params, result any) {
	e.t.Helper()
	if err := e.try(method, params, result); err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
}

func (e *editor) session() string {
	e.t.Helper()
	var r struct{ SessionID string }
	e.call("session/new", map[string]any{"cwd": e.t.TempDir(), "mcpServers": []any{}}, &r)
	return r.SessionID
}

func (e *editor) prompt(session, text string) (stop string, err error) {
	var r struct{ StopReason string }
	err = e.try("session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": text}}}, &r)
	return r.StopReason, err
}

// took returns the updates so far, and forgets them.
func (e *editor) took() []map[string]any {
	e.mu.Lock()
	defer e.mu.Unlock()
	u := e.updates
	e.updates = nil
	return u
}

// text joins the chunks of a kind.
func text(updates []map[string]any, kind string) string {
	var b strings.Builder
	for _, u := range updates {
		if u["sessionUpdate"] == kind {
			b.WriteString(u["content"].(map[string]any)["text"].(string))
		}
	}
	return b.String()
}

func wantCode(t *testing.T, err error, code int64) {
	t.Helper()
	if e, ok := errors.AsType[*transport.Error](err); !ok || e.Code != code {
		t.Errorf("error %v, want code %d", err, code)
	}
}

func TestServe(t *testing.T) {
	e := newEditor(t)
	var init struct {
		ProtocolVersion   int
		AgentCapabilities struct {
			LoadSession         bool
			SessionCapabilities map[string]any
		}
	}
	e.call("initialize", map[string]any{"protocolVersion": 1}, &init)
	if init.ProtocolVersion != 1 || !init.AgentCapabilities.LoadSession || init.AgentCapabilities.SessionCapabilities["resume"] == nil {
		t.Errorf("initialize: %+v", init)
	}
	id := e.session()
	stop, err := e.prompt(id, "think hm\nsay hello there\ntool ls {\"path\":\"/x\"} -> a file\ntool bad {} ! broken\ntool TodoWrite {\"todos\":[{\"content\":\"one\",\"status\":\"pending\"}]}\nusage 20 100")
	if err != nil || stop != "end_turn" {
		t.Fatalf("prompt: %q, %v", stop, err)
	}
	updates := e.took()
	if got, thought := text(updates, "agent_message_chunk"), text(updates, "agent_thought_chunk"); got != "hello there" || thought != "hm" {
		t.Errorf("text %q, thought %q", got, thought)
	}
	var last map[string]any
	kinds := map[string]int{}
	for _, u := range updates {
		kinds[u["sessionUpdate"].(string)]++
		if u["name"] == "ls" {
			last = u
		}
	}
	if kinds["tool_call"] != 2 || kinds["plan"] == 0 || kinds["usage_update"] == 0 || kinds["user_message_chunk"] != 0 {
		t.Errorf("updates %v", kinds)
	}
	if data, _ := json.Marshal(last); last["status"] != "completed" || !strings.Contains(string(data), "a file") || !strings.Contains(string(data), `"rawInput":{"path":"/x"}`) {
		t.Errorf("tool %s", data)
	}
	if stop, err = e.prompt(id, "stop max_tokens"); stop != "max_tokens" {
		t.Errorf("stop %q, %v", stop, err)
	}
	_, err = e.prompt(id, "fail auth no key")
	wantCode(t, err, -32000)
	_, err = e.prompt(id, "fail network gone")
	wantCode(t, err, -32603)
}

func TestServePermissions(t *testing.T) {
	e := newEditor(t)
	id := e.session()
	if stop, err := e.prompt(id, `ask rm {"path":"/x"} -> gone`); err != nil || stop != "end_turn" {
		t.Fatalf("%q, %v", stop, err)
	}
	if len(e.asked) != 1 || len(e.asked[0]["options"].([]any)) != 4 || e.asked[0]["toolCall"].(map[string]any)["toolCallId"] == "" {
		t.Errorf("asked %v", e.asked)
	}
	statuses := func() (all []string) {
		for _, u := range e.took() {
			if s, ok := u["status"].(string); ok {
				all = append(all, s)
			}
		}
		return all
	}
	if got := statuses(); got[len(got)-1] != "completed" {
		t.Errorf("statuses %v", got)
	}
	for _, answer := range []string{protocol.OptionIDReject, "made up"} {
		e.answer = answer
		_, _ = e.prompt(id, `ask rm {"path":"/x"} -> gone`)
		if got := statuses(); slices.Contains(got, "completed") {
			t.Errorf("%s: statuses %v", answer, got)
		}
	}
	// A mode that allows everything.
	e.answer = ""
	e.call("session/set_mode", map[string]any{"sessionId": id, "modeId": "bypass_permissions"}, nil)
	if stop, err := e.prompt(id, `ask rm {"path":"/x"} -> gone`); err != nil || stop != "end_turn" {
		t.Fatalf("%q, %v", stop, err)
	}
	wantCode(t, e.try("session/set_mode", map[string]any{"sessionId": id, "modeId": "yolo"}, nil), -32602)
	var r struct{ ConfigOptions []map[string]any }
	e.call("session/set_config_option", map[string]any{"sessionId": id, "configId": "mode", "value": "default"}, &r)
	if len(r.ConfigOptions) == 0 || r.ConfigOptions[0]["currentValue"] != "default" {
		t.Errorf("options %v", r.ConfigOptions)
	}
}

func TestServeCancel(t *testing.T) {
	e := newEditor(t)
	e.answer = ""
	id := e.session()
	for _, script := range []string{"say x\nhang", `ask rm {}`} {
		done := make(chan string, 1)
		go func() {
			stop, err := e.prompt(id, script)
			done <- fmt.Sprint(stop, err)
		}()
		<-e.changed
		if _, err := e.prompt(id, "say y"); err == nil {
			t.Error("two prompts at once")
		}
		if err := e.conn.Notify(t.Context(), "session/cancel", map[string]any{"sessionId": id}); err != nil {
			t.Fatal(err)
		}
		if got := <-done; got != "cancelled<nil>" {
			t.Errorf("%s: %s", script, got)
		}
		for len(e.changed) > 0 {
			<-e.changed
		}
	}
	// A cancel right behind its prompt stops that.
	done := make(chan json.RawMessage, 1)
	if err := e.conn.Start(t.Context(), "session/prompt", map[string]any{"sessionId": id, "prompt": []any{map[string]any{"type": "text", "text": "hang"}}},
		func(raw json.RawMessage, _ error) { done <- raw }); err != nil {
		t.Fatal(err)
	}
	if err := e.conn.Notify(t.Context(), "session/cancel", map[string]any{"sessionId": id}); err != nil {
		t.Fatal(err)
	}
	if got := string(<-done); !strings.Contains(got, "cancelled") {
		t.Errorf("answer %s", got)
	}
}

func TestServeLoad(t *testing.T) {
	e := newEditor(t)
	id := e.session()
	if _, err := e.prompt(id, "say first\ntool ls {} -> out"); err != nil {
		t.Fatal(err)
	}
	e.took()
	where := map[string]any{"sessionId": id, "cwd": t.TempDir(), "mcpServers": []any{}}
	e.call("session/load", where, nil)
	updates := e.took()
	if got, asked := text(updates, "agent_message_chunk"), text(updates, "user_message_chunk"); got != "first" || asked != "say first\ntool ls {} -> out" {
		t.Errorf("replayed %q, %q", asked, got)
	}
	e.call("session/resume", where, nil)
	if updates := e.took(); len(updates) != 0 {
		t.Errorf("resume replayed %v", updates)
	}
	if stop, err := e.prompt(id, "recall"); err != nil || stop != "end_turn" || !strings.Contains(text(e.took(), "agent_message_chunk"), "say first") {
		t.Errorf("after load: %q, %v", stop, err)
	}
	wantCode(t, e.try("session/load", map[string]any{"sessionId": "nope", "cwd": t.TempDir(), "mcpServers": []any{}}, nil), -32002)
	e.call("session/close", map[string]any{"sessionId": id}, nil)
	_, err := e.prompt(id, "say x")
	wantCode(t, err, -32002)
}

func TestServeRefuses(t *testing.T) {
	e := newEditor(t)
	wantCode(t, e.try("session/new", map[string]any{"cwd": "relative", "mcpServers": []any{}}, nil), -32602)
	wantCode(t, e.try("session/new", map[string]any{"cwd": "/no/such/folder", "mcpServers": []any{}}, nil), -32602)
	wantCode(t, e.try("session/new", []any{1}, nil), -32602)
	wantCode(t, e.try("vendor/thing", nil, nil), -32601)
	_, err := e.prompt("nope", "x")
	wantCode(t, err, -32002)
	id := e.session()
	wantCode(t, e.try("session/prompt", map[string]any{"sessionId": id, "prompt": []any{}}, nil), -32602)
	wantCode(t, e.try("session/prompt", map[string]any{"sessionId": id, "prompt": []any{map[string]any{"type": "smell"}}}, nil), -32602)
	if err := acp.Serve(t.Context(), e.rt, "nobody", nil); err == nil {
		t.Error("an unknown harness is served")
	}
}

// An editor that goes away ends its sessions.
func TestServeLeave(t *testing.T) {
	e := newEditor(t)
	id := e.session()
	go func() { _, _ = e.prompt(id, "say x\nhang") }()
	<-e.changed
	e.leave()
	list, err := e.rt.List(t.Context())
	if err != nil || len(list.Sessions) != 0 {
		t.Errorf("sessions %+v, %v", list.Sessions, err)
	}
}
