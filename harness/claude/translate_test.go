package claude

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentserver/harness"
	"agentserver/protocol"
)

// A stage feeds a translator by hand.
type stage struct {
	*testing.T
	*translator
}

func newStage(t *testing.T) *stage {
	s := &stage{t, newTranslator()}
	s.translator.decide = func(string, harness.Decision) error { return nil }
	return s
}

// say feeds lines and returns the names of the events they made; decisions of the translator about the turn are named with their reason.
func (s *stage) say(lines ...string) []string {
	for _, l := range lines {
		s.line([]byte(l))
	}
	return s.names()
}

func (s *stage) names() []string {
	var names []string
	for _, e := range s.events {
		name := strings.TrimPrefix(reflect.TypeOf(e).String(), "harness.")
		if end, ok := e.(harness.TurnEnd); ok {
			name += " " + string(end.StopReason)
		}
		names = append(names, name)
	}
	s.events = nil
	return names
}

// sent returns the subtypes of the requests, or the types of the messages, that were sent since the last call.
func (s *stage) sent() []string {
	var what []string
	for _, line := range s.out {
		var m struct {
			Type    string
			UUID    string
			Request struct{ Subtype string }
		}
		if err := json.Unmarshal(line, &m); err != nil {
			s.Fatal(err)
		}
		switch m.Type {
		case "control_request":
			what = append(what, m.Request.Subtype)
		case "user":
			what = append(what, "user "+m.UUID)
		default:
			what = append(what, m.Type)
		}
	}
	s.out = nil
	return what
}

func (s *stage) want(what string, got []string, want ...string) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (s *stage) start(id string) {
	line, err := userLine(id, protocol.Text("hello"))
	if err != nil {
		s.Fatal(err)
	}
	s.begin(id, line)
}

const (
	lineInit       = `{"type":"system","subtype":"init","session_id":"s","model":"m"}`
	lineResult     = `{"type":"result","subtype":"success","is_error":false,"stop_reason":"end_turn","session_id":"s"}`
	lineTaskResult = `{"type":"result","subtype":"success","is_error":false,"stop_reason":"end_turn","session_id":"s","origin":{"kind":"task-notification"}}`
	lineText       = `{"type":"assistant","message":{"id":"a","model":"m","content":[{"type":"text","text":"hi"}]},"parent_tool_use_id":null}`
	lineSubText    = `{"type":"assistant","message":{"id":"b","model":"m","content":[{"type":"text","text":"hi"}]},"parent_tool_use_id":"agent"}`
	lineTool       = `{"type":"assistant","message":{"id":"a","model":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]},"parent_tool_use_id":null}`
	lineAsk        = `{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"t"}}`
	lineIdle       = `{"type":"system","subtype":"session_state_changed","state":"idle"}`
)

func ack(uuid string) string {
	return `{"type":"user","message":{"role":"user","content":"x"},"uuid":"` + uuid + `","isReplay":true}`
}

// TestHeldMessage sends while the CLI works on something of its own: the message waits, and that work's result does not end the turn.
func TestHeldMessage(t *testing.T) {
	s := newStage(t)
	s.say(lineInit)
	s.start("u1")
	s.want("sent while busy", s.sent())
	s.want("own work", s.say(lineText, lineTaskResult), "MessageStarted", "PartUpdate")
	s.want("sent after it", s.sent(), "user u1")
	s.want("our turn", s.say(lineInit, ack("u1"), lineText, lineResult), "SessionStarted", "MessageStarted", "PartUpdate", "TurnEnd end_turn")

	// The same, cancelled while it waits.
	s.say(lineInit)
	s.start("u2")
	s.interrupt()
	s.want("cancelled while held", s.sent(), "interrupt")
	s.want("its end", s.say(lineTaskResult), "TurnEnd cancelled")
	s.want("nothing sent", s.sent())
}

