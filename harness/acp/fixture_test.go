package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentserver/harness"
	"agentserver/internal/transport"
	"agentserver/protocol"
)

var updateGolden = flag.Bool("update", false, "write the golden files")

// TestFixtures replays recorded conversations with real agents: what the agent said is fed to the translator, the events are compared with golden
// files, and our answers to permission requests with those that the recording's client gave.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) { replay(t, file) })
	}
}

type record struct {
	Dir string `json:"dir"`
	T   int    `json:"t"`
	Msg struct {
		ID     json.RawMessage  `json:"id"`
		Method string           `json:"method"`
		Params json.RawMessage  `json:"params"`
		Result json.RawMessage  `json:"result"`
		Error  *transport.Error `json:"error"`
	} `json:"msg"`
}

func readRecords(t *testing.T, file string) []record {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var records []record
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // what is no message is the transport's business
		}
		records = append(records, r)
	}
	return records
}

// A player stands for the session and the engine.
type player struct {
	t       *testing.T
	tr      *translator
	log     []string
	calls   map[string]string             // methods of our requests, by id
	asked   map[string]harness.Permission // the agent's requests, by id
	options map[string][]permissionOption
	replies map[string]string
	settles int // when the open turn's settle time is over
}

func replay(t *testing.T, file string) {
	p := &player{t: t, tr: newTranslator(), calls: map[string]string{}, asked: map[string]harness.Permission{}, options: map[string][]permissionOption{},
		replies: map[string]string{}}
	p.tr.sessionCancel = func() { p.log = append(p.log, "> session/cancel") }
	for _, r := range readRecords(t, file) {
		p.clock(r.T)
		if r.Dir == "out" {
			p.sent(&r)
		} else if r.Dir == "in" {
			p.received(&r)
		}
		p.drain()
	}
	p.clock(1 << 30)
	p.drain()
	golden := strings.TrimSuffix(file, ".jsonl") + ".golden"
	got := strings.Join(p.log, "\n") + "\n"
	if *updateGolden {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v (go test ./harness/acp -run TestFixtures -update writes it; read it before you commit it)", err)
	}
	if got != string(want) {
		t.Errorf("events differ from %s; got:\n%s", golden, got)
	}
}

// clock ends turns whose settle time is over.
func (p *player) clock(now int) {
	for p.tr.turn.answer != nil && now > p.settles {
		p.tr.tick()
		p.settles += 1000
		p.drain()
	}
}

// settle ends a turn that was answered, as the engine waits for it.
func (p *player) settle() { p.clock(1 << 30) }

func (p *player) sent(r *record) {
	switch r.Msg.Method {
	case "":
		p.compare(string(r.Msg.ID), r)
		return
	case "session/prompt":
		p.settle()
		p.tr.begin()
	case "session/cancel":
		p.tr.interrupt()
	case "session/load", "session/resume":
		var params updateParams
		lenient(r.Msg.Params, &params)
		p.tr.session, p.tr.phase = params.SessionID, replaying
	}
	p.calls[string(r.Msg.ID)] = r.Msg.Method
}

// compare gives the recorded answer as a decision, and checks that it becomes the same answer.
func (p *player) compare(id string, r *record) {
	ask, ok := p.asked[id]
	if !ok {
		return
	}
	delete(p.asked, id)
	var want struct {
		Outcome struct{ Outcome, OptionID string }
	}
	lenient(r.Msg.Result, &want)
	i := slices.IndexFunc(p.options[id], func(o permissionOption) bool { return o.ID == want.Outcome.OptionID })
	if i < 0 { // cancelled
		return
	}
	p.tr.resolve(ask.Key, harness.Decision{Allow: strings.HasPrefix(p.options[id][i].Kind, "allow")})
	p.drain()
	if got := p.replies[id]; !strings.Contains(got, `"`+want.Outcome.OptionID+`"`) {
		p.t.Errorf("our answer to the permission request %s is %s, the recording's %s", id, got, r.Msg.Result)
	}
}

