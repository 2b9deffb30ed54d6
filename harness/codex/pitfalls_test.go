package codex

import (
	"fmt"
	"strings"
	"testing"

	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// startedTranslator has a thread, and a turn that codex has taken but not begun.
func startedTranslator(t *testing.T) *translator {
	t.Helper()
	tr := newTranslator()
	tr.decide = func(string, harness.Decision) error { return nil }
	tr.begun("thread", "model", true)
	tr.begin("turn/start", object{})
	tr.line(fmt.Appendf(nil, `{"id":%d,"result":{"turn":{"id":"turn"}}}`, tr.turn.call))
	tr.out = nil
	return tr
}

func (t *translator) play(lines ...string) []harness.Event {
	for _, line := range lines {
		t.line([]byte(line))
	}
	events := t.events
	t.events = nil
	return events
}

func (t *translator) sent() string {
	var all []string
	for _, line := range t.out {
		all = append(all, string(line))
	}
	t.out = nil
	return strings.Join(all, "\n")
}

const (
	turnBegins = `{"method":"turn/started","params":{"threadId":"thread","turn":{"id":"turn"}}}`
	turnEnds   = `{"method":"turn/completed","params":{"threadId":"thread","turn":{"id":"turn","status":"completed"}}}`
	turnStops  = `{"method":"turn/completed","params":{"threadId":"thread","turn":{"id":"turn","status":"interrupted"}}}`
)

// The policy under which codex runs an approved command twice is not used.
func TestNoModeIsUntrusted(t *testing.T) {
	for mode, p := range policies {
		if p.approval != "on-request" && p.approval != "never" {
			t.Errorf("%q: %s", mode, p.approval)
		}
	}
}

// An interrupt before turn/started finds no turn, and is forgotten by codex.
func TestInterruptWaitsForTheTurn(t *testing.T) {
	tr := startedTranslator(t)
	confirmed := tr.interrupt()
	if sent := tr.sent(); sent != "" {
		t.Errorf("sent too early: %s", sent)
	}
	tr.play(turnBegins)
	sent := tr.sent()
	if !strings.Contains(sent, `"turn/interrupt","params":{"threadId":"thread","turnId":"turn"}`) || !strings.Contains(sent, "backgroundTerminals/clean") {
		t.Errorf("sent %s", sent)
	}
	tr.play(turnStops)
	select {
	case <-confirmed:
		t.Error("confirmed before the commands were killed")
	default:
	}
	tr.play(fmt.Sprintf(`{"id":%d,"result":{}}`, tr.lastID-1), fmt.Sprintf(`{"id":%d,"result":{}}`, tr.lastID))
	<-confirmed
}

// A turn/start while codex works on a turn of its own joins that one.
func TestTurnStartThatIsASteer(t *testing.T) {
	tr := newTranslator()
	tr.begun("thread", "model", true)
	tr.play(strings.ReplaceAll(turnBegins, `"turn"}`, `"own"}`))
	tr.begin("turn/start", object{})
	tr.play(fmt.Sprintf(`{"id":%d,"result":{"turn":{"id":"own"}}}`, tr.turn.call))
	if !tr.turn.begun {
		t.Fatal("the turn has not begun")
	}
	events := tr.play(strings.ReplaceAll(turnEnds, `"turn",`, `"own",`))
	if end, ok := events[len(events)-1].(harness.TurnEnd); !ok || end.StopReason != protocol.StopEndTurn {
		t.Errorf("%+v", events)
	}
}

// Codex's requests have ids of their own, which begin at 0 as well; an answer with another JSON type is ignored by it.
func TestRequestIDs(t *testing.T) {
	for _, id := range []string{`0`, `"0"`, `1`, `"abc"`} {
		tr := startedTranslator(t)
		tr.play(turnBegins)
		tr.request("thread/read", object{})
		tr.out = nil
		events := tr.play(`{"method":"item/commandExecution/requestApproval","id":` + id + `,"params":{"threadId":"thread","turnId":"turn","itemId":"i","command":"ls"}}`)
		ask, ok := events[len(events)-1].(harness.Permission)
		if !ok || len(tr.answers) != 1 { // that of turn/start
			t.Fatalf("%s: %+v, answers %+v", id, events, tr.answers)
		}
		tr.answer(ask.Key, harness.Decision{Allow: true})
		if sent := tr.sent(); sent != `{"id":`+id+`,"result":{"decision":"accept"}}` {
			t.Errorf("%s: sent %s", id, sent)
		}
		tr.answer(ask.Key, harness.Decision{}) // the second answer is none
		if sent := tr.sent(); sent != "" {
			t.Errorf("%s: answered twice: %s", id, sent)
		}
	}
}

// Whatever a newer codex asks gets an answer: it would wait for ever.
func TestUnknownRequestIsRefused(t *testing.T) {
	tr := startedTranslator(t)
	tr.play(turnBegins, `{"id":7,"method":"item/tool/call","params":{}}`, `{"id":8,"method":"something/new","params":{}}`)
	if sent := tr.sent(); strings.Count(sent, "-32601") != 2 {
		t.Errorf("sent %s", sent)
	}
}

// With nobody to answer, a question is refused at once and the engine does not hear of it.
func TestNobodyToAnswer(t *testing.T) {
	tr := startedTranslator(t)
	tr.asks = false
	events := tr.play(turnBegins, `{"id":0,"method":"item/fileChange/requestApproval","params":{"threadId":"thread","itemId":"i"}}`,
		`{"id":1,"method":"mcpServer/elicitation/request","params":{"threadId":"thread","serverName":"s"}}`)
	for _, e := range events {
		if _, ok := e.(harness.Permission); ok {
			t.Errorf("%+v", e)
		}
	}
	if sent := tr.sent(); !strings.Contains(sent, `"decision":"decline"`) || !strings.Contains(sent, `"action":"decline"`) {
		t.Errorf("sent %s", sent)
	}
}

// An error that is retried is told, the end of it comes once, with turn/completed.
func TestErrorsTravelTwice(t *testing.T) {
	tr := startedTranslator(t)
	failure := `{"message":"exceeded retry limit, last status: 429","codexErrorInfo":{"responseTooManyFailedAttempts":{"httpStatusCode":429}}}`
	events := tr.play(turnBegins,
		`{"method":"error","params":{"threadId":"thread","willRetry":true,"error":{"message":"Reconnecting... 2/5","additionalDetails":"status 500"}}}`,
		`{"method":"error","params":{"threadId":"thread","willRetry":false,"error":`+failure+`}}`,
		`{"method":"turn/completed","params":{"threadId":"thread","turn":{"id":"turn","status":"failed","error":`+failure+`}}}`)
	var failures, notices, ends int
	for _, e := range events {
		switch e := e.(type) {
		case harness.Failure:
			failures++
		case harness.Notice:
			notices++
			if e.Kind != protocol.NoticeRetry || e.Progress == nil || e.Progress.Done != 2 || e.Progress.Total != 5 {
				t.Errorf("%+v", e)
			}
		case harness.TurnEnd:
			ends++
			if e.Error == nil || e.Error.Category != protocol.CategoryRateLimit {
				t.Errorf("%+v", e)
			}
		}
	}
	if failures != 1 || notices != 1 || ends != 1 {
		t.Errorf("%d failures, %d notices, %d ends", failures, notices, ends)
	}
}

// What a newer codex has is kept, and never fatal.
func TestUnknownThings(t *testing.T) {
	tr := startedTranslator(t)
	tr.raw = true
	events := tr.play(turnBegins, `{"method":"something/new","params":[1]}`, `not json`, `[]`, `{}`, `{"id":null,"result":1}`,
		`{"method":"item/started","params":{"threadId":"thread","turnId":"turn","item":{"type":"newThing","id":"n","what":{"x":1}}}}`,
		`{"method":"item/completed","params":{"threadId":"thread","turnId":"turn","item":{"type":"newThing","id":"n","what":{"x":2}}}}`,
		`{"method":"item/completed","params":{"threadId":7,"item":{"type":"commandExecution","id":"c","exitCode":"odd","status":3}}}`, turnEnds)
	raws, tools, ends := 0, 0, 0
	for _, e := range events {
		switch e := e.(type) {
		case harness.Raw:
			raws++
		case harness.TurnEnd:
			ends++
		case harness.PartUpdate:
			if part := e.Part.(*protocol.ToolPart); part.ToolName == "newThing" && part.State.Status() == protocol.ToolStatusCompleted {
				tools++
				if done := part.State.(*protocol.ToolCompleted); jsonscan.Get(jsonscan.Get(done.Input, "what"), "x") == nil {
					t.Errorf("%s", done.Input)
				}
			}
		}
	}
	if raws != 9 || tools != 1 || ends != 1 {
		t.Errorf("%d raw lines, %d tools, %d ends", raws, tools, ends)
	}
}

// What earlier processes have used is told after a resume, even when the next turn has begun. It is not that turn's.
func TestUsageAfterResume(t *testing.T) {
	tr := newTranslator()
	tr.begun("thread", "model", false)
	tr.begin("turn/start", object{})
	tr.play(fmt.Sprintf(`{"id":%d,"result":{"turn":{"id":"turn"}}}`, tr.turn.call), turnBegins)
	usage := `{"method":"thread/tokenUsage/updated","params":{"threadId":"thread","turnId":%q,"tokenUsage":{"total":{"totalTokens":%d,"inputTokens":%d},"last":{"totalTokens":100,"inputTokens":100}}}}`
	events := tr.play(fmt.Sprintf(usage, "earlier", 1000, 1000), fmt.Sprintf(usage, "turn", 1100, 1100), turnEnds)
	if end, ok := events[len(events)-1].(harness.TurnEnd); !ok || end.Tokens == nil || end.Tokens.Input != 100 {
		t.Errorf("%+v", events)
	}
	// Without that, the turn's own first call tells it.
	tr = newTranslator()
	tr.begun("thread", "model", false)
	tr.begin("turn/start", object{})
	events = tr.play(turnBegins, fmt.Sprintf(usage, "turn", 1100, 1100), fmt.Sprintf(usage, "turn", 1200, 1200), turnEnds)
	if end, ok := events[len(events)-1].(harness.TurnEnd); !ok || end.Tokens == nil || end.Tokens.Input != 200 {
		t.Errorf("%+v", events)
	}
}

// A turn that only waits for the network is ended.
func TestGiveUp(t *testing.T) {
	tr := startedTranslator(t)
	tr.play(turnBegins, `{"method":"error","params":{"threadId":"thread","willRetry":true,"error":{"message":"Reconnecting... waiting for network"}}}`)
	tr.giveUp()
	if sent := tr.sent(); !strings.Contains(sent, "turn/interrupt") {
		t.Errorf("sent %s", sent)
	}
	events := tr.play(turnStops)
	if end, ok := events[len(events)-1].(harness.TurnEnd); !ok || end.Error == nil || end.Error.Category != protocol.CategoryNetwork {
		t.Errorf("%+v", events)
	}
}

func TestUnwrapShell(t *testing.T) {
	for command, want := range map[string]string{
		`/bin/bash -lc 'echo it'\''s'`: "echo it's",
		`/bin/bash -lc ls`:             "ls",
		`/bin/sh -c "echo \"x\" \$y"`:  `echo "x" $y`,
		`make -C dir -c x`:             "make -C dir -c x",
		`ls`:                           "ls",
		``:                             "",
	} {
		if got := unwrapShell(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		version, least string
		want           bool
	}{{"0.170.9", "0.171.0", true}, {"0.171.0", "0.171.0", false}, {"1.0", "0.171.0", false}, {"", "0.171.0", false}, {"unknown", "0.171.0", false}, {"0.171.0-alpha", "0.171.0", true}} {
		if got := older(c.version, c.least); got != c.want {
			t.Errorf("%s < %s: %t", c.version, c.least, got)
		}
	}
}

func TestProviderWithKey(t *testing.T) {
	own := providerWith([]byte(`{"model_provider":"p","model_providers":{"p":{"name":"P","base_url":"http://x","env_key":"K","http_headers":null}}}`), "secret")
	if own.id != "p" || own.settings["env_key"] != nil || own.settings["base_url"] != "http://x" || own.settings["experimental_bearer_token"] != "secret" {
		t.Errorf("%+v", own)
	}
	for _, config := range []string{`{}`, `{"model_provider":null}`, `{"model_provider":"openai"}`} {
		if p := providerWith([]byte(config), "secret"); p.id != ownProvider || p.settings["base_url"] != "https://api.openai.com/v1" {
			t.Errorf("%s: %+v", config, p)
		}
	}
	if p := providerWith([]byte(`{"openai_base_url":"http://y"}`), "secret"); p.settings["base_url"] != "http://y" {
		t.Errorf("%+v", p)
	}
}

// FuzzLine feeds any line in any state: it must not panic, and a turn ends at most once.
func FuzzLine(f *testing.F) {
	for _, line := range []string{turnBegins, turnEnds, turnStops, `{"id":1,"result":{"turn":{"id":"turn"}}}`,
		`{"method":"item/started","params":{"threadId":"thread","turnId":"turn","item":{"type":"commandExecution","id":"c","command":"/bin/bash -lc 'x'","commandActions":[{"type":"read","path":"a"}]}}}`,
		`{"method":"item/completed","params":{"threadId":"thread","turnId":"turn","item":{"type":"fileChange","id":"f","status":"completed","changes":[{"path":"a","kind":{"type":"update"},"diff":"@@ -1 +1 @@\n-a\n+b\n"}]}}}`,
		`{"id":0,"method":"mcpServer/elicitation/request","params":{"_meta":{"codex_approval_kind":"mcp_tool_call"}}}`} {
		f.Add([]byte(line), []byte(turnEnds))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		tr := startedTranslator(t)
		x := newExecRun("t-", "")
		for _, line := range [][]byte{a, b, a} {
			tr.line(line)
			x.line(line)
		}
		tr.settleAll()
		x.finish(harness.TurnEnd{StopReason: protocol.StopEndTurn}, x.usage)
		ends := 0
		for _, e := range x.t.events {
			if _, ok := e.(harness.TurnEnd); ok {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("%d ends", ends)
		}
	})
}
