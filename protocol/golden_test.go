package protocol_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentserver/protocol"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var (
	head = protocol.EventHeader{SessionID: "s1", Timestamp: 1764550000000}
	ph   = protocol.PartHeader{ID: "p1", SessionID: "s1", MessageID: "m1"}
	n    = func(v int64) *int64 { return &v }
	one  = uint64(1)
	span = protocol.TimeSpan{Start: 1, End: 2}
	in   = json.RawMessage(`{"command":"ls <&> \u2028"}`)
)

func tool(state protocol.ToolState) *protocol.ToolPart {
	return &protocol.ToolPart{PartHeader: ph, ToolCallID: "toolu_1", ToolName: "Bash", Kind: protocol.ToolKindExecute, Title: "ls",
		Locations: []protocol.Location{{Path: "/w/a.go", Line: 3}}, State: state}
}

// goldenParts holds one value of every part type and every tool state.
var goldenParts = map[string]protocol.Part{
	"part.text":             &protocol.TextPart{PartHeader: ph, Text: "a < b & ü", State: protocol.PartDone},
	"part.reasoning":        &protocol.ReasoningPart{PartHeader: ph, Text: "", State: protocol.PartDone, Time: &span, ProviderMetadata: json.RawMessage(`{"redacted":true}`)},
	"part.tool.pending":     tool(&protocol.ToolPending{PartialInput: `{"com`}),
	"part.tool.in_progress": tool(&protocol.ToolInProgress{Input: in, Title: "ls", Time: protocol.TimeSpan{Start: 1}}),
	"part.tool.completed": tool(&protocol.ToolCompleted{Input: in, Output: "", Time: span, Metadata: json.RawMessage(`{"exitCode":0}`), Content: []protocol.ToolContent{
		protocol.TextContent(""), protocol.ImageContent("QUJD", "image/png"), protocol.DiffContent("/w/new.go", nil, ""),
		{Type: protocol.ContentTerminal, TerminalID: "t1"}}}),
	"part.tool.failed":    tool(&protocol.ToolFailed{Input: in, Error: "exit 1", Time: span}),
	"part.tool.cancelled": tool(&protocol.ToolCancelled{Input: json.RawMessage(`{}`), Time: span, Meta: protocol.Meta{}.With(protocol.MetaPartialInput, `{"com`)}),
	"part.tool.subagent": &protocol.ToolPart{PartHeader: ph, ToolCallID: "t", ToolName: "Agent", Kind: protocol.ToolKindTask,
		Subagent: &protocol.Subagent{Type: "explore", Description: "d", Model: "m", AgentID: "a"}, State: &protocol.ToolPending{}},
	"part.image": &protocol.ImagePart{PartHeader: ph, Data: "QUJD", MimeType: "image/png"},
	"part.file":  &protocol.FilePart{PartHeader: ph, URL: "https://example.com/a.pdf", MimeType: "application/pdf", Filename: "a.pdf"},
}