func (p *player) received(r *record) {
	id := string(r.Msg.ID)
	switch {
	case r.Msg.Method == "session/update":
		p.tr.update(r.Msg.Params)
	case r.Msg.Method == "session/request_permission":
		var params permissionParams
		lenient(r.Msg.Params, &params)
		p.options[id] = params.Options
		p.tr.permission(id, r.Msg.Params, func(result any) { p.replies[id] = string(encode(result)) })
		for _, e := range p.tr.events {
			if ask, ok := e.(harness.Permission); ok {
				p.asked[id] = ask
			}
		}
	case r.Msg.Method == "$/cancel_request":
		var params struct{ RequestID json.RawMessage }
		lenient(r.Msg.Params, &params)
		p.tr.withdraw(string(params.RequestID))
	case r.Msg.Method == "":
		p.response(p.calls[id], r)
		delete(p.calls, id)
	}
}

func (p *player) response(method string, r *record) {
	switch method {
	case "session/new", "session/load", "session/resume":
		if r.Msg.Error != nil {
			p.log = append(p.log, fmt.Sprintf("%s failed: %d %s", method, r.Msg.Error.Code, errorText(r.Msg.Error)))
			if method != "session/new" && p.tr.phase == replaying {
				p.tr.phase = connecting
			}
			return
		}
		var s sessionResult
		lenient(r.Msg.Result, &s)
		p.tr.settings.load(&s)
		if method != "session/new" {
			p.tr.resumed = new(bool)
			*p.tr.resumed = true
		}
		p.tr.goLive(orElse(s.SessionID, p.tr.session))
		for _, kind := range []settingKind{kindModel, kindMode, kindThought} {
			if c, ok := p.tr.settings.find(kind); ok {
				p.log = append(p.log, fmt.Sprintf("%s by %s: %s of %s", kind, c.method, c.current, c.list()))
			}
		}
	case "session/prompt":
		p.tr.answered(r.Msg.Result, r.Msg.Error)
		p.settles = r.T + 150
	}
}

func (p *player) drain() {
	for _, e := range p.tr.events {
		p.log = append(p.log, show(e))
	}
	for _, send := range p.tr.out {
		send()
	}
	p.tr.events, p.tr.out = nil, nil
}

// show writes an event as a line.
func show(e harness.Event) string {
	switch e := e.(type) {
	case harness.SessionStarted:
		return fmt.Sprintf("session %s %s", e.NativeSessionID, e.Model)
	case harness.MessageStarted:
		return "message"
	case harness.Delta:
		return fmt.Sprintf("%s %s %q", e.Key, e.Type, e.Text)
	case harness.PartUpdate:
		return fmt.Sprintf("%s = %s", e.Key, showPart(e.Part))
	case harness.Permission:
		return fmt.Sprintf("permission %s: %s %s", e.Key, e.Title, encode(e.Tool))
	case harness.TurnEnd:
		text := fmt.Sprintf("end %s (%s)", e.StopReason, e.FinishReason)
		if e.Error != nil {
			text += fmt.Sprintf(" error %s: %s", e.Error.Category, e.Error.Message)
		}
		for _, f := range []struct {
			name string
			v    any
		}{{"tokens", e.Tokens}, {"cost", e.Cost}} {
			if s := string(encode(f.v)); s != "null" {
				text += " " + f.name + " " + s
			}
		}
		return text + " " + string(e.Meta)
	}
	return fmt.Sprintf("%T %s", e, encode(e))
}

func showPart(part protocol.Part) string {
	switch part := part.(type) {
	case *protocol.TextPart:
		return fmt.Sprintf("text %s %q", part.State, part.Text)
	case *protocol.ReasoningPart:
		return fmt.Sprintf("reasoning %s %q", part.State, part.Text)
	case *protocol.ToolPart:
		return fmt.Sprintf("%s (%s) %q %s %s", part.ToolName, part.Kind, part.Title, encode(part.Locations), encode(part.State))
	}
	return string(encode(part))
}
