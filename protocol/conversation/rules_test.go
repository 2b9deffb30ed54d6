package conversation_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentserver/protocol"
	"agentserver/protocol/conversation"
)

// session makes envelopes of one session and folds them.
type session struct {
	*conversation.State
	t    *testing.T
	last []conversation.Change
}

func newSession(t *testing.T) *session { return &session{State: conversation.New("s"), t: t} }

// say folds events in, each a second after the one before, and returns the kinds of changes that the last one made.
func (s *session) say(events ...protocol.Event) string {
	s.t.Helper()
	var kinds []string
	for _, e := range events {
		e.Header().SessionID, e.Header().Timestamp = "s", int64(1000*(s.Seq()+1))
		s.last = s.Apply(protocol.Envelope{SessionID: "s", Seq: s.Seq() + 1, Event: e})
		kinds = kinds[:0]
		for _, c := range s.last {
			kinds = append(kinds, string(c.Kind))
		}
	}
	return strings.Join(kinds, " ")
}

func (s *session) expect(got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("got %s, want %s", got, want)
	}
}

func header(id string) protocol.PartHeader {
	return protocol.PartHeader{ID: protocol.PartID(id), SessionID: "s", MessageID: "m"}
}

func text(id, text string, state protocol.PartState) *protocol.MessagePart {
	return &protocol.MessagePart{TurnID: "t", MessageID: "m", OutputIndex: 1, Part: &protocol.TextPart{PartHeader: header(id), Text: text, State: state}}
}

func delta(id string, d protocol.Delta) *protocol.MessagePartDelta {
	return &protocol.MessagePartDelta{TurnID: "t", MessageID: "m", OutputIndex: 1, PartID: protocol.PartID(id), Delta: d}
}

func tool(id string, state protocol.ToolState) *protocol.MessagePart {
	return &protocol.MessagePart{TurnID: "t", MessageID: "m", OutputIndex: 1, PartIndex: 1,
		Part: &protocol.ToolPart{PartHeader: header(id), ToolCallID: "call-" + id, ToolName: "Bash", State: state}}
}

func started(id string) *protocol.TurnStarted {
	return &protocol.TurnStarted{TurnID: protocol.TurnID(id)}
}

func message(id string) *protocol.MessageStarted {
	return &protocol.MessageStarted{TurnID: "t", MessageID: protocol.MessageID(id), OutputIndex: 1, Role: protocol.RoleAssistant}
}

func ended(id string) *protocol.TurnEnded {
	return &protocol.TurnEnded{TurnID: protocol.TurnID(id), StopReason: protocol.StopEndTurn}
}

func TestSnapshotsBeatDeltas(t *testing.T) {
	s := newSession(t)
	s.say(started("t"), message("m"), text("p", "", protocol.PartStreaming))
	s.expect(s.say(delta("p", &protocol.TextDelta{Text: "helo"})), "append")
	s.expect(s.Snapshot().Message("m").Text(), "helo")
	s.expect(s.say(text("p", "hello", protocol.PartStreaming)), "part")
	s.expect(s.say(delta("p", &protocol.TextDelta{Text: "!"})), "append")
	s.expect(s.Snapshot().Message("m").Text(), "hello!")
	s.expect(s.say(text("p", "Hello.", protocol.PartDone)), "part activity")
	s.expect(s.say(delta("p", &protocol.TextDelta{Text: "late"})), "")
	s.expect(s.say(delta("p", &protocol.ReasoningDelta{Text: "other"})), "")
	s.expect(s.Snapshot().Message("m").Text(), "Hello.")
}