// goldenEvents holds at least one value of every event type.
var goldenEvents = map[string]protocol.Event{
	"session.created": &protocol.SessionCreated{EventHeader: head, NativeSessionID: "n1", Harness: "claude-code", Model: "m", Resumed: new(bool)},
	"session.ended":   &protocol.SessionEnded{EventHeader: head, Reason: protocol.EndReleased},
	"session.usage":   &protocol.SessionUsage{EventHeader: head, TurnID: "t1", Used: 0, Size: 200000, Cost: protocol.USD(0.25)},
	"session.compaction": &protocol.SessionCompaction{EventHeader: head, TurnID: "t1", CompactionID: "c1", Status: protocol.CompactionCompleted,
		Trigger: protocol.TriggerAuto, PreTokens: n(100), PostTokens: n(0), Summary: "s", AbstractsIDs: []string{"m1"}},
	"session.notice": &protocol.SessionNotice{EventHeader: head, TurnID: "t1", Kind: protocol.NoticeProvisioning, Message: "downloading", Progress: &protocol.Progress{Done: 0, Total: 10, Unit: "bytes"}},
	"turn.started":   &protocol.TurnStarted{EventHeader: protocol.EventHeader{SessionID: "s1", Timestamp: 1, Meta: protocol.Meta{}.With(protocol.MetaOrigin, "agent")}, TurnID: "t1"},
	"turn.ended": &protocol.TurnEnded{EventHeader: head, TurnID: "t1", StopReason: protocol.StopEndTurn, FinishReason: "stop", Cost: protocol.USD(0.01),
		Tokens: &protocol.Tokens{Input: 0, Output: 2, Reasoning: 1, Cache: &protocol.CacheTokens{Read: 3, Write: 0, WriteEphemeral5m: 1, WriteEphemeral1h: 2}}},
	"turn.ended.error":         &protocol.TurnEnded{EventHeader: head, TurnID: "t1", StopReason: protocol.StopError, Error: &protocol.TurnError{Category: protocol.CategoryAuth, Message: ""}},
	"message.started":          &protocol.MessageStarted{EventHeader: head, TurnID: "t1", MessageID: "m1", OutputIndex: 1, Role: protocol.RoleAssistant, ParentToolCallID: "toolu_0", Model: "m"},
	"message.part":             &protocol.MessagePart{EventHeader: head, TurnID: "t1", MessageID: "m1", OutputIndex: 1, PartIndex: 0, Part: goldenParts["part.text"]},
	"message.part.delta":       &protocol.MessagePartDelta{EventHeader: head, TurnID: "t1", MessageID: "m1", OutputIndex: 1, PartIndex: 0, PartID: "p1", Delta: &protocol.TextDelta{Text: ""}},
	"message.part.delta.think": &protocol.MessagePartDelta{EventHeader: head, TurnID: "t1", MessageID: "m1", OutputIndex: 1, PartIndex: 1, PartID: "p1", Delta: &protocol.ReasoningDelta{Text: "hm"}},
	"message.part.delta.tool": &protocol.MessagePartDelta{EventHeader: head, TurnID: "t1", MessageID: "m1", OutputIndex: 1, PartIndex: 2, PartID: "p1",
		Delta: &protocol.ToolInputDelta{ToolCallID: "toolu_1", ToolName: "Bash", Input: `{"`}},
	"message.ended": &protocol.MessageEnded{EventHeader: head, TurnID: "t1", MessageID: "m1"},
	"permission.requested": &protocol.PermissionRequested{EventHeader: head, TurnID: "t1", RequestID: "r1", Title: "Run ls", Options: protocol.Options(),
		ToolCall: &protocol.PermissionTool{ToolCallID: "toolu_1", ToolName: "Bash", Kind: protocol.ToolKindExecute, Title: "ls", Locations: []protocol.Location{{Path: "/w"}}, RawInput: in}},
	"permission.resolved": &protocol.PermissionResolved{EventHeader: head, TurnID: "t1", RequestID: "r1",
		Outcome: protocol.PermissionOutcome{Outcome: protocol.OutcomeSelected, OptionID: protocol.OptionIDAllow, UpdatedInput: in}},
	"permission.resolved.cancelled": &protocol.PermissionResolved{EventHeader: head, TurnID: "t1", RequestID: "r1", Outcome: protocol.Cancelled()},
	"error":                         &protocol.ErrorEvent{EventHeader: protocol.EventHeader{Timestamp: 1}, TurnID: "t1", Category: protocol.CategoryNetwork, Message: "", Recoverable: false, Stack: "s"},
	"raw":                           &protocol.Raw{EventHeader: head, TurnID: "t1", Harness: "claude-code", Data: json.RawMessage(`{"type":"x","n":1.50}`)},
}