// TestCrossedMessage sends in the moment in which the CLI begins something of its own.
func TestCrossedMessage(t *testing.T) {
	s := newStage(t)
	s.start("u1")
	s.want("sent", s.sent(), "user u1")
	running := strings.Replace(lineIdle, "idle", "running", 1)
	s.want("own work", s.say(running, lineInit, lineText, lineTaskResult, lineIdle), "SessionStarted", "MessageStarted", "PartUpdate")
	s.want("our turn", s.say(running, lineInit, ack("u1"), lineResult, lineIdle), "SessionStarted", "TurnEnd end_turn")

	// The same, cancelled: what was begun by itself is stopped, and so is ours when it begins.
	s.start("u3")
	s.say(lineInit)
	s.interrupt()
	s.sent()
	s.want("own work stopped", s.say(lineTaskResult))
	s.say(lineInit)
	s.want("ours stopped, too", s.sent(), "interrupt")
	s.say(`{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming"}`)

	// 2.1.332 names the messages that a result answers.
	s.start("u2")
	s.want("another's result", s.say(lineInit, strings.Replace(lineResult, `{`, `{"user_message_uuids":["other"],`, 1)), "SessionStarted")
	s.want("ours", s.say(strings.Replace(lineTaskResult, `{`, `{"user_message_uuids":["x","u2"],`, 1)), "TurnEnd end_turn")
}

// TestOwnTurn opens and ends turns of the agent's own.
func TestOwnTurn(t *testing.T) {
	s := newStage(t)
	s.want("nothing shown, nothing to end", s.say(lineInit, lineTaskResult), "SessionStarted")
	s.want("shown", s.say(lineInit, lineText, lineTaskResult), "SessionStarted", "MessageStarted", "PartUpdate", "TurnEnd end_turn")
	s.say(lineSubText)
	if !s.quiet() {
		t.Fatal("a sub-agent's text left nothing to end")
	}
	s.endQuiet()
	s.want("quiet", s.names(), "TurnEnd end_turn")
	s.endQuiet()
	s.want("once", s.names())
	s.say(lineSubText, lineAsk)
	if s.quiet() {
		t.Error("quiet although a permission is open")
	}
}

// TestAskAgain ends a turn while a background agent's permission is open.
func TestAskAgain(t *testing.T) {
	s := newStage(t)
	s.start("u1")
	s.say(lineInit, ack("u1"), lineAsk)
	s.want("the turn's end", s.say(lineResult), "PermissionWithdrawn", "TurnEnd end_turn", "Permission")
	if line := s.answer("r", harness.Decision{Allow: true}); line != nil {
		t.Errorf("the withdrawn question was answered with %s", line)
	}
	if line := s.answer("r+", harness.Decision{Allow: true}); !strings.Contains(string(line), `"request_id":"r"`) {
		t.Errorf("answer %s", line)
	}
	if line := s.answer("r+", harness.Decision{Allow: true}); line != nil {
		t.Errorf("answered twice: %s", line)
	}
}