func TestTurnEndCloses(t *testing.T) {
	s := newSession(t)
	s.say(started("t"), message("m"), text("p", "", protocol.PartStreaming), delta("p", &protocol.TextDelta{Text: "hi"}),
		tool("a", &protocol.ToolPending{}), delta("a", &protocol.ToolInputDelta{ToolCallID: "call-a", ToolName: "Bash", Input: `{"com`}),
		tool("b", &protocol.ToolInProgress{Input: json.RawMessage(`{"x":1}`), Time: protocol.TimeSpan{Start: 5}}),
		&protocol.PermissionRequested{TurnID: "t", RequestID: "r", Options: protocol.Options()})
	if got := s.Snapshot(); got.Activity != conversation.WaitingForPermission || len(got.Pending()) != 1 {
		t.Errorf("activity %s, pending %v", got.Activity, got.Pending())
	}
	s.expect(s.say(ended("t")), "part part part permission message turn totals activity")
	shot := s.Snapshot()
	a := shot.Part("a").Part.(*protocol.ToolPart).State.(*protocol.ToolCancelled)
	if got := a.Meta.GetString(protocol.MetaPartialInput); got != `{"com` || string(a.Input) != "{}" || a.Time.End != 9000 {
		t.Errorf("the tool whose input was cut off: %+v, partial %q", a, got)
	}
	b := shot.Part("b").Part.(*protocol.ToolPart).State.(*protocol.ToolCancelled)
	if string(b.Input) != `{"x":1}` || b.Time != (protocol.TimeSpan{Start: 5, End: 9000}) {
		t.Errorf("the tool that ran: %+v", b)
	}
	if p := shot.Part("p").Part.(*protocol.TextPart); p.Text != "hi" || p.State != protocol.PartDone {
		t.Errorf("the text: %+v", p)
	}
	if p := shot.Permission("r"); p.Outcome.Outcome != protocol.OutcomeCancelled || len(shot.Pending()) != 0 {
		t.Errorf("the request: %+v", p)
	}
	if shot.Message("m").Open || shot.Activity != conversation.Idle || shot.ActiveTurn() != nil {
		t.Errorf("something goes on: %+v", shot)
	}
	// A tool that ends late says so, at its old address.
	late := tool("b", &protocol.ToolCompleted{Input: json.RawMessage(`{"x":1}`), Output: "ok"})
	late.MessageID, late.PartIndex = "elsewhere", 7
	s.expect(s.say(late), "part")
	if p := s.Snapshot().Part("b"); p.MessageID != "m" || p.Index != 1 || p.Part.(*protocol.ToolPart).State.Status() != protocol.ToolStatusCompleted {
		t.Errorf("the late tool: %+v", p)
	}
}

func TestPartOpensItsMessage(t *testing.T) {
	s := newSession(t)
	s.expect(s.say(text("p", "hi", protocol.PartDone)), "turn message part activity")
	if m := s.Snapshot().Message("m"); m.Role != protocol.RoleAssistant || m.StartedAt != 0 || m.Text() != "hi" {
		t.Errorf("got %+v", m)
	}
	echo := &protocol.MessagePart{TurnID: "t", MessageID: "echo-t", Part: &protocol.TextPart{PartHeader: protocol.PartHeader{ID: "echo-t-0"}, Text: "x"}}
	s.say(echo)
	if m := s.Snapshot().Message("echo-t"); m.Role != protocol.RoleUser {
		t.Errorf("the echo is the %s's", m.Role)
	}
	s.expect(s.say(delta("q", &protocol.ReasoningDelta{Text: "hm"})), "part append")
	s.expect(s.say(&protocol.MessageStarted{TurnID: "t", MessageID: "m", Role: protocol.RoleAssistant, Model: "big"}), "message")
	if m := s.Snapshot().Message("m"); m.Model != "big" || m.Len() != 2 {
		t.Errorf("got %+v", m)
	}
}

func TestGaps(t *testing.T) {
	st := conversation.New("")
	apply := func(seq uint64, e protocol.Event) []conversation.Change {
		e.Header().SessionID = "s"
		return st.Apply(protocol.Envelope{SessionID: "s", Seq: seq, Event: e})
	}
	apply(5, text("p", "hi", protocol.PartDone))
	if c := apply(9, started("u")); c[0].Kind != conversation.GapFound || c[0].Gap != (conversation.Gap{From: 6, To: 8}) {
		t.Errorf("got %+v", c[0])
	}
	if c := apply(7, started("v")); c != nil {
		t.Errorf("an event that was skipped changed %v", c)
	}
	shot := st.Snapshot()
	if got := shot.Gaps.Slice(); !slices.Equal(got, []conversation.Gap{{From: 1, To: 4}, {From: 6, To: 8}}) {
		t.Errorf("gaps %v", got)
	}
	if shot.Turn("t").Status != conversation.TurnLost || shot.ActiveTurnID != "u" {
		t.Errorf("the turn whose end was not seen is %s", shot.Turn("t").Status)
	}
	if st.Apply(protocol.Envelope{SessionID: "other", Seq: 10, Event: started("x")}) != nil {
		t.Error("another session's event was taken")
	}
}

