package acp

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"agentserver/harness"
	"agentserver/internal/transport"
)

// FuzzTranslator feeds anything as the params of updates and permission requests. Whatever comes, the turn ends once, every question is answered, and
// every part can be encoded.
func FuzzTranslator(f *testing.F) {
	files, err := filepath.Glob("testdata/*-tool.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var lines [][]byte
		for line := range bytes.Lines(data) {
			var r record
			if json.Unmarshal(line, &r) == nil && r.Dir == "in" && r.Msg.Params != nil {
				lines = append(lines, r.Msg.Params)
			}
		}
		f.Add(bytes.Join(lines, []byte("\n")), []byte(`{"stopReason":"end_turn"}`))
	}
	f.Add([]byte(`{"update":{"sessionUpdate":"plan","entries":[{"content":"x"}]}}`), []byte(`null`))
	f.Fuzz(func(t *testing.T, script, answer []byte) {
		tr := newTranslator()
		asked, replied := 0, 0
		tr.settings.load(&sessionResult{})
		tr.goLive("s")
		tr.begin()
		for line := range bytes.Lines(script) {
			line = bytes.ReplaceAll(bytes.TrimSpace(line), []byte(`"sessionId"`), []byte(`"was"`))
			tr.update(line)
			if bytes.Contains(line, []byte(`"options"`)) {
				asked++
				tr.permission("0", line, func(any) { replied++ })
			}
		}
		tr.answered(answer, nil)
		tr.answered(nil, &transport.Error{Code: -32603}) // a second answer changes nothing
		for range 3 {
			if tr.turn.active {
				tr.tick()
			}
		}
		for _, send := range tr.out {
			send()
		}
		ends := 0
		for _, e := range tr.events {
			switch e := e.(type) {
			case harness.TurnEnd:
				ends++
			case harness.PartUpdate:
				h := e.Part.Header()
				h.ID = "p"
				if _, err := json.Marshal(e.Part); err != nil {
					t.Errorf("%#v: %v", e.Part, err)
				}
			}
		}
		if ends != 1 || tr.turn.active || replied != asked {
			t.Errorf("%d ends, active %v, %d questions, %d answers", ends, tr.turn.active, asked, replied)
		}
	})
}
