package codex_test

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"

	"agentserver/engine"
	"agentserver/engine/eventlog"
	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/streamcheck"
)

// A host is a runtime with the real codex.
type host struct {
	*rig
	rt   *engine.Runtime
	f    *eventlog.Follower
	log  []protocol.Envelope // all of it
	seen int                 // how much of it was looked at
}

func newHost(t *testing.T, r *rig) *host {
	registry, err := harness.NewRegistry(r.make(r.opts))
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
		if pids := processes(t, "", r.home); len(pids) > 0 {
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

// follow returns the events since the last call, up to one that matches. It allows what is asked, for always.
func (h *host) follow(what string, match func(protocol.Event) bool) []protocol.Event {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	var events []protocol.Event
	for {
		for h.seen < len(h.log) {
			e := h.log[h.seen].Event
			h.seen++
			events = append(events, e)
			if ask, ok := e.(*protocol.PermissionRequested); ok {
				p := protocol.PermissionRespondParams{SessionID: "s", RequestID: ask.RequestID, Outcome: protocol.Selected(protocol.OptionIDAllowAlways)}
				if _, err := h.rt.Respond(ctx, p); err != nil {
					h.t.Error(err)
				}
			}
			if match(e) {
				return events
			}
		}
		batch, err := h.f.Next(ctx)
		if err != nil {
			h.t.Fatalf("waiting for %s: %v", what, err)
		}
		for _, entry := range batch.Entries {
			h.log = append(h.log, entry.Envelope())
		}
	}
}

func (h *host) ended(turn protocol.TurnID, stop protocol.StopReason) ([]protocol.Event, *protocol.TurnEnded) {
	h.t.Helper()
	events := h.follow("the turn's end", func(e protocol.Event) bool {
		end, ok := e.(*protocol.TurnEnded)
		return ok && end.TurnID == turn
	})
	end := events[len(events)-1].(*protocol.TurnEnded)
	if end.StopReason != stop {
		h.t.Fatalf("stop reason %s (%+v), want %s", end.StopReason, end.Error, stop)
	}
	return events, end
}

// check holds the whole stream to the contract.
func (h *host) check() {
	h.t.Helper()
	for _, v := range streamcheck.Check(func(yield func(protocol.Envelope, error) bool) {
		for _, e := range h.log {
			if !yield(e, nil) {
				return
			}
		}
	}) {
		h.t.Error(v)
	}
}

func isDelta(e protocol.Event) bool { _, ok := e.(*protocol.MessagePartDelta); return ok }

// TestRealThroughEngine runs what depends on both sides: standing rules, cancels, a crash and a change of configuration that are healed by
// resuming, work in the background, a sub-agent.
func TestRealThroughEngine(t *testing.T) {
	h := newHost(t, newRig(t))
	h.ended(h.start("THINK SAY hello"), protocol.StopEndTurn)

	events, _ := h.ended(h.start("SHELLESC touch one\nSHELLESC touch two"), protocol.StopEndTurn)
	asked := 0
	for _, e := range events {
		if _, ok := e.(*protocol.PermissionRequested); ok {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times, want once: the second is answered by the standing rule", asked)
	}

	for _, script := range []string{"HANG", "HANG some text", "SHELL sleep 7966"} {
		turn := h.start(script)
		if script != "HANG" {
			h.follow("something", func(e protocol.Event) bool {
				part, ok := e.(*protocol.MessagePart)
				if !ok {
					return isDelta(e)
				}
				_, tool := part.Part.(*protocol.ToolPart)
				return tool
			})
		}
		if res, err := h.rt.Cancel(t.Context(), protocol.TurnCancelParams{SessionID: "s", TurnID: turn}); err != nil || res.Outcome != protocol.CancelConfirmed {
			t.Errorf("cancel: %+v, %v", res, err)
		}
		h.ended(turn, protocol.StopCancelled)
	}

	turn := h.start("HANG two")
	h.follow("text", isDelta)
	for _, pid := range processes(t, "app-server", h.home) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if _, end := h.ended(turn, protocol.StopError); end.Error.Category != protocol.CategoryProcessExit {
		t.Errorf("%+v", end.Error)
	}
	h.ended(h.start("SAY healed"), protocol.StopEndTurn)
	h.spec.Config.PermissionMode = protocol.ModeBypassPermissions
	h.spec.Config.SystemPromptAppend = "Speak like a sailor."
	h.ended(h.start("SAY reconfigured"), protocol.StopEndTurn)
	calls := h.model.Calls()
	for _, want := range []string{"SAY healed", "SAY hello", "sailor"} {
		if !strings.Contains(string(calls[len(calls)-1].Body), want) {
			t.Errorf("the session was not resumed with its new configuration: %q is missing", want)
		}
	}

	from := len(h.log)
	h.ended(h.start(`TOOL exec_command {"cmd":"echo start; sleep 1; echo end","yield_time_ms":300}`), protocol.StopEndTurn)
	h.ended(h.start("SAY meanwhile"), protocol.StopEndTurn)
	finished := func(e protocol.Event) bool {
		part, ok := e.(*protocol.MessagePart)
		if !ok {
			return false
		}
		tool, ok := part.Part.(*protocol.ToolPart)
		return ok && tool.State.Status() == protocol.ToolStatusCompleted && strings.Contains(tool.State.(*protocol.ToolCompleted).Output, "end")
	}
	if !slices.ContainsFunc(h.log[from:h.seen], func(e protocol.Envelope) bool { return finished(e.Event) }) { // a busy machine may have been slow
		h.follow("the command's end", finished)
	}

	h.spec.Config.Model = "gpt-5.6-sol"
	h.ended(h.start("TOOL collaboration::spawn_agent "+`{"task_name":"helper","message":"SAY from the sub agent"}`), protocol.StopEndTurn)
	h.ended(h.start("SHELL sleep 1"), protocol.StopEndTurn) // time for the sub-agent
	h.check()
}

func TestRealExecThroughEngine(t *testing.T) {
	h := newHost(t, newExecRig(t))
	h.ended(h.start("THINK SAY hello"), protocol.StopEndTurn)
	h.ended(h.start("SHELL echo x; sleep 0.3\nSAY done"), protocol.StopEndTurn)
	turn := h.start("SHELL sleep 7967")
	if _, err := h.rt.Cancel(t.Context(), protocol.TurnCancelParams{SessionID: "s", TurnID: turn}); err != nil {
		t.Error(err)
	}
	h.ended(turn, protocol.StopCancelled)
	h.spec.Config.ThinkingLevel = protocol.ThinkingLow
	h.ended(h.start("SAY again"), protocol.StopEndTurn)
	h.ended(h.start("ERR 401"), protocol.StopError)
	h.check()
}
