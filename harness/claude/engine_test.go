package claude_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentserver/engine"
	"agentserver/engine/eventlog"
	"agentserver/harness"
	"agentserver/protocol"
)

// A host is a runtime with the real CLI.
type host struct {
	*rig
	rt  *engine.Runtime
	f   *eventlog.Follower
	log []protocol.Event
}

func newHost(t *testing.T, cli harness.Executable) *host {
	r := newRig(t, cli)
	registry, err := harness.NewRegistry(r.h)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := engine.New(engine.Options{Registry: registry, BaseEnv: r.spec.Env, CancelGrace: patience, InterruptTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	h := &host{rig: r, rt: rt, f: rt.Follow()}
	t.Cleanup(func() {
		h.f.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := rt.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if pids := descendants(t, r); len(pids) > 0 {
			t.Errorf("processes %v remain after Shutdown", pids)
		}
	})
	return h
}

func (h *host) start(text string) protocol.TurnID {
	h.t.Helper()
	ack, err := h.rt.StartTurn(h.t.Context(), protocol.TurnStartParams{SessionID: "s", Input: protocol.Text(text), Config: h.spec.Config})
	if err != nil {
		h.t.Fatal(err)
	}
	return ack.TurnID
}

// until follows the log until an event matches, answers permissions, and returns all events since the last call.
func (h *host) follow(what string, match func(protocol.Event) bool) []protocol.Event {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	var seen []protocol.Event
	for {
		for len(h.log) > 0 {
			e := h.log[0]
			h.log = h.log[1:]
			seen = append(seen, e)
			if ask, ok := e.(*protocol.PermissionRequested); ok {
				p := protocol.PermissionRespondParams{SessionID: "s", RequestID: ask.RequestID, Outcome: protocol.Selected(protocol.OptionIDAllowAlways)}
				if _, err := h.rt.Respond(ctx, p); err != nil {
					h.t.Error(err)
				}
			}
			if match(e) {
				return seen
			}
		}
		batch, err := h.f.Next(ctx)
		if err != nil {
			h.t.Fatalf("waiting for %s: %v; seen %v", what, err, types(seen))
		}
		for _, entry := range batch.Entries {
			h.log = append(h.log, entry.Event())
		}
	}
}

func types(events []protocol.Event) []string {
	var ts []string
	for _, e := range events {
		ts = append(ts, string(e.EventType()))
	}
	return ts
}

// ended follows until a turn has ended.
func (h *host) ended(turn protocol.TurnID) ([]protocol.Event, *protocol.TurnEnded) {
	h.t.Helper()
	events := h.follow("the turn's end", func(e protocol.Event) bool {
		end, ok := e.(*protocol.TurnEnded)
		return ok && end.TurnID == turn
	})
	return events, events[len(events)-1].(*protocol.TurnEnded)
}

func (h *host) run(text string) ([]protocol.Event, *protocol.TurnEnded) {
	h.t.Helper()
	return h.ended(h.start(text))
}

func (h *host) cancel(turn protocol.TurnID) {
	h.t.Helper()
	res, err := h.rt.Cancel(h.t.Context(), protocol.TurnCancelParams{SessionID: "s", TurnID: turn})
	if err != nil || res.Outcome != protocol.CancelConfirmed {
		h.t.Errorf("cancel: %+v, %v", res, err)
	}
}

func finalText(events []protocol.Event) string {
	var b strings.Builder
	for _, e := range events {
		if p, ok := e.(*protocol.MessagePart); ok {
			if text, ok := p.Part.(*protocol.TextPart); ok && text.State == protocol.PartDone {
				b.WriteString(text.Text)
			}
		}
	}
	return b.String()
}

// TestThroughEngine runs what depends on both sides: standing rules, cancels right after the ack, a crash and a change of configuration that are
// healed by resuming, and a turn of the agent's own.
func TestThroughEngine(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		h := newHost(t, cli)
		stop := func(end *protocol.TurnEnded, want protocol.StopReason) {
			t.Helper()
			if end.StopReason != want {
				t.Fatalf("stop reason %s (%+v), want %s", end.StopReason, end.Error, want)
			}
		}

		events, end := h.run("SAY hello")
		stop(end, protocol.StopEndTurn)
		if text := finalText(events); text != "SAY hello"+"hello" {
			t.Errorf("echo and answer %q", text)
		}

		// The first call is asked for, the second is answered by the standing rule.
		events, end = h.run("TOOL bash touch one\nTOOL bash touch two")
		stop(end, protocol.StopEndTurn)
		asked := 0
		for _, e := range events {
			if _, ok := e.(*protocol.PermissionRequested); ok {
				asked++
			}
		}
		if _, err := os.Stat(filepath.Join(h.spec.Config.Cwd, "two")); asked != 1 || err != nil {
			t.Errorf("asked %d times; %v", asked, err)
		}

		turn := h.start("HANG")
		h.cancel(turn)
		_, end = h.ended(turn)
		stop(end, protocol.StopCancelled)

		turn = h.start("SAY one\nGATE never")
		h.follow("text", func(e protocol.Event) bool { _, ok := e.(*protocol.MessagePartDelta); return ok })
		h.cancel(turn)
		_, end = h.ended(turn)
		stop(end, protocol.StopCancelled)

		// Killed in the middle: the turn says so, the next one goes on with the conversation.
		turn = h.start("SAY two\nGATE never2")
		h.follow("text", func(e protocol.Event) bool { _, ok := e.(*protocol.MessagePartDelta); return ok })
		for _, pid := range descendants(t, h.rig) {
			n, _ := strconv.Atoi(pid)
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
		start := time.Now()
		_, end = h.ended(turn)
		stop(end, protocol.StopError)
		if end.Error.Category != protocol.CategoryProcessExit || time.Since(start) > 3*time.Second {
			t.Errorf("after %v: %+v", time.Since(start), end.Error)
		}
		events, end = h.run("SAY healed")
		stop(end, protocol.StopEndTurn)
		if !strings.Contains(finalText(events), "healed") || !strings.Contains(h.lastBody(), "SAY hello") {
			t.Error("the session was not resumed after the crash")
		}

		h.spec.Config.PermissionMode = protocol.ModeAcceptEdits
		h.spec.Config.ThinkingLevel = protocol.ThinkingLow
		_, end = h.run("SAY reconfigured")
		stop(end, protocol.StopEndTurn)
		if body := h.lastBody(); !strings.Contains(body, "SAY healed") || !strings.Contains(body, `"effort":"low"`) {
			t.Error("the session was not resumed with its new configuration")
		}

		_, end = h.run("TASK TOOL bash echo begin && sleep 1 && echo bgdone BG")
		stop(end, protocol.StopEndTurn)
		own := map[protocol.TurnID]bool{}
		var agentDone, ownEnded bool
		h.follow("the agent's own turn and its work", func(e protocol.Event) bool {
			switch e := e.(type) {
			case *protocol.TurnStarted:
				if e.Meta.GetString(protocol.MetaOrigin) != "agent" {
					t.Errorf("turn.started without an origin: %+v", e)
				}
				own[e.TurnID] = true
			case *protocol.TurnEnded:
				ownEnded = own[e.TurnID]
			case *protocol.MessagePart:
				if p, ok := e.Part.(*protocol.ToolPart); ok && p.ToolName == "Agent" {
					agentDone = p.State.Status() == protocol.ToolStatusCompleted
				}
			}
			return agentDone && ownEnded
		})
	})
}

func (r *rig) lastBody() string {
	calls := r.model.Calls()
	return string(calls[len(calls)-1].Body)
}
