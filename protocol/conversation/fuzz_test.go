package conversation_test

import (
	"bytes"
	"testing"

	"agentserver/protocol"
	"agentserver/protocol/conversation"
	"agentserver/protocol/conversation/conversationtest"
)

// FuzzFold folds streams of events in any order and shape: no panic, and the JSON form survives.
func FuzzFold(f *testing.F) {
	var some []byte
	for i, env := range conversationtest.Stream(6, 240) {
		data, err := protocol.EncodeEvent(env.Event)
		if err != nil {
			f.Fatal(err)
		}
		some = append(append(some, data...), '\n')
		if i%8 == 7 {
			f.Add(some)
			some = nil
		}
	}
	f.Add([]byte(`{"type":"message.part.delta","sessionId":"s","timestamp":1,"turnId":"t","messageId":"m","outputIndex":0,"partIndex":0,"partId":"p","delta":{"type":"text","text":"x"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		st := conversation.New("s")
		var seq uint64
		for line := range bytes.Lines(data) {
			e, err := protocol.DecodeEvent(bytes.Clone(bytes.TrimSpace(line)))
			if err != nil {
				continue
			}
			seq++
			st.Apply(protocol.Envelope{SessionID: "s", Seq: seq, Event: e})
			st.Apply(protocol.Envelope{SessionID: "s", Seq: seq, Event: e})
		}
		shot := st.Snapshot()
		for range shot.Groups() {
		}
		encoded := encode(t, shot)
		parsed, err := conversation.Parse(encoded)
		if err != nil {
			t.Fatalf("%v\n%s", err, encoded)
		}
		if again := encode(t, parsed); !bytes.Equal(again, encoded) {
			t.Fatalf("the JSON form changes\n%s\n%s", encoded, again)
		}
	})
}

// FuzzParse reads hostile states: no panic, and what is taken can be gone on from.
func FuzzParse(f *testing.F) {
	for seed := range uint64(20) {
		st := conversation.New("")
		for _, env := range conversationtest.Stream(seed, 12) {
			st.Apply(env)
		}
		f.Add(encode(f, st.Snapshot()))
	}
	stream := conversationtest.Stream(3, 40)
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := conversation.Parse(data)
		if err != nil {
			return
		}
		st := conversation.FromSnapshot(parsed)
		for _, env := range stream {
			st.ApplyEvent(env.Event)
		}
		for range st.Snapshot().Groups() {
		}
		st.Snapshot().Pending()
		encode(t, st.Snapshot())
	})
}
