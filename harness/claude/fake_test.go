package claude_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/harness/claude"
	"agentserver/protocol"
)

// fakeVariable turns this test binary into something that speaks like the CLI, for what the real one does not do on demand.
const fakeVariable = "CLAUDE_TEST_FAKE"

// serveFake answers requests, and each user message with what mode says.
func serveFake(mode string) {
	out := bufio.NewWriter(os.Stdout)
	say := func(format string, args ...any) {
		fmt.Fprintf(out, format+"\n", args...)
		out.Flush()
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			Type      string
			RequestID string `json:"request_id"`
		}
		_ = json.Unmarshal(line, &m)
		switch m.Type {
		case "control_request":
			say(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{}}}`, m.RequestID)
		case "user":
			fakeTurn(mode, say)
		}
	}
}

func fakeTurn(mode string, say func(string, ...any)) {
	say(`{"type":"system","subtype":"init","session_id":"s","model":"m"}`)
	switch mode {
	case "flood": // about 60 MB
		say(`{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","model":"m"}}}`)
		say(`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}`)
		piece := strings.Repeat("x", 1<<20)
		for range 60 {
			say(`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}}`, piece)
		}
	case "junk":
		say("Update available! \x1b[1mclaude 3\x1b[0m")
		say("{\"type\":\"assistant\",\"message\":{\"id\":\"m1\",\"content\":[{\"type\":\"text\",\"text\":\"after junk\"}]}}\r")
		say(`{"type":"assistant","message":`)
		say(`{"type":"holiday_greeting","of":{"the":"future"}}`)
		say(`[1,2,3]`)
		say(`null`)
		say(``)
		say(`{"type":"system","subtype":"api_retry","attempt":"one"}`)
		say("{\"type\":\"assistant\",\"message\":{\"id\":\"m1\",\"content\":[{\"type\":\"text\",\"text\":\"bad \xff utf-8\"}]}}")
	case "long":
		say(`{"type":"x","y":"%s"}`, strings.Repeat("y", 100_000))
		return
	case "exit":
		fmt.Fprintln(os.Stderr, "out of cheese")
		os.Exit(7)
	case "mute": // never a result, but idle
		say(`{"type":"system","subtype":"session_state_changed","state":"idle"}`)
		return
	}
	say(`{"type":"result","subtype":"success","is_error":false,"result":"","stop_reason":"end_turn","session_id":"s"}`)
}

// newFake makes a rig with the fake CLI.
func newFake(t *testing.T, mode string, opts claude.Options) *rig {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	opts.Resolve = func(context.Context, func(harness.Notice)) (harness.Executable, error) {
		// The driver's flags are not the test binary's: a shell drops them.
		return harness.Executable{Path: "/bin/sh", Args: []string{"-c", `exec "` + self + `"`, "claude"}}, nil
	}
	r := &rig{t: t, h: claude.New(opts)}
	r.spec = harness.Spec{SessionID: "fake", Env: []string{fakeVariable + "=" + mode}, Config: protocol.RunConfig{Harness: claude.ID, Cwd: t.TempDir()}}
	return r.open()
}

// TestSlowReceiver lets the CLI write more than may be queued while nobody receives: nothing is lost, and requests are still answered.
func TestSlowReceiver(t *testing.T) {
	r := newFake(t, "flood", claude.Options{})
	r.send("go")
	spec := r.spec
	for i := range 3 {
		spec.Config.Model = fmt.Sprint("model-", i)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := r.s.Apply(ctx, spec); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	size := 0
	r.on = func(e harness.Event) {
		if d, ok := e.(harness.Delta); ok {
			size += len(d.Text)
		}
	}
	wantEnd(t, r.finish(), protocol.StopEndTurn)
	if size != 60<<20 {
		t.Errorf("%d bytes arrived, want %d", size, 60<<20)
	}
}

// TestJunk mixes lines that are no messages with those that are.
func TestJunk(t *testing.T) {
	r := newFake(t, "junk", claude.Options{})
	r.spec.Config.IncludeRaw = true
	if err := r.s.Apply(t.Context(), r.spec); err != nil {
		t.Fatal(err)
	}
	raw := 0
	r.on = func(e harness.Event) {
		if e, ok := e.(harness.Raw); ok {
			raw++
			if !json.Valid(e.Data) || bytes.Contains(e.Data, []byte("Update available")) {
				t.Errorf("raw %q", e.Data)
			}
		}
	}
	res := r.turn("go")
	wantEnd(t, res, protocol.StopEndTurn)
	wantText(t, res, "after junk")
	if raw == 0 {
		t.Error("no raw events")
	}
}

// TestLongLine ends a CLI that prints a line over the limit.
func TestLongLine(t *testing.T) {
	r := newFake(t, "long", claude.Options{MaxLine: 50_000})
	res := r.turn("go")
	if res.exit == nil || res.exit.Error == nil || !strings.Contains(res.exit.Error.Message, "50000") {
		t.Fatalf("exit %+v", res.exit)
	}
}

// TestExitMidTurn has the status and the last words of a CLI that gives up.
func TestExitMidTurn(t *testing.T) {
	r := newFake(t, "exit", claude.Options{})
	res := r.turn("go")
	if res.exit == nil || res.exit.Error == nil || !strings.Contains(res.exit.Error.Message, "status 7") || !strings.Contains(res.exit.Error.Message, "out of cheese") {
		t.Fatalf("exit %+v", res.exit)
	}
}

// TestMute ends a turn whose result never comes, when the CLI says that it is idle.
func TestMute(t *testing.T) {
	r := newFake(t, "mute", claude.Options{})
	wantEnd(t, r.turn("go"), protocol.StopEndTurn)
	wantEnd(t, r.turn("again"), protocol.StopEndTurn)
}

// TestRecvContext checks that a wait that is given up loses nothing.
func TestRecvContext(t *testing.T) {
	r := newFake(t, "plain", claude.Options{})
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := r.s.Recv(ctx); err == nil {
			t.Error("an event out of nothing")
		}
		cancel()
	}
	wantEnd(t, r.turn("go"), protocol.StopEndTurn)
}
