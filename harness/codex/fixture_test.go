package codex

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

// TestFixtures replays recorded conversations: what codex printed is fed to the translator, and events and answers are compared with golden files.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.jsonl")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".jsonl"), func(t *testing.T) {
			records := readRecords(t, file)
			if strings.Contains(file, "/exec/") {
				golden(t, file, playExec(records))
				return
			}
			p := &player{t: t, tr: newTranslator(), methods: map[string]string{}}
			p.tr.decide = func(string, harness.Decision) error { return nil }
			for _, r := range records {
				switch r.Dir {
				case "in":
					p.in(r.Msg)
				case "out":
					p.out(r.Msg)
				}
			}
			if p.begun != p.ended+p.running() {
				t.Errorf("%d turns begun, %d ended", p.begun, p.ended)
			}
			golden(t, file, p.log)
		})
	}
}

func golden(t *testing.T, file string, log []string) {
	t.Helper()
	name := strings.TrimSuffix(file, ".jsonl") + ".golden"
	got := strings.Join(log, "\n") + "\n"
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v (go test ./harness/codex -run TestFixtures -update writes it; read it before you commit it)", err)
	}
	if got != string(want) {
		t.Errorf("events differ from %s; got:\n%s", name, got)
	}
}

// A player stands for the session and the engine.
type player struct {
	t            *testing.T
	tr           *translator
	log          []string
	methods      map[string]string // of the recording's own calls that open threads, by id
	begun, ended int
}

func (p *player) running() int {
	if p.tr.turn.active {
		return 1
	}
	return 0
}

// in does what the recording's host did. Its calls keep their ids.
func (p *player) in(msg json.RawMessage) {
	method := jsonscan.String(jsonscan.Get(msg, "method"))
	id, numbered := jsonscan.Int(jsonscan.Get(msg, "id"))
	switch {
	case method == "" && numbered:
		p.answer(string(jsonscan.Get(msg, "id")), jsonscan.Get(msg, "result"))
	case !numbered:
	case method == "turn/start" || method == "thread/compact/start":
		if p.tr.turn.active {
			p.log = append(p.log, "# "+method+" while a turn runs")
			return
		}
		p.begun++
		p.log = append(p.log, "# "+method)
		p.tr.manual = method != "turn/start"
		p.tr.begin(method, object{})
		delete(p.tr.awaited, p.tr.turn.call)
		p.tr.turn.call, p.tr.awaited[id] = id, method
		p.drain(false)
	case method == "turn/interrupt":
		p.log = append(p.log, "# interrupt")
		if p.tr.busy() {
			p.tr.interrupt()
		}
		p.drain(false)
	default:
		p.methods[string(jsonscan.Get(msg, "id"))] = method
	}
}

func (p *player) out(msg json.RawMessage) {
	id := string(jsonscan.Get(msg, "id"))
	method := p.methods[id]
	result := jsonscan.Get(msg, "result")
	if thread := jsonscan.Get(result, "thread"); jsonscan.Get(msg, "method") == nil && thread != nil && (method == "thread/start" || method == "thread/resume") {
		delete(p.methods, id)
		p.tr.begun(jsonscan.String(jsonscan.Get(thread, "id")), jsonscan.String(jsonscan.Get(result, "model")), method == "thread/start")
		return
	}
	if n, ok := jsonscan.Int(jsonscan.Get(msg, "id")); ok && jsonscan.Get(msg, "error") != nil && p.tr.turn.active && n == p.tr.turn.call {
		p.begun-- // refused: no turn came of it
	}
	p.tr.line(msg)
	p.drain(true)
}

// drain logs what the translator wants. Lines for codex begin with ">"; calls are numbered as the recording did not, so they are left out.
func (p *player) drain(lines bool) {
	for _, e := range p.tr.events {
		if _, ok := e.(harness.TurnEnd); ok {
			p.ended++
		}
		p.log = append(p.log, show(e))
	}
	for _, line := range p.tr.out {
		if lines && jsonscan.Get(line, "method") == nil {
			p.log = append(p.log, "> "+string(line))
		}
	}
	p.tr.events, p.tr.out, p.tr.answers = nil, nil, nil
}

// answer decides as the recording did, and holds our answer against it, where a decision of ours can say the same.
func (p *player) answer(key string, want []byte) {
	if p.tr.perms[key] == nil {
		return
	}
	word := jsonscan.String(jsonscan.Get(want, "decision")) + jsonscan.String(jsonscan.Get(want, "action"))
	d := harness.Decision{Allow: word != "decline" && word != "cancel", Cancelled: word == "cancel"}
	d.Always = word == "acceptForSession" || jsonscan.Get(jsonscan.Get(want, "_meta"), "persist") != nil || jsonscan.Equal(jsonscan.Get(want, "scope"), "session")
	if content := jsonscan.Get(want, "content"); jsonscan.Get(content, "colour") != nil {
		d.UpdatedInput = content
	}
	if answers := jsonscan.Get(want, "answers"); answers != nil {
		d.UpdatedInput = want
	}
	p.tr.answer(key, d)
	for _, line := range p.tr.out {
		p.log = append(p.log, "> "+string(line))
		got := jsonscan.Get(line, "result")
		same := sameJSON(got, want) || word == "cancel" || jsonscan.Get(jsonscan.Get(want, "decision"), "acceptWithExecpolicyAmendment") != nil
		if word == "accept" && jsonscan.IsNull(jsonscan.Get(want, "content")) {
			same = same || sameJSON(jsonscan.Get(got, "_meta"), jsonscan.Get(want, "_meta"))
		}
		if got != nil && !same {
			p.t.Errorf("answered %s, want %s", got, want)
		}
	}
	p.drain(false)
}

// playExec plays the runs of one recording.
func playExec(records []record) []string {
	var log []string
	var x *execRun
	for _, r := range records {
		switch r.Dir {
		case "argv":
			x = newExecRun("t-", "")
			log = append(log, "# run")
		case "out":
			x.line(r.Msg)
		case "exit":
			code, _ := jsonscan.Int(jsonscan.Get(r.Msg, "code"))
			end := harness.TurnEnd{StopReason: protocol.StopError, Error: &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: fmt.Sprintf("exit %d", code)}}
			x.finish(end, x.usage)
		default:
			continue
		}
		for _, e := range x.t.events {
			log = append(log, show(e))
		}
		x.t.events = nil
	}
	return log
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// show writes an event on one line.
func show(e harness.Event) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", e), "harness.")
	v := reflect.ValueOf(e)
	var b strings.Builder
	b.WriteString(name)
	for i := range v.NumField() {
		f := v.Field(i)
		if f.IsZero() || f.Kind() == reflect.Func {
			continue
		}
		fmt.Fprintf(&b, " %s=%s", v.Type().Field(i).Name, showValue(f.Interface()))
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
