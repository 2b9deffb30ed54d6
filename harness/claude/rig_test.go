package claude_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/harness/claude"
	"agentserver/internal/fakemodel"
	"agentserver/protocol"
	"agentserver/provision"
	"agentserver/provision/provisiontest"
)

// patience bounds every wait of these tests; a healthy CLI takes milliseconds.
const patience = 30 * time.Second

// onEachVersion runs a test with the pinned CLI and with the oldest one that is supported.
func onEachVersion(t *testing.T, test func(t *testing.T, cli harness.Executable)) {
	t.Parallel()
	t.Run("pinned", func(t *testing.T) {
		t.Parallel()
		test(t, executable(provisiontest.CLI(t, provision.Claude)))
	})
	t.Run("oldest", func(t *testing.T) {
		t.Parallel()
		test(t, executable(provisiontest.CLIWithPins(t, provision.Claude, provisiontest.OldestClaude(t))))
	})
}

func executable(exe provision.Executable) harness.Executable {
	return harness.Executable{Path: exe.Path, Version: exe.Version}
}

// A rig is a session of the real CLI that talks to a scripted model.
type rig struct {
	t     *testing.T
	model *fakemodel.Server
	h     harness.Harness
	spec  harness.Spec
	s     harness.Session
	// onPermission answers requests; nil allows.
	onPermission func(harness.Permission) harness.Decision
	// on hears every event.
	on func(harness.Event)
}

// newRig makes a rig without starting the CLI.
func newRig(t *testing.T, cli harness.Executable) *rig {
	model, err := fakemodel.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	home := t.TempDir()
	cwd := t.TempDir()
	env := append(fakemodel.ClaudeEnv(model.URL()), "HOME="+home, "CLAUDE_CONFIG_DIR="+home+"/.claude", "TMPDIR="+home, "PATH="+os.Getenv("PATH"), "IS_SANDBOX=1",
		"CLAUDECODE=1", "NODE_OPTIONS=--no-such-option", "SECRET_OF_TEST=hunter2-hunter2")
	return &rig{
		t: t, model: model,
		h: claude.New(claude.Options{
			Resolve: func(context.Context, func(harness.Notice)) (harness.Executable, error) { return cli, nil },
			Quiet:   500 * time.Millisecond,
		}),
		spec: harness.Spec{SessionID: "test", Env: env, Config: protocol.RunConfig{Harness: claude.ID, Cwd: cwd}},
	}
}

func (r *rig) open() *rig {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	s, err := r.h.Open(ctx, r.spec)
	if err != nil {
		r.t.Fatalf("Open: %v", err)
	}
	r.s = s
	r.t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.s.Close(ctx); err != nil {
		r.t.Errorf("Close: %v", err)
	}
}

func (r *rig) send(text string) {
	r.t.Helper()
	r.sendInput(protocol.Text(text))
}

func (r *rig) sendInput(in protocol.Input) {
	r.t.Helper()
	if err := r.s.Send(r.t.Context(), harness.Turn{ID: "turn", Input: in}); err != nil {
		r.t.Fatalf("Send: %v", err)
	}
}

// recv returns the next event, and answers permissions.
func (r *rig) recv() harness.Event {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	e, err := r.s.Recv(ctx)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		r.t.Fatalf("Recv: %v", err)
	}
	if ask, ok := e.(harness.Permission); ok {
		d := harness.Decision{Allow: true}
		if r.onPermission != nil {
			d = r.onPermission(ask)
		}
		if d.Message != "no answer" {
			if err := ask.Decide(d); err != nil {
				r.t.Errorf("Decide: %v", err)
			}
		}
	}
	if r.on != nil {
		r.on(e)
	}
	return e
}

// A result is what a turn came to.
type result struct {
	text    string // of the main agent
	thought string
	tools   []*protocol.ToolPart // the last state of each call
	end     harness.TurnEnd
	exit    *harness.Exit
	events  []harness.Event
}

func (r *rig) finish() result {
	r.t.Helper()
	var res result
	parts := map[string]*protocol.ToolPart{}
	for {
		e := r.recv()
		res.events = append(res.events, e)
		switch e := e.(type) {
		case harness.PartUpdate:
			switch p := e.Part.(type) {
			case *protocol.TextPart:
				if e.ParentToolCallID == "" {
					res.text += p.Text
				}
			case *protocol.ReasoningPart:
				res.thought += p.Text
			case *protocol.ToolPart:
				if parts[e.Key] == nil {
					parts[e.Key] = new(protocol.ToolPart)
					res.tools = append(res.tools, parts[e.Key])
				}
				*parts[e.Key] = *p
			}
		case harness.TurnEnd:
			res.end = e
			return res
		case harness.Exit:
			res.exit = &e
			return res
		case nil:
			r.t.Fatal("the stream ended in the middle of a turn")
		}
	}
}

func (r *rig) turn(text string) result {
	r.t.Helper()
	r.send(text)
	return r.finish()
}

// until receives until an event matches.
func (r *rig) until(what string, match func(harness.Event) bool) harness.Event {
	r.t.Helper()
	for {
		e := r.recv()
		if e == nil {
			r.t.Fatalf("the stream ended before %s", what)
		}
		if match(e) {
			return e
		}
	}
}

func (r *rig) interrupt() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if err := r.s.Interrupt(ctx); err != nil {
		r.t.Fatalf("Interrupt: %v", err)
	}
}

func isText(e harness.Event) bool {
	d, ok := e.(harness.Delta)
	return ok && d.Type == protocol.DeltaText
}

// toolIs matches an update of a call to the given status.
func toolIs(status protocol.ToolStatus) func(harness.Event) bool {
	return func(e harness.Event) bool {
		u, ok := e.(harness.PartUpdate)
		if !ok {
			return false
		}
		p, ok := u.Part.(*protocol.ToolPart)
		return ok && p.State.Status() == status
	}
}

func (res result) completed(t *testing.T, i int) *protocol.ToolCompleted {
	t.Helper()
	if i >= len(res.tools) {
		t.Fatalf("%d tool calls, want more than %d", len(res.tools), i)
	}
	done, ok := res.tools[i].State.(*protocol.ToolCompleted)
	if !ok {
		t.Fatalf("call %d is %#v, want it completed", i, res.tools[i].State)
	}
	return done
}

func wantEnd(t *testing.T, res result, stop protocol.StopReason) {
	t.Helper()
	if res.end.StopReason != stop {
		t.Fatalf("turn ended with %q (%v, exit %v), want %q; text %q", res.end.StopReason, res.end.Error, res.exit, stop, res.text)
	}
}

func wantError(t *testing.T, res result, category protocol.ErrorCategory, text string) {
	t.Helper()
	wantEnd(t, res, protocol.StopError)
	if res.end.Error == nil || res.end.Error.Category != category || !strings.Contains(res.end.Error.Message, text) {
		t.Errorf("error %+v, want %s with %q", res.end.Error, category, text)
	}
}

func wantText(t *testing.T, res result, part string) {
	t.Helper()
	if !strings.Contains(res.text, part) {
		t.Errorf("text %q, want it to hold %q", res.text, part)
	}
}

func input(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// eventually polls until ok, for things outside the process under test.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func mustDecode(t *testing.T, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}
