package mock_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/engine"
	"agentserver/harness"
	"agentserver/harness/mock"
	"agentserver/protocol"
	"agentserver/protocol/conversation"
	"agentserver/protocol/streamcheck"
)

// everything uses each verb that ends no turn.
const everything = `# a tour
think let me look\nclosely
say hello there
pace 5ms
tool Bash {"command":"ls -l"} -> a.go
tool Edit {"path":"a.go","oldText":"x","newText":"y"}
tool Read {"path":"b.go"} ! no such file
ask Write {"path":"c.go","newText":"z"}
subagent explorer Find it
  think where
  tool Grep {"pattern":"it"} -> here
  subagent reader Read it
    say read
  say found
image
file notes.txt hi
burst 20 4
delay 1s
usage 100 1000
compact it was long
notice retry once more
error rate_limit slow down
raw {"a":1}
config
recall
tokens 10 20 30 40
linger 2s Bash {"command":"make"} -> built
background 1s
  say by the way
  ask Bash
  linger 3s Read
stop max_tokens`

// TestThroughTheEngine plays everything, and what ends turns, and checks the stream.
func TestThroughTheEngine(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		registry, err := harness.NewRegistry(mock.New())
		if err != nil {
			t.Fatal(err)
		}
		rt, err := engine.New(engine.Options{Registry: registry})
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Shutdown(context.Background())
		yes := true
		for _, prompt := range []string{everything, "just a chat", "fail auth log in", "crash", "recall", "delay never"} {
			_, err := rt.StartTurn(t.Context(), protocol.TurnStartParams{SessionID: "s", Input: protocol.Text(prompt),
				Config: protocol.RunConfig{Harness: mock.ID, Cwd: cwd, IncludeRaw: true, PermissionRequests: &yes}})
			if err != nil {
				t.Fatal(err)
			}
			answerFor(t, rt, time.Minute)
		}
		events := stream(t, rt)
		for _, v := range streamcheck.Check(func(yield func(protocol.Envelope, error) bool) {
			for _, env := range events {
				if !yield(env, nil) {
					return
				}
			}
		}) {
			t.Errorf("%v", v)
		}
		st := conversation.New("")
		for _, env := range events {
			st.Apply(env)
		}
		var ends []string
		for _, turn := range st.Snapshot().Turns.All() {
			ends = append(ends, turn.Origin+string(turn.StopReason))
		}
		if want := []string{"max_tokens", "agentend_turn", "end_turn", "error", "error", "end_turn", "error"}; !slices.Equal(ends, want) {
			t.Errorf("turns ended with %q, want %q", ends, want)
		}
		if m := lastMessage(st.Snapshot(), 5).Text(); !strings.HasPrefix(m, "4 earlier prompts") {
			t.Errorf("after a crash the agent remembers %q", m)
		}
	})
}

// answerFor answers requests for a time.
func answerFor(t *testing.T, rt *engine.Runtime, d time.Duration) {
	t.Helper()
	asked := map[protocol.RequestID]bool{}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) { // the bubble's time
		synctest.Wait()
		for _, env := range stream(t, rt) {
			if e, ok := env.Event.(*protocol.PermissionRequested); ok && !asked[e.RequestID] {
				asked[e.RequestID] = true
				rt.Respond(t.Context(), protocol.PermissionRespondParams{SessionID: "s", RequestID: e.RequestID, Outcome: protocol.Selected(protocol.OptionIDAllow)})
			}
		}
	}
}

func stream(t *testing.T, rt *engine.Runtime) []protocol.Envelope {
	t.Helper()
	result, err := rt.Replay(protocol.EventsReplayParams{SessionID: "s", FromSeq: 1})
	if err != nil {
		t.Fatal(err)
	}
	return result.Events
}

// lastMessage returns the last message of a turn.
func lastMessage(s *conversation.Snapshot, turn int) *conversation.Message {
	items := s.Group(s.Turns.At(turn).ID).Items
	return items[len(items)-1].Message
}
