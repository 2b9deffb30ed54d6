package claude

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

var update = flag.Bool("update", false, "write the golden files")

// TestFixtures replays recorded conversations: what the CLI printed is fed to the translator, the events are compared with golden files, and
// what the recording sent is what we send.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/v*/*.jsonl")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".jsonl")
		t.Run(name, func(t *testing.T) { replay(t, file) })
	}
}

type record struct {
	Dir string          `json:"dir"`
	Msg json.RawMessage `json:"msg"`
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
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// A player stands for the session and the engine.
type player struct {
	t     *testing.T
	tr    *translator
	log   []string
	ids   map[string]string // request ids: the recording's → ours
	asked map[string]harness.Permission
	users int
}

func replay(t *testing.T, file string) {
	p := &player{t: t, tr: newTranslator(), ids: map[string]string{}, asked: map[string]harness.Permission{}}
	p.tr.decide = func(string, harness.Decision) error { return nil }
	for _, r := range readRecords(t, file) {
		switch r.Dir {
		case "in":
			p.input(r.Msg)
		case "out":
			p.tr.line(p.translateID(r.Msg))
			p.drain()
		}
	}
	golden := strings.TrimSuffix(file, ".jsonl") + ".golden"
	got := strings.Join(p.log, "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v (go test ./harness/claude -run TestFixtures -update writes it; read it before you commit it)", err)
	}
	if got != string(want) {
		t.Errorf("events differ from %s; got:\n%s", golden, got)
	}
}

// translateID gives the answers to the recording's requests the ids that we used.
func (p *player) translateID(line []byte) []byte {
	id := jsonscan.String(jsonscan.Get(jsonscan.Get(line, "response"), "request_id"))
	if ours := p.ids[id]; ours != "" {
		return bytes.Replace(line, []byte(id), []byte(ours), 1)
	}
	return line
}

// drain logs what the translator wants. Lines for the CLI begin with ">".
func (p *player) drain() {
	for _, e := range p.tr.events {
		if ask, ok := e.(harness.Permission); ok {
			p.asked[ask.Key] = ask
		}
		p.log = append(p.log, show(e))
	}
	for _, line := range p.tr.out {
		p.log = append(p.log, "> "+string(line))
	}
	p.tr.events, p.tr.out, p.tr.responses = nil, nil, nil
}

// input does what the recording's host did, and checks that we send the same.
func (p *player) input(want json.RawMessage) {
	switch jsonscan.String(jsonscan.Get(want, "type")) {
	case "user":
		p.user(want)
	case "control_request":
		p.request(want)
	case "control_response":
		p.answer(want)
	}
}

func (p *player) user(want []byte) {
	p.users++
	uuid := jsonscan.String(jsonscan.Get(want, "uuid"))
	if uuid == "" {
		uuid = fmt.Sprintf("user-%d", p.users)
	}
	line, err := userLine(uuid, inputOfRecord(p.t, jsonscan.Get(want, "message")))
	if err != nil {
		p.t.Fatal(err)
	}
	if len(jsonscan.Get(jsonscan.Get(want, "message"), "content")) > 0 && jsonscan.Get(jsonscan.Get(want, "message"), "content")[0] == '[' {
		p.same("user message", jsonscan.Get(line, "message"), jsonscan.Get(want, "message"))
	}
	if p.tr.turn.active { // the recording used the CLI's queue; we steer
		p.log = append(p.log, fmt.Sprintf("# steer %s: %t", uuid, p.tr.steer(&steer{uuid: uuid, line: line, done: make(chan bool, 1)})))
	} else {
		p.log = append(p.log, "# send "+uuid)
		p.tr.begin(uuid, line)
	}
	p.drain()
}