// goldenValues holds the params and results of every method, the input and the config.
var goldenValues = map[string]any{
	"initialize.params": &protocol.InitializeParams{ProtocolVersion: 2, Client: &protocol.Info{Name: "c", Version: "1"}},
	"initialize.result": &protocol.InitializeResult{ProtocolVersion: 2, InstanceID: "i", Server: protocol.Info{Name: "agent-server", Version: "1"},
		Harnesses: map[protocol.HarnessID]protocol.Capabilities{"mock": {MultiTurn: true, ModelSwitch: protocol.ModelSwitchInSession,
			ThinkingLevels: []protocol.ThinkingLevel{protocol.ThinkingXHigh}, Unsupported: []string{"maxTurns"}}}},
	"turn.start.params": &protocol.TurnStartParams{SessionID: "s1", TurnID: "t1", Input: protocol.Text("hi"), Config: protocol.RunConfig{Harness: "claude-code", Cwd: "/w"}},
	"turn.start.params.full": &protocol.TurnStartParams{Input: protocol.Input{
		{Type: protocol.PartText, ID: "i1", Text: "see @a", Elements: []protocol.TextElement{{ByteRange: [2]int{4, 6}, Placeholder: "a"}}},
		{Type: protocol.PartImage, Data: "QUJD", MimeType: "image/png", Filename: "a.png"}, {Type: protocol.PartFile, URL: "https://example.com/x", MimeType: "text/plain"}},
		Config: protocol.RunConfig{Harness: "acp", Cwd: "/w", Model: "m", ThinkingLevel: protocol.ThinkingHigh, PermissionMode: protocol.ModeAcceptEdits,
			AdditionalDirectories: []string{"/x"}, SystemPromptAppend: "p", MaxTurns: new(int), ResumeSessionID: "r", ResumeSessionAt: "a",
			MCPServers: map[string]protocol.MCPServer{"h": {Type: protocol.MCPHTTP, URL: "https://example.com", Headers: map[string]string{"X": "y"}},
				"s": {Type: protocol.MCPStdio, Command: "c", Args: []string{"a"}, Env: map[string]string{"K": "v"}}},
			Env: map[string]string{"A": "b"}, APIKey: "k", DisableTools: true, PermissionRequests: new(bool), IncludeRaw: true}},
	"turn.start.result":         &protocol.TurnStartResult{SessionID: "s1", TurnID: "t1", Deduplicated: true},
	"turn.cancel.params":        &protocol.TurnCancelParams{SessionID: "s1", TurnID: "t1"},
	"turn.cancel.result":        &protocol.TurnCancelResult{Outcome: protocol.CancelConfirmed, TurnID: "t1"},
	"turn.cancel.result.none":   &protocol.TurnCancelResult{Outcome: protocol.CancelNoActiveTurn, ActiveTurnID: "t2"},
	"turn.steer.params":         &protocol.TurnSteerParams{SessionID: "s1", TurnID: "t1", Input: protocol.Text("and")},
	"turn.steer.result":         &protocol.AcceptedResult{},
	"permission.respond.params": &protocol.PermissionRespondParams{SessionID: "s1", RequestID: "r1", Outcome: protocol.Selected("allow")},
	"permission.respond.result": &protocol.AcceptedResult{Accepted: true},
	"session.close.params":      &protocol.SessionParams{SessionID: "s1"},
	"session.close.result":      &protocol.SessionCloseResult{},
	"session.list.result": &protocol.SessionListResult{Sessions: []protocol.SessionInfo{{SessionID: "s1", Harness: "mock", NativeSessionID: "n", Model: "m", Cwd: "/w",
		ActiveTurnID: "t1", FirstAvailableSeq: 1, LatestSeq: 9, CreatedAt: 1, UpdatedAt: 2}}},
	"session.snapshot.params": &protocol.SessionParams{SessionID: "s1"},
	"session.snapshot.result": &protocol.SessionSnapshotResult{SessionID: "s1", Seq: 9,
		State: json.RawMessage(`{"version":1,"sessionId":"s1","seq":9,"activity":"idle","timeline":[],"turns":[],"permissions":[],"totals":{"turns":0,"tokens":{"input":0,"output":0}}}`)},
	"events.replay.params": &protocol.EventsReplayParams{SessionID: "s1", FromSeq: 1, Limit: 100},
	"events.replay.result": &protocol.EventsReplayResult{Events: []protocol.Envelope{{SessionID: "s1", Seq: 1, Event: goldenEvents["turn.started"]}},
		FirstAvailableSeq: &one, LatestSeq: nil},
	"events.subscribe.params": &protocol.EventsSubscribeParams{},
}

