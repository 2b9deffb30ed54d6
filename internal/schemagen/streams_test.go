package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentserver/engine"
	"agentserver/harness"
	"agentserver/harness/mock"
	"agentserver/protocol"
	"agentserver/protocol/conversation"
	"agentserver/protocol/conversation/conversationtest"
)

// A judge validates JSON against definitions.
type judge struct {
	t      *testing.T
	strict bool
	defs   map[string]*jsonschema.Schema
}

func newJudge(t *testing.T, strict bool) *judge {
	return &judge{t, strict, map[string]*jsonschema.Schema{}}
}

func (j *judge) raw(def string, data []byte) {
	j.t.Helper()
	if j.defs[def] == nil {
		j.defs[def] = compile(j.t, def, j.strict)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err == nil {
		err = j.defs[def].Validate(v)
	}
	if err != nil {
		j.t.Fatalf("%s: %v\n%s", def, err, data)
	}
}

func (j *judge) value(def string, v any) {
	j.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		j.t.Fatal(err)
	}
	j.raw(def, data)
}

// TestRandomStreamsValidate validates streams that hold everything that the contract allows, and what they fold to after each event.
func TestRandomStreamsValidate(t *testing.T) {
	j := newJudge(t, false)
	for seed := range uint64(4) {
		st := conversation.New("")
		for i, env := range conversationtest.Stream(seed, 400) {
			j.value("Envelope", env)
			st.Apply(env)
			if i%7 == 0 { // each state is as large as all before it
				j.value("ConversationState", st.Snapshot())
			}
		}
	}
	j.value("ConversationState", conversation.New("nothing happened").Snapshot())
}

// everything makes the mock harness do all that it can.
var everything = []string{
	"just text",
	"think hm\ntool Bash {\"command\":\"ls\"} -> a.txt\ntool Read {\"path\":\"a\"} ! no such file\nsay done",
	"ask Bash {\"command\":\"rm\"} -> gone\nsay ok",
	"subagent Explore look around\n  think where\n  tool Read {\"path\":\"a\"} -> b\n  say found\nsay done",
	"image\nfile notes.txt some text\nusage 10 100\ntokens 1 2 3 4\ncompact a summary\nnotice retry again\nerror network lost\nraw {\"a\":1}\nconfig",
	"linger 1ms Bash {\"command\":\"sleep\"} -> late\nsay done",
	"fail rate_limit slow down",
	"stop max_tokens",
	"crash gone",
	"background 1ms\n  say by myself\nsay done",
}

// TestLiveStreamsValidate validates, with no member that is not described, what the engine says while the mock harness does all that it can: every
// event, the state after each, and the results of the methods.
func TestLiveStreamsValidate(t *testing.T) {
	registry, err := harness.NewRegistry(mock.New())
	if err != nil {
		t.Fatal(err)
	}
	rt, err := engine.New(engine.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Shutdown(t.Context())
	j := newJudge(t, true)
	hello, err := rt.Initialize(protocol.InitializeParams{ProtocolVersion: protocol.Version})
	if err != nil {
		t.Fatal(err)
	}
	j.value("InitializeResult", hello)
	ended := map[protocol.EventType]int{}
	for _, script := range everything {
		live(t, rt, j, script, ended)
	}
	list, err := rt.List(t.Context())
	if err != nil || len(list.Sessions) != len(everything) {
		t.Fatal(list, err)
	}
	j.value("SessionListResult", list)
	for _, s := range list.Sessions {
		page, err := rt.Replay(protocol.EventsReplayParams{SessionID: s.SessionID, FromSeq: 1})
		if err != nil {
			t.Fatal(err)
		}
		j.value("EventsReplayResult", page)
	}
	for _, e := range protocol.EventValues() {
		if typ := e.EventType(); ended[typ] == 0 && typ != protocol.EventSessionEnded {
			t.Errorf("no stream had a %s", typ)
		}
	}
}

// live runs one script and validates its session's stream to the end of its last turn.
func live(t *testing.T, rt *engine.Runtime, j *judge, script string, seen map[protocol.EventType]int) {
	events := rt.Follow()
	config := protocol.RunConfig{Harness: "mock", Cwd: t.TempDir(), IncludeRaw: true}
	params := protocol.TurnStartParams{Input: protocol.Text(script), Config: config}
	j.value("TurnStartParams", params)
	ack, err := rt.StartTurn(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	j.value("TurnStartResult", ack)
	late := map[string]bool{}
	turns := 1
	if strings.HasPrefix(script, "background") {
		turns = 2
	}
	for env, err := range events.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		seen[env.Event.EventType()]++
		j.value("Envelope", env)
		snapshot, err := rt.Snapshot(t.Context(), protocol.SessionParams{SessionID: ack.SessionID})
		if err != nil {
			t.Fatal(err)
		}
		j.value("SessionSnapshotResult", snapshot)
		switch e := env.Event.(type) {
		case *protocol.PermissionRequested:
			rt.Respond(t.Context(), protocol.PermissionRespondParams{SessionID: ack.SessionID, RequestID: e.RequestID, Outcome: protocol.Selected(protocol.OptionIDAllow)})
		case *protocol.MessagePart:
			if tool, ok := e.Part.(*protocol.ToolPart); ok {
				if st := tool.State.Status(); st == protocol.ToolStatusPending || st == protocol.ToolStatusInProgress {
					late[tool.ToolCallID] = true
				} else {
					delete(late, tool.ToolCallID)
				}
			}
		case *protocol.TurnEnded:
			turns--
		}
		if turns == 0 && len(late) == 0 {
			return
		}
	}
}

// TestRecordingsValidate validates whatever of the wire is recorded in the repository's testdata: envelopes one a line, states, and the parts in the
// harnesses' golden files.
func TestRecordingsValidate(t *testing.T) {
	j := newJudge(t, false)
	counts := map[string]int{}
	start := time.Now()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(filepath.ToSlash(file), "/testdata/") {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var st struct{ Timeline, Turns json.RawMessage }
		if json.Unmarshal(data, &st) == nil && st.Timeline != nil && st.Turns != nil {
			j.raw("ConversationState", data)
			counts["states"]++
			return nil
		}
		for line := range bytes.Lines(data) {
			var env struct {
				SessionID string
				Seq       uint64
				Event     json.RawMessage
			}
			if bytes.HasPrefix(line, []byte("{")) && json.Unmarshal(line, &env) == nil && env.SessionID != "" && env.Seq > 0 && env.Event != nil {
				j.raw("Envelope", line)
				counts["envelopes"]++
			}
			if _, part, ok := bytes.Cut(line, []byte(" Part={")); ok && strings.HasSuffix(file, ".golden") {
				j.raw("Part", append([]byte("{"), part...))
				counts["parts"]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("validated %v in %v", counts, time.Since(start))
	if counts["parts"] < 100 {
		t.Errorf("only %d parts in golden files", counts["parts"])
	}
}