// TestInterruptSteps covers the interrupt at each step of a turn's beginning.
func TestInterruptSteps(t *testing.T) {
	response := func(id, body string) string {
		return `{"type":"control_response","response":{"subtype":"success","request_id":"` + id + `","response":` + body + `}}`
	}
	closed := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}

	s := newStage(t) // taken back in time
	s.start("u1")
	s.sent()
	confirmed := s.interrupt()
	s.want("before the turn began", s.sent(), "cancel_async_message", "interrupt")
	s.want("taken back", s.say(response("as-1", `{"cancelled":true}`)), "TurnEnd cancelled")
	if !closed(confirmed) {
		t.Error("not confirmed")
	}

	s = newStage(t) // too late: the turn begins all the same
	s.start("u1")
	s.sent()
	confirmed = s.interrupt()
	s.sent()
	s.say(response("as-1", `{"cancelled":false}`), response("as-2", `{}`))
	if closed(confirmed) {
		t.Error("confirmed although the turn is still to begin")
	}
	s.say(lineInit)
	s.want("at its init", s.sent(), "interrupt")
	s.say(response("as-3", `{}`))
	if !closed(confirmed) {
		t.Error("not confirmed")
	}
	aborted := `{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming","errors":["[ede_diagnostic] x"]}`
	s.want("its end", s.say(aborted), "TurnEnd cancelled")

	s = newStage(t) // 2.1.332: refused, and cancelled all the same
	s.start("u1")
	s.interrupt()
	s.want("lifecycle", s.say(response("as-1", `{"cancelled":false}`), `{"type":"command_lifecycle","command_uuid":"u1","state":"cancelled"}`), "TurnEnd cancelled")

	s = newStage(t) // an interrupt that nobody asked for
	s.start("u1")
	s.say(lineInit)
	end := s.say(aborted)
	s.want("unasked", end, "TurnEnd error")

	s = newStage(t) // a turn that was opened by work in the background
	s.say(`{"type":"system","subtype":"task_started","task_id":"k","tool_use_id":"agent","task_type":"local_agent"}`, lineSubText)
	s.interrupt()
	s.want("background", s.sent(), "stop_task")
	s.want("its end", s.names(), "TurnEnd cancelled")
}

// TestSteering covers what the end-to-end tests cannot time.
func TestSteering(t *testing.T) {
	s := newStage(t)
	w := &steer{uuid: "x", line: []byte(`{"type":"user","uuid":"x"}`), done: make(chan bool, 1)}
	if s.steer(w) {
		t.Error("accepted with nothing running")
	}
	s.start("u1")
	s.sent()
	s.say(lineInit, ack("u1"))
	if !s.steer(w) {
		t.Fatal("declined in a turn")
	}
	s.want("held while no tool runs", s.sent())
	s.say(lineTool)
	s.want("sent with the tool", s.sent(), "user x")
	if !<-w.done {
		t.Error("told that it was not sent")
	}
	// The tool ended before the CLI saw the message: it makes another turn of it, which is still ours.
	s.want("a result that leaves it out", s.say(lineResult))
	s.want("the one that has it", s.say(lineInit, ack("x"), lineText, lineResult), "SessionStarted", "MessageStarted", "PartUpdate", "TurnEnd end_turn")

	// The CLI forgets it: idle ends the turn.
	s.start("u2")
	s.say(lineInit, ack("u2"), strings.ReplaceAll(lineTool, `"a"`, `"c"`))
	s.steer(&steer{uuid: "y", line: []byte(`{"type":"user","uuid":"y"}`), done: make(chan bool, 1)})
	s.names()
	s.want("forgotten", s.say(lineResult, lineIdle), "TurnEnd end_turn")
}

// TestElicitation answers an MCP server's question in each way.
func TestElicitation(t *testing.T) {
	for _, c := range []struct {
		d    harness.Decision
		want string
	}{
		{harness.Decision{Allow: true, UpdatedInput: json.RawMessage(`{"name":"Ada"}`)}, `{"action":"accept","content":{"name":"Ada"}}`},
		{harness.Decision{Allow: true}, `{"action":"accept","content":{}}`},
		{harness.Decision{}, `{"action":"decline"}`},
		{harness.Decision{Cancelled: true}, `{"action":"cancel"}`},
	} {
		s := newStage(t)
		s.line([]byte(`{"type":"control_request","request_id":"e","request":{"subtype":"elicitation","mcp_server_name":"srv","message":"Name?","mode":"form"}}`))
		ask, ok := s.events[0].(harness.Permission)
		if !ok || !ask.NoRules || ask.Title != "srv: Name?" {
			t.Fatalf("%#v", s.events)
		}
		if got := s.answer("e", c.d); !strings.Contains(string(got), c.want) {
			t.Errorf("%+v: %s, want %s", c.d, got, c.want)
		}
	}
}