func TestActivity(t *testing.T) {
	s := newSession(t)
	for _, step := range []struct {
		event protocol.Event
		want  conversation.Activity
	}{
		{&protocol.SessionNotice{Kind: protocol.NoticeWarning}, conversation.Idle},
		{started("t"), conversation.Thinking},
		{message("m"), conversation.Thinking},
		{text("p", "", protocol.PartStreaming), conversation.Generating},
		{text("p", "a", protocol.PartDone), conversation.Thinking},
		{&protocol.MessagePart{TurnID: "t", MessageID: "m", PartIndex: 2, Part: &protocol.ReasoningPart{PartHeader: header("r"), State: protocol.PartStreaming}}, conversation.Thinking},
		{tool("a", &protocol.ToolPending{}), conversation.Generating},
		{&protocol.MessagePart{TurnID: "t", MessageID: "m", PartIndex: 2, Part: &protocol.ReasoningPart{PartHeader: header("r"), State: protocol.PartDone}}, conversation.Generating},
		{tool("a", &protocol.ToolInProgress{}), conversation.ToolRunning},
		{&protocol.PermissionRequested{TurnID: "t", RequestID: "q", Options: protocol.Options()}, conversation.WaitingForPermission},
		{&protocol.PermissionResolved{TurnID: "t", RequestID: "q", Outcome: protocol.Selected("allow")}, conversation.ToolRunning},
		{tool("a", &protocol.ToolCompleted{}), conversation.Thinking},
		{&protocol.TurnEnded{TurnID: "t", StopReason: protocol.StopError, Error: &protocol.TurnError{Category: "auth"}}, conversation.Failed},
		{started("u"), conversation.Thinking},
		{ended("u"), conversation.Idle},
	} {
		s.say(step.event)
		if got := s.Snapshot().Activity; got != step.want {
			t.Errorf("after %s %d: %s, want %s", step.event.EventType(), s.Seq(), got, step.want)
		}
	}
}

func TestTotals(t *testing.T) {
	s := newSession(t)
	for i := range 3 {
		e := ended(fmt.Sprint("t", i))
		e.Tokens = &protocol.Tokens{Input: 10, Output: 5, Reasoning: 1, Cache: &protocol.CacheTokens{Read: 100, Write: 7}}
		e.Cost = []*protocol.Cost{protocol.USD(0.25), {Amount: 0.5}, {Amount: 2, Currency: "EUR"}}[i]
		s.say(started(fmt.Sprint("t", i)), &protocol.SessionUsage{TurnID: e.TurnID, Used: int64(1000 * i), Size: 9000}, e, ended(fmt.Sprint("t", i)))
	}
	shot := s.Snapshot()
	got := string(encode(t, shot.Totals))
	want := `{"turns":3,"tokens":{"input":30,"output":15,"reasoning":3,"cache":{"read":300,"write":21}},"costs":[{"amount":0.75,"currency":"USD"},{"amount":2,"currency":"EUR"}]}`
	if got != want || shot.Usage.Used != 2000 {
		t.Errorf("got %s, gauge %d; want %s", got, shot.Usage.Used, want)
	}
}

