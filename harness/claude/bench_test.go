package claude

import (
	"fmt"
	"testing"

	"agentserver/harness"
)

// BenchmarkTextDelta is the hot path: one streamed piece of text, from the CLI's line to the event.
func BenchmarkTextDelta(b *testing.B) {
	for name, text := range map[string]string{"plain": "Running the tests again", "escaped": `a line\nand \"another\"`, "unicode": "ein Häuschen – ja"} {
		b.Run(name, func(b *testing.B) {
			t := newTranslator()
			t.begin("u", []byte("{}"))
			t.line([]byte(`{"type":"stream_event","event":{"type":"message_start","message":{"id":"m","model":"x"}}}`))
			t.line([]byte(`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}`))
			line := fmt.Appendf(nil, `{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}},`+
				`"session_id":"e9bf7d7a-cded-445e-a0df-c2b19f5865b5","parent_tool_use_id":null,"uuid":"5ef0704e-e757-4dec-8752-2011454c5a14"}`, text)
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				t.events = t.events[:0]
				t.line(line)
			}
			if d, ok := t.events[0].(harness.Delta); !ok || d.Text == "" {
				b.Fatalf("%#v", t.events)
			}
		})
	}
}

// BenchmarkToolResult is a line that is decoded in full.
func BenchmarkToolResult(b *testing.B) {
	t := newTranslator()
	t.begin("u", []byte("{}"))
	call := []byte(`{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]},"parent_tool_use_id":null}`)
	result := []byte(`{"type":"user","message":{"role":"user","content":[{"tool_use_id":"t","type":"tool_result","content":"a\nb","is_error":false}]},"parent_tool_use_id":null,` +
		`"tool_use_result":{"stdout":"a\nb","stderr":"","interrupted":false,"isImage":false}}`)
	b.ReportAllocs()
	for b.Loop() {
		t.events = t.events[:0]
		t.line(call)
		t.line(result)
	}
}
