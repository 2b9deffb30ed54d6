package acp_test

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
	"agentserver/harness/acp"
	"agentserver/protocol"
)

// patience bounds every wait of these tests; a healthy agent takes milliseconds.
const patience = 60 * time.Second

// A rig is a session of an agent.
type rig struct {
	t    *testing.T
	opts acp.Options
	spec harness.Spec
	s    harness.Session
	// onPermission answers requests; nil allows.
	onPermission func(harness.Permission) harness.Decision
}

// scripted makes a rig of the scripted agent without starting it.
func scripted(t *testing.T, cfg agentConfig) *rig {
	t.Helper()
	config, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, acp.Options{Command: []string{exe}, Settle: 100 * time.Millisecond, LateTools: 300 * time.Millisecond, Quiet: 100 * time.Millisecond})
	r.spec.Env = append(r.spec.Env, agentVariable+"="+string(config), "TMPDIR="+t.TempDir())
	return r
}

func newRig(t *testing.T, opts acp.Options) *rig {
	return &rig{
		t: t, opts: opts,
		spec: harness.Spec{SessionID: "test", Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()},
			Config: protocol.RunConfig{Harness: "acp", Cwd: t.TempDir()}},
	}
}

func (r *rig) tryOpen() error {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	s, err := acp.New(r.opts).Open(ctx, r.spec)
	if err == nil {
		r.s = s
		r.t.Cleanup(r.close)
	}
	return err
}

func (r *rig) open() *rig {
	r.t.Helper()
	if err := r.tryOpen(); err != nil {
		r.t.Fatalf("Open: %v", err)
	}
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
	return e
}

// A result is what a turn came to.
type result struct {
	started  *harness.SessionStarted
	text     string
	thought  string
	messages int
	tools    []*protocol.ToolPart // the last state of each call
	asked    []harness.Permission
	failures []harness.Failure
	usage    *harness.Usage
	end      harness.TurnEnd
	exit     *harness.Exit
	events   []harness.Event
}

func (r *rig) finish() result {
	r.t.Helper()
	var res result
	parts := map[string]*protocol.ToolPart{}
	for {
		e := r.recv()
		res.events = append(res.events, e)
		switch e := e.(type) {
		case harness.SessionStarted:
			res.started = &e
		case harness.MessageStarted:
			res.messages++
		case harness.PartUpdate:
			switch p := e.Part.(type) {
			case *protocol.TextPart:
				res.text += p.Text
			case *protocol.ReasoningPart:
				res.thought += p.Text
			case *protocol.ToolPart:
				if parts[e.Key] == nil {
					parts[e.Key] = new(protocol.ToolPart)
					res.tools = append(res.tools, parts[e.Key])
				}
				*parts[e.Key] = *p
			}
		case harness.Permission:
			res.asked = append(res.asked, e)
		case harness.Failure:
			res.failures = append(res.failures, e)
		case harness.Usage:
			res.usage = &e
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

func (r *rig) turn(lines ...string) result {
	r.t.Helper()
	r.send(strings.Join(lines, "\n"))
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

func isTool(e harness.Event) bool {
	u, ok := e.(harness.PartUpdate)
	return ok && u.Part.PartType() == protocol.PartTool
}

func (res *result) state(t *testing.T, i int) protocol.ToolState {
	t.Helper()
	if i >= len(res.tools) {
		t.Fatalf("%d tool calls, want more than %d", len(res.tools), i)
	}
	return res.tools[i].State
}

func wantEnd(t *testing.T, res result, stop protocol.StopReason) {
	t.Helper()
	if res.end.StopReason != stop {
		t.Fatalf("turn ended with %q (%v, exit %+v), want %q; text %q", res.end.StopReason, res.end.Error, res.exit, stop, res.text)
	}
}

func wantText(t *testing.T, res result, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(res.text, part) {
			t.Errorf("text %.2000q, want it to hold %q", res.text, part)
		}
	}
}

func wantError(t *testing.T, err error, category protocol.ErrorCategory, parts ...string) {
	t.Helper()
	e, ok := errors.AsType[*harness.Error](err)
	if !ok || e.Category != category {
		t.Fatalf("error %#v, want one of category %s", err, category)
	}
	for _, part := range parts {
		if !strings.Contains(e.Message, part) {
			t.Errorf("error %q, want it to hold %q", e.Message, part)
		}
	}
}
