package acp

import "testing"

// BenchmarkChunk measures one piece of streamed text, from the params of the notification to the event.
func BenchmarkChunk(b *testing.B) {
	t := newTranslator()
	t.settings.load(&sessionResult{})
	t.goLive("s")
	t.begin()
	params := []byte(`{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"some words of text "},"messageId":"m"}}`)
	b.SetBytes(int64(len(params)))
	b.ReportAllocs()
	for b.Loop() {
		t.update(params)
		t.events = t.events[:0]
		if t.text.text.Len() > 1<<20 {
			t.closeText()
		}
	}
}