func TestGroups(t *testing.T) {
	s := newSession(t)
	under := func(id, parent string) *protocol.MessageStarted {
		m := message(id)
		m.ParentToolCallID = parent
		return m
	}
	s.say(started("t"), &protocol.MessageStarted{TurnID: "t", MessageID: "echo-t", Role: protocol.RoleUser}, message("m"), tool("a", &protocol.ToolInProgress{}),
		&protocol.SessionCompaction{TurnID: "t", CompactionID: "c", Status: protocol.CompactionInProgress}, under("n", "call-a"), under("o", "call-a"),
		under("lost", "call-nowhere"), message("z"), &protocol.SessionCompaction{TurnID: "t", CompactionID: "c", Status: protocol.CompactionCompleted})
	g := s.Snapshot().Group("t")
	var got []string
	for _, item := range g.Items {
		if item.Compaction != nil {
			got = append(got, "compaction "+string(item.Compaction.Status))
			continue
		}
		got = append(got, string(item.Message.ID))
		for _, node := range item.Parts {
			for _, sub := range node.Subagent {
				got = append(got, "under "+string(node.Part.Part.Header().ID)+" "+string(sub.Message.ID))
			}
		}
	}
	if want := []string{"m", "under a n", "under a o", "compaction completed", "lost", "z"}; !slices.Equal(got, want) || g.Prompt.ID != "echo-t" {
		t.Errorf("got %q, want %q", got, want)
	}
	if sub := s.Snapshot().Subagent("call-a"); len(sub) != 2 || sub[1].ID != "o" {
		t.Errorf("the sub-agent has %d messages", len(sub))
	}
	if p := s.Snapshot().ToolCall("call-a"); p == nil || p.Part.Header().ID != "a" {
		t.Errorf("ToolCall: %v", p)
	}
}

// TestGroupsOfATangle has tool calls whose messages stand under each other.
func TestGroupsOfATangle(t *testing.T) {
	s := newSession(t)
	s.say(started("t"))
	for i, parent := range []string{"call-1", "call-0"} {
		id := fmt.Sprint("m", i)
		m := message(id)
		m.ParentToolCallID = parent
		p := tool(fmt.Sprint(i), &protocol.ToolInProgress{})
		p.MessageID = protocol.MessageID(id)
		s.say(m, p)
	}
	if g := s.Snapshot().Group("t"); len(g.Items) != 0 {
		t.Errorf("got %v", g.Items)
	}
}

// TestPartsAreSorted has a part come after one of a higher index, as it can behind a gap.
func TestPartsAreSorted(t *testing.T) {
	s := newSession(t)
	s.say(started("t"), message("m"))
	for _, i := range []int{2, 0, 1} {
		e := text(fmt.Sprint("p", i), fmt.Sprint(i), protocol.PartDone)
		e.PartIndex = i
		s.say(e)
	}
	s.expect(s.Snapshot().Message("m").Text(), "012")
	parsed, err := conversation.Parse(encode(t, s.Snapshot()))
	if err != nil {
		t.Fatal(err)
	}
	s.expect(parsed.Message("m").Text(), "012")
}

func TestSessionEndsAndGoesOn(t *testing.T) {
	no := false
	s := newSession(t)
	s.say(started("t"), &protocol.SessionCreated{NativeSessionID: "n", Harness: "mock", Model: "m1", Resumed: &no}, ended("t"))
	s.expect(s.say(&protocol.SessionEnded{Reason: protocol.EndIdle}), "session")
	if e := s.Snapshot().Session.Ended; e == nil || e.Reason != protocol.EndIdle {
		t.Errorf("got %+v", e)
	}
	s.expect(s.say(started("u")), "session turn activity")
	if got := s.Snapshot().Session; got.Ended != nil || got.Model != "m1" || *got.Resumed {
		t.Errorf("got %+v", got)
	}
}