func inputOfRecord(t *testing.T, message []byte) protocol.Input {
	var m apiMessage
	if err := json.Unmarshal(message, &m); err != nil {
		t.Fatal(err)
	}
	var in protocol.Input
	for _, b := range m.Content {
		item := protocol.InputItem{Type: protocol.PartType(b.Type), Text: b.Text}
		if b.Source != nil {
			item.Data, item.MimeType, item.URL = b.Source.Data, b.Source.MediaType, b.Source.URL
		}
		in = append(in, item)
	}
	return in
}

func (p *player) request(want []byte) {
	request := jsonscan.Get(want, "request")
	id := jsonscan.String(jsonscan.Get(want, "request_id"))
	switch jsonscan.String(jsonscan.Get(request, "subtype")) {
	case "initialize":
		if jsonscan.Get(request, "forwardSubagentText") != nil {
			p.contains(encode(handshakeRequest(harness.Spec{})), "forwardSubagentText", jsonscan.Get(request, "forwardSubagentText"))
		}
	case "interrupt":
		p.log = append(p.log, "# interrupt")
		if !p.tr.busy() {
			return
		}
		p.tr.interrupt()
		for _, line := range p.tr.out {
			if jsonscan.Equal(jsonscan.Get(jsonscan.Get(line, "request"), "subtype"), "interrupt") {
				p.ids[id] = jsonscan.String(jsonscan.Get(line, "request_id"))
				p.same("envelope", without(line, "request_id", "request"), without(want, "request_id", "request"))
			}
		}
		p.drain()
	}
}

// answer decides as the recording did.
func (p *player) answer(want []byte) {
	response := jsonscan.Get(want, "response")
	id := jsonscan.String(jsonscan.Get(response, "request_id"))
	ask, open := p.asked[id]
	body := jsonscan.Get(response, "response")
	if !open || body == nil {
		return
	}
	d := harness.Decision{Allow: jsonscan.Equal(jsonscan.Get(body, "behavior"), "allow") || jsonscan.Equal(jsonscan.Get(body, "action"), "accept")}
	d.Message = jsonscan.String(jsonscan.Get(body, "message"))
	if edited := jsonscan.Get(body, "updatedInput"); edited != nil && !sameJSON(edited, ask.Tool.RawInput) {
		d.UpdatedInput = edited
	}
	if content := jsonscan.Get(body, "content"); content != nil {
		d.UpdatedInput = content
	}
	got := p.tr.answer(ask.Key, d)
	if got == nil {
		p.t.Errorf("request %s is not open", id)
		return
	}
	p.drain()
	gotBody := jsonscan.Get(jsonscan.Get(got, "response"), "response")
	// We do not store rules, do not let a refusal end the turn, and always echo the input.
	expected := without(body, "updatedPermissions", "interrupt", "decisionClassification", "toolUseID")
	if jsonscan.Get(body, "updatedInput") == nil {
		gotBody = without(gotBody, "updatedInput")
	}
	p.same("answer", gotBody, expected)
	p.same("envelope", without(jsonscan.Get(got, "response"), "response"), without(response, "response"))
}

func (p *player) contains(obj []byte, name string, want []byte) {
	p.same(name, jsonscan.Get(obj, name), want)
}

func (p *player) same(what string, got, want []byte) {
	if !sameJSON(got, want) {
		p.t.Errorf("%s: sent %s, want %s", what, got, want)
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func without(obj []byte, names ...string) []byte {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(obj, &m)
	for _, n := range names {
		delete(m, n)
	}
	return encode(m)
}

// show writes an event on one line.
func show(e harness.Event) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", e), "harness.")
	v := reflect.ValueOf(e)
	var b strings.Builder
	b.WriteString(name)
	for i := range v.NumField() {
		f := v.Field(i)
		field := v.Type().Field(i).Name
		if f.IsZero() || f.Kind() == reflect.Func {
			continue
		}
		fmt.Fprintf(&b, " %s=%s", field, showValue(f.Interface()))
	}
	return b.String()
}

func showValue(v any) string {
	if part, ok := v.(protocol.Part); ok {
		part.Header().ID, part.Header().SessionID, part.Header().MessageID = "-", "-", "-"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(data)
}
