package protocol_test

import (
	"encoding/json"
	"testing"

	"agentserver/protocol"
)

// reflective encodes a notification with encoding/json alone: a MarshalJSON of the event, which the fast path is not part of.
func reflective(env protocol.Envelope) ([]byte, error) {
	event, err := env.Event.(json.Marshaler).MarshalJSON()
	if err != nil {
		return nil, err
	}
	id, err := (&protocol.TextDelta{Text: string(env.SessionID)}).MarshalJSON()
	if err != nil {
		return nil, err
	}
	b := []byte(`{"jsonrpc":"2.0","method":"event","params":{"sessionId":`)
	b = append(b, id[len(`{"type":"text","text":`):len(id)-1]...)
	b = append(b, `,"seq":7,"event":`...)
	return append(append(b, event...), "}}"...), nil
}

// FuzzFastDelta holds the encoding by hand to the one by reflection.
func FuzzFastDelta(f *testing.F) {
	f.Add("s", "t", "m", "p", "text", "Bash", int64(0), 1, 2, byte(0))
	f.Add("s\"\\/", "t\b\f\n\r\t\x00\x1f\x7f", "<&>", "\u2028\u2029\ufffd", "ü€😀\xff\xc0\xaf\xed\xa0\x80", "", int64(-1), -1, 0, byte(1))
	f.Add(" ", "", "m", "p", "", "", int64(1)<<62, 1<<40, 1, byte(2))
	f.Fuzz(func(t *testing.T, session, turn, message, part, text, name string, at int64, out, index int, kind byte) {
		e := &protocol.MessagePartDelta{
			EventHeader: protocol.EventHeader{SessionID: protocol.SessionID(session), Timestamp: at},
			TurnID:      protocol.TurnID(turn), MessageID: protocol.MessageID(message), PartID: protocol.PartID(part),
			OutputIndex: out, PartIndex: index,
		}
		switch kind % 4 {
		case 0:
			e.Delta = &protocol.TextDelta{Text: text}
		case 1:
			e.Delta = &protocol.ReasoningDelta{Text: text}
		case 2:
			e.Delta = &protocol.ToolInputDelta{ToolCallID: part, ToolName: name, Input: text}
		case 3:
			e.Delta = &protocol.TextDelta{Text: text}
			e.Meta = protocol.Meta{}.With("a/b", text)
		}
		env := protocol.Envelope{SessionID: protocol.SessionID(session), Seq: 7, Event: e}
		got, err := protocol.AppendNotification(nil, env)
		want, wantErr := reflective(env)
		if session == "" {
			if err == nil {
				t.Error("an event without session was encoded")
			}
			return
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("got error %v, want %v", err, wantErr)
		}
		if err == nil && string(got) != string(want) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func BenchmarkEncodeDelta(b *testing.B) {
	env := protocol.Envelope{SessionID: "0190a1b2-0000-7000-8000-000000000001", Seq: 12345, Event: &protocol.MessagePartDelta{
		EventHeader: protocol.EventHeader{SessionID: "0190a1b2-0000-7000-8000-000000000001", Timestamp: 1764550000000},
		TurnID:      "0190a1b2-0000-7000-8000-000000000002", MessageID: "0190a1b2-0000-7000-8000-000000000003",
		PartID: "0190a1b2-0000-7000-8000-000000000004", OutputIndex: 1, Delta: &protocol.TextDelta{Text: "some words of an answer, "}}}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := protocol.AppendNotification(buf, env); err != nil {
			b.Fatal(err)
		}
	}
}