// TestUnanswerable answers at once what nobody can answer, and what is not known.
func TestUnanswerable(t *testing.T) {
	s := newStage(t)
	s.asks = false
	s.say(lineAsk, `{"type":"control_request","request_id":"x","request":{"subtype":"elicitation"}}`, `{"type":"control_request","request_id":"y","request":{"subtype":"dance"}}`,
		`{"type":"control_request","request_id":"z","request":{"subtype":"hook_callback"}}`, `{"type":"control_request","request_id":"w","request":{"subtype":"request_user_dialog"}}`)
	for i, want := range []string{`"deny"`, `"decline"`, `"error"`, `"success"`, `"cancelled"`} {
		if i >= len(s.out) || !strings.Contains(string(s.out[i]), want) {
			t.Errorf("answer %d: %s, want %s", i, s.out, want)
		}
	}
}

// TestCompaction follows an automatic compaction with its summary.
func TestCompaction(t *testing.T) {
	s := newStage(t)
	s.start("u")
	s.say(lineInit)
	for _, l := range []string{`{"type":"system","subtype":"status","status":"compacting"}`, `{"type":"system","subtype":"status","status":null,"compact_result":"success"}`,
		`{"type":"system","subtype":"compact_boundary","compact_metadata":{"trigger":"auto","pre_tokens":1000,"post_tokens":10}}`,
		`{"type":"user","message":{"role":"user","content":"what happened so far"},"isSynthetic":true}`} {
		s.line([]byte(l))
	}
	if len(s.events) != 3 {
		t.Fatalf("events %#v", s.events)
	}
	last := s.events[2].(harness.Compaction)
	if last.Key != s.events[0].(harness.Compaction).Key || last.Status != protocol.CompactionCompleted || *last.PreTokens != 1000 || *last.PostTokens != 10 ||
		last.Trigger != protocol.TriggerAuto || last.Summary != "what happened so far" {
		t.Errorf("%+v", last)
	}
}

// TestThoughts keeps redacted thoughts as such, and leaves out those that are not shown at all.
func TestThoughts(t *testing.T) {
	s := newStage(t)
	s.start("u")
	s.say(lineInit)
	s.line([]byte(`{"type":"assistant","message":{"id":"a","model":"m","content":[{"type":"thinking","thinking":"","signature":"x"},{"type":"redacted_thinking","data":"x"},{"type":"thinking","thinking":"hm"}]}}`))
	var parts []*protocol.ReasoningPart
	for _, e := range s.events {
		if u, ok := e.(harness.PartUpdate); ok {
			parts = append(parts, u.Part.(*protocol.ReasoningPart))
		}
	}
	if len(parts) != 2 || string(parts[0].ProviderMetadata) != `{"redacted":true}` || parts[1].Text != "hm" {
		t.Errorf("%+v", parts)
	}
}

// FuzzLines feeds anything: no panic, no unbounded state, and at most one end for one turn.
func FuzzLines(f *testing.F) {
	for _, l := range []string{lineInit, lineResult, lineText, lineTool, lineAsk, lineIdle, ack("u"), lineSubText} {
		f.Add([]byte(l))
	}
	files, _ := filepath.Glob("testdata/*/[2-9]*.jsonl")
	for _, file := range files[:min(len(files), 20)] {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var all []byte
		for line := range strings.Lines(string(data)) {
			var r record
			if json.Unmarshal([]byte(line), &r) == nil && r.Dir == "out" {
				all = append(append(all, r.Msg...), '\n')
			}
		}
		f.Add(all)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tr := newTranslator()
		tr.decide = func(string, harness.Decision) error { return nil }
		tr.raw = true
		tr.begin("u", []byte(`{}`))
		for line := range strings.SplitSeq(string(data), "\n") {
			tr.line([]byte(line))
		}
		tr.interrupt()
		tr.endQuiet()
		for _, e := range tr.events {
			if raw, ok := e.(harness.Raw); ok && !json.Valid(raw.Data) {
				t.Errorf("raw %q is not JSON", raw.Data)
			}
		}
		for _, line := range tr.out {
			if !json.Valid(line) || strings.Contains(string(line), "\n") {
				t.Errorf("line for the CLI: %q", line)
			}
		}
	})
}