// TestStateJSON pins the JSON form.
func TestStateJSON(t *testing.T) {
	s := newSession(t)
	unknown, err := protocol.DecodeEvent([]byte(`{"type":"x.y","sessionId":"s","timestamp":9,"z":[1, 2]}`))
	if err != nil {
		t.Fatal(err)
	}
	before := int64(7)
	s.say(&protocol.TurnStarted{EventHeader: protocol.EventHeader{Meta: protocol.Meta{}.With(protocol.MetaOrigin, "agent")}, TurnID: "t"},
		&protocol.SessionCreated{NativeSessionID: "n", Harness: "mock"}, message("m"), text("p", "<b>", protocol.PartDone), tool("a", &protocol.ToolPending{}),
		delta("a", &protocol.ToolInputDelta{ToolCallID: "call-a", ToolName: "Bash", Input: `{"`}),
		&protocol.PermissionRequested{TurnID: "t", RequestID: "r", Title: "ls?", Options: protocol.Options()[:1]},
		&protocol.SessionCompaction{TurnID: "t", CompactionID: "c", Status: protocol.CompactionCompleted, PreTokens: &before},
		&protocol.SessionUsage{TurnID: "t", Used: 1}, &protocol.ErrorEvent{TurnID: "t", Category: "network", Message: "x", Recoverable: true},
		&protocol.SessionNotice{TurnID: "t", Kind: "retry", Message: "again"})
	s.Apply(protocol.Envelope{SessionID: "s", Seq: 14, Event: unknown})
	got, err := s.Snapshot().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		`{"version":1,"sessionId":"s","seq":14,"gaps":[{"from":12,"to":13}],"session":{"harness":"mock","nativeSessionId":"n","createdAt":2000},`,
		`"activity":"waiting_for_permission","activeTurnId":"t","timeline":[`,
		`{"type":"message","message":{"messageId":"m","turnId":"t","seq":3,"outputIndex":1,"role":"assistant","startedAt":3000,"open":true,"parts":[`,
		`{"partIndex":0,"seq":4,"part":{"type":"text","id":"p","sessionId":"s","messageId":"m","text":"<b>","state":"done"}},`,
		`{"partIndex":1,"seq":5,"part":{"type":"tool","id":"a","sessionId":"s","messageId":"m","toolCallId":"call-a","toolName":"Bash","state":{"status":"pending","partialInput":"{\""}}}]}},`,
		`{"type":"compaction","compaction":{"compactionId":"c","turnId":"t","seq":8,"at":8000,"status":"completed","preTokens":7}}],`,
		`"turns":[{"turnId":"t","seq":1,"status":"running","origin":"agent","startedAt":1000,"_meta":{"agent-server/origin":"agent"}}],`,
		`"permissions":[{"requestId":"r","turnId":"t","seq":7,"at":7000,"title":"ls?","options":[{"optionId":"allow","name":"Allow","kind":"allow_once"}]}],`,
		`"usage":{"turnId":"t","used":1,"at":9000},"totals":{"turns":0,"tokens":{"input":0,"output":0}},`,
		`"errors":[{"seq":10,"turnId":"t","at":10000,"category":"network","message":"x","recoverable":true}],`,
		`"notice":{"seq":11,"turnId":"t","at":11000,"kind":"retry","message":"again"},`,
		`"unknown":[{"seq":14,"event":{"type":"x.y","sessionId":"s","timestamp":9,"z":[1,2]}}]}`,
	}, "")
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, data := range map[string]string{
		"no JSON":              `{`,
		"another version":      `{"version":2}`,
		"an empty entry":       `{"version":1,"timeline":[{"type":"message"}]}`,
		"an unknown turn":      `{"version":1,"timeline":[{"type":"compaction","compaction":{"compactionId":"c","turnId":"t"}}]}`,
		"a null turn":          `{"version":1,"turns":[null]}`,
		"a turn twice":         `{"version":1,"turns":[{"turnId":"t"},{"turnId":"t"}]}`,
		"an active turn ended": `{"version":1,"activeTurnId":"t","turns":[{"turnId":"t","status":"ended"}]}`,
		"a null part":          `{"version":1,"turns":[{"turnId":"t"}],"timeline":[{"type":"message","message":{"messageId":"m","turnId":"t","parts":[null]}}]}`,
		"a malformed part":     `{"version":1,"turns":[{"turnId":"t"}],"timeline":[{"type":"message","message":{"messageId":"m","turnId":"t","parts":[{"part":{"type":"text"}}]}}]}`,
		"a null permission":    `{"version":1,"permissions":[null]}`,
		"a null error":         `{"version":1,"errors":[null]}`,
		"a null unknown event": `{"version":1,"unknown":[null]}`,
		"a malformed unknown":  `{"version":1,"unknown":[{"seq":1,"event":{"type":"turn.started"}}]}`,
	} {
		if _, err := conversation.Parse([]byte(data)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