// goldenErrors holds every wire error as it is sent.
var goldenErrors = map[protocol.Code]*protocol.Error{
	protocol.CodeParseError:              protocol.Errorf(protocol.CodeParseError, "not JSON"),
	protocol.CodeInvalidRequest:          protocol.Errorf(protocol.CodeInvalidRequest, "no request"),
	protocol.CodeMethodNotFound:          protocol.Errorf(protocol.CodeMethodNotFound, "no method %q", "x"),
	protocol.CodeInvalidParams:           protocol.InvalidParams(protocol.FieldError{Path: "config.cwd", Message: "must be an absolute path"}),
	protocol.CodeInternalError:           protocol.AsError(os.ErrInvalid),
	protocol.CodeHarnessNotAvailable:     protocol.HarnessNotAvailable("x", []protocol.HarnessID{"mock"}),
	protocol.CodeUnknownSession:          protocol.UnknownSession("s1"),
	protocol.CodeTurnActive:              protocol.TurnActive("t1"),
	protocol.CodeShuttingDown:            protocol.Errorf(protocol.CodeShuttingDown, "the server is shutting down"),
	protocol.CodeProtocolVersionMismatch: protocol.VersionMismatch(3),
	protocol.CodeSessionClosing:          protocol.Errorf(protocol.CodeSessionClosing, "closing"),
	protocol.CodeTurnConflict:            protocol.TurnConflict("t1"),
	protocol.CodeOverloaded:              protocol.Overloaded("sessions", 1),
}

func TestGolden(t *testing.T) {
	files := map[string]any{}
	for k, v := range goldenEvents {
		files[k] = v
	}
	for k, v := range goldenParts {
		files[k] = v
	}
	for k, v := range goldenValues {
		files[k] = v
	}
	for k, v := range goldenErrors {
		files["error."+k.String()] = v
	}
	for name, v := range files {
		got := encode(t, v)
		path := filepath.Join("testdata", "golden", name+".json")
		if *update {
			if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want = bytes.TrimSpace(want); !bytes.Equal(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
	entries, err := os.ReadDir(filepath.Join("testdata", "golden"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := files[strings.TrimSuffix(e.Name(), ".json")]; !ok {
			t.Errorf("%s: no value makes this golden file", e.Name())
		}
	}
}

func TestGoldenValuesDecode(t *testing.T) {
	for name, v := range goldenValues {
		raw := encode(t, v)
		back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := json.Unmarshal(raw, back); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if again := encode(t, back); !bytes.Equal(again, raw) && name != "events.replay.result" {
			t.Errorf("%s: decoded and encoded again:\ngot  %s\nwant %s", name, again, raw)
		}
	}
}

// TestGoldenComplete fails when a type has no golden value: adding a row to a table asks for one.
func TestGoldenComplete(t *testing.T) {
	var eventTypes, partTypes, states, deltas, methods []string
	for _, e := range goldenEvents {
		eventTypes = append(eventTypes, string(e.EventType()))
		if d, ok := e.(*protocol.MessagePartDelta); ok {
			deltas = append(deltas, string(d.Delta.DeltaType()))
		}
	}
	for _, p := range goldenParts {
		partTypes = append(partTypes, string(p.PartType()))
		if p, ok := p.(*protocol.ToolPart); ok {
			states = append(states, string(p.State.Status()))
		}
	}
	for name := range goldenValues {
		name = strings.ReplaceAll(name, ".", "/")
		for _, suffix := range []string{"/full", "/none", "/params", "/result"} {
			name = strings.TrimSuffix(name, suffix)
		}
		methods = append(methods, name)
	}
	for _, c := range []struct {
		what      string
		have, all []string
	}{
		{"event", eventTypes, names(protocol.EventValues(), protocol.Event.EventType)}, {"part", partTypes, names(protocol.PartValues(), protocol.Part.PartType)},
		{"delta", deltas, names(protocol.DeltaValues(), protocol.Delta.DeltaType)}, {"tool state", states, names(protocol.ToolStateValues(), protocol.ToolState.Status)},
		{"method", append(methods, protocol.MethodShutdown), names(protocol.Methods(), func(m protocol.MethodInfo) string { return m.Name })},
	} {
		for _, typ := range c.all {
			if !slices.Contains(c.have, typ) {
				t.Errorf("%s %s has no golden value", c.what, typ)
			}
		}
	}
	for _, c := range protocol.Codes() {
		if goldenErrors[c] == nil {
			t.Errorf("error %s has no golden value", c)
		}
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	return bytes.TrimSpace(b.Bytes())
}

func names[V any, K ~string](values []V, name func(V) K) []string {
	var out []string
	for _, v := range values {
		out = append(out, string(name(v)))
	}
	return out
}