// TestMetadata takes out of the CLI's structured results what machines want.
func TestMetadata(t *testing.T) {
	for _, c := range []struct{ tool, structured, want string }{
		{"Bash", `{"stdout":"x","stderr":"","interrupted":false,"isImage":false}`, `{"exitCode":0}`},
		{"Bash", `{"stdout":"","backgroundTaskId":"b1"}`, `{"backgroundTaskId":"b1"}`},
		{"Bash", `{"stdout":"","interrupted":true}`, `{"interrupted":true}`},
		{"WebFetch", `{"url":"https://x","code":200,"codeText":"OK","bytes":12,"durationMs":3,"result":"long text"}`, `{"bytes":12,"code":200,"codeText":"OK","durationMs":3,"url":"https://x"}`},
		{"TodoWrite", `{"oldTodos":[],"newTodos":[{"content":"a","status":"pending"}]}`, `{"newTodos":[{"content":"a","status":"pending"}],"oldTodos":[]}`},
		{"TaskCreate", `{"task":{"id":"1","subject":"First step"}}`, `{"task":{"id":"1","subject":"First step"}}`},
		{"Agent", `{"status":"completed","agentId":"a","totalTokens":5,"prompt":"p"}`, `{"agentId":"a","status":"completed","totalTokens":5}`},
		{"mcp__srv__tool", `{"answer":42}`, `{"answer":42}`},
		{"Bash", `"Error: text"`, ``},
		{"Read", `{"type":"text","file":{"filePath":"/x","numLines":3,"content":"long"}}`, `{"filePath":"/x","numLines":3}`},
		{"SomethingNew", `{"a":1}`, ``},
	} {
		call := &tool{part: protocol.ToolPart{ToolName: c.tool}, input: json.RawMessage("{}")}
		describe(&call.part, nil)
		done, ok := resultState(call, &contentBlock{Content: json.RawMessage(`"out"`)}, json.RawMessage(c.structured), false).(*protocol.ToolCompleted)
		if !ok || done.Output != "out" || string(done.Metadata) != c.want {
			t.Errorf("%s %s: %s, want %s", c.tool, c.structured, done.Metadata, c.want)
		}
	}
}

// TestDiffs covers the shapes of file changes.
func TestDiffs(t *testing.T) {
	big := strings.Repeat("x", maxDiffText)
	patch := `"structuredPatch":[{"oldStart":4,"newStart":4,"lines":[" a","-b","+c","\\ No newline at end of file"]}]`
	for name, c := range map[string]struct {
		structured, before, after string
		created                   bool
		line                      int
	}{
		"edit":      {`{"filePath":"/f","oldString":"b","newString":"c","originalFile":"a\nb",` + patch + `}`, "b", "c", false, 5},
		"create":    {`{"filePath":"/f","content":"new","originalFile":null,"structuredPatch":[]}`, "", "new", true, 0},
		"overwrite": {`{"filePath":"/f","content":"new","originalFile":"old",` + patch + `}`, "old", "new", false, 5},
		"big":       {`{"filePath":"/f","content":"` + big + `","originalFile":"old",` + patch + `}`, "a\nb\n", "a\nc\n", false, 5},
	} {
		diff, line, ok := diffContent(json.RawMessage(c.structured))
		if !ok || diff.Path != "/f" || *diff.NewText != c.after || (diff.OldText == nil) != c.created || diff.OldText != nil && *diff.OldText != c.before || line != c.line {
			t.Errorf("%s: %t, line %d, %+v", name, ok, line, diff)
		}
	}
	if _, _, ok := diffContent(json.RawMessage(`{"filePath":7}`)); ok {
		t.Error("a diff out of nothing")
	}
}
