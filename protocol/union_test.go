package protocol_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentserver/protocol"
)

// wireEvent returns an event's JSON with replacements made: pairs of old and new.
func wireEvent(t *testing.T, name string, oldnew ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "golden", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	s := strings.TrimSpace(string(raw))
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(s, oldnew[i]) {
			t.Fatalf("%s does not hold %s", name, oldnew[i])
		}
		s = strings.Replace(s, oldnew[i], oldnew[i+1], 1)
	}
	return s
}

func TestUnknownSurvives(t *testing.T) {
	for name, in := range map[string]string{
		"event type":              `{ "type":"future.event","z":[1, 2.50],"sessionId":"s","timestamp":1, "a":{"\u0061":"<&>"} }`,
		"private event type":      `{"type":"_acme.thing","sessionId":"s","timestamp":1}`,
		"field of an event":       wireEvent(t, "turn.started", `"turnId"`, `"new": {"b":1.0} ,"turnId"`),
		"field of a nested value": wireEvent(t, "turn.ended", `"reasoning":1`, `"reasoning":1,"audio":1e3`),
		"part type":               wireEvent(t, "message.part", `"type":"text"`, `"type":"hologram"`),
		"field of a part":         wireEvent(t, "message.part", `"state":"done"`, `"state":"done" , "zz":null`),
		"open value":              wireEvent(t, "turn.ended", `"end_turn"`, `"_acme_done"`),
		"delta type":              wireEvent(t, "message.part.delta", `"type":"text"`, `"type":"audio"`),
		"field of a tool state":   `{"type":"message.part","sessionId":"s","timestamp":1,"turnId":"t","messageId":"m","outputIndex":1,"partIndex":0,"part":` + wireEvent(t, "part.tool.failed", `"error":`, `"why":[],"error":`) + `}`,
		"tool content type":       `{"type":"message.part","sessionId":"s","timestamp":1,"turnId":"t","messageId":"m","outputIndex":1,"partIndex":0,"part":` + wireEvent(t, "part.tool.completed", `"type":"terminal"`, `"type":"canvas"`) + `}`,
	} {
		e, err := protocol.DecodeEvent([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		out, err := protocol.EncodeEvent(e)
		if err != nil || string(out) != strings.TrimSpace(in) {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, out, in)
		}
		frame, err := protocol.AppendEnvelope(nil, protocol.Envelope{SessionID: "s", Seq: 7, Event: e})
		if err != nil || !bytes.Contains(frame, out) {
			t.Errorf("%s: the envelope changed the event: %v %s", name, err, frame)
		}
	}
}

func TestMalformedKnownTypeIsAnError(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"missing field":          {wireEvent(t, "turn.started", `,"turnId":"t1"`, ``), "turnId: is missing"},
		"null field":             {wireEvent(t, "turn.started", `"t1"`, `null`), "turnId: must not be null"},
		"blank field":            {wireEvent(t, "turn.started", `"t1"`, `" "`), "turnId: must not be blank"},
		"wrong JSON type":        {wireEvent(t, "session.usage", `"used":0`, `"used":"0"`), "used: must not be a JSON string"},
		"field given twice":      {wireEvent(t, "turn.started", `"turnId"`, `"turnId":"x","turnId"`), "turnId: given twice"},
		"type given twice":       {wireEvent(t, "turn.started", `"turnId"`, `"type":"raw","turnId"`), "type: given twice"},
		"other letter case":      {wireEvent(t, "turn.started", `"turnId"`, `"TurnId"`), `TurnId: must be written "turnId"`},
		"blank open value":       {wireEvent(t, "turn.ended", `"end_turn"`, `""`), "stopReason: must not be blank"},
		"closed tool status":     {`{"type":"message.part","sessionId":"s","timestamp":1,"turnId":"t","messageId":"m","outputIndex":1,"partIndex":0,"part":` + wireEvent(t, "part.tool.pending", `"pending"`, `"waiting"`) + `}`, `"waiting" is not a tool status`},
		"part without id":        {wireEvent(t, "message.part", `"id":"p1",`, ``), "id: is missing"},
		"image with two sources": {`{"type":"message.part","sessionId":"s","timestamp":1,"turnId":"t","messageId":"m","outputIndex":1,"partIndex":0,"part":` + wireEvent(t, "part.image", `"data"`, `"url":"x","data"`) + `}`, "exactly one of data and url"},
		"outcome":                {wireEvent(t, "permission.resolved", `"selected"`, `"maybe"`), "outcome.outcome"},
		"negative index":         {wireEvent(t, "message.part", `"outputIndex":1`, `"outputIndex":-1`), "outputIndex: must not be negative"},
		"no session":             {wireEvent(t, "turn.started", `"sessionId":"s1",`, ``), "sessionId: is missing"},
		"meta not an object":     {wireEvent(t, "message.ended", `"turnId"`, `"_meta":[],"turnId"`), "_meta must be an object"},
		"no type":                {`{"sessionId":"s"}`, "type: must be a string"},
		"not an object":          {`[1]`, "must be an object"},
		"not JSON":               {`{`, "not valid JSON"},
	} {
		if e, err := protocol.DecodeEvent([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %T, %v; want an error with %q", name, e, err, c.want)
		}
	}
}

func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	for name, e := range map[string]protocol.Event{
		"no turn":    &protocol.TurnStarted{EventHeader: head},
		"no session": &protocol.TurnStarted{TurnID: "t"},
		"no part":    &protocol.MessagePart{EventHeader: head, TurnID: "t", MessageID: "m"},
		"no state":   &protocol.MessagePart{EventHeader: head, TurnID: "t", MessageID: "m", Part: &protocol.ToolPart{PartHeader: ph, ToolCallID: "t", ToolName: "n"}},
	} {
		if out, err := protocol.EncodeEvent(e); err == nil {
			t.Errorf("%s: encoded %s", name, out)
		}
	}
}

func TestTouchEncodesTheChange(t *testing.T) {
	e, err := protocol.DecodeEvent([]byte(wireEvent(t, "turn.started")))
	if err != nil {
		t.Fatal(err)
	}
	ts := e.(*protocol.TurnStarted)
	ts.TurnID = "other"
	ts.Touch()
	if out, _ := protocol.EncodeEvent(ts); !bytes.Contains(out, []byte(`"other"`)) {
		t.Errorf("got %s", out)
	}
}

func TestCostTakesANumber(t *testing.T) {
	e, err := protocol.DecodeEvent([]byte(wireEvent(t, "session.usage", `{"amount":0.25,"currency":"USD"}`, `0.5`)))
	if err != nil {
		t.Fatal(err)
	}
	if got := e.(*protocol.SessionUsage).Cost; *got != *protocol.USD(0.5) {
		t.Errorf("got %+v", got)
	}
}

func FuzzEvent(f *testing.F) {
	files, _ := filepath.Glob(filepath.Join("testdata", "golden", "*.json"))
	for _, name := range files {
		raw, _ := os.ReadFile(name)
		f.Add(bytes.TrimSpace(raw))
	}
	f.Add([]byte(`{"type":"message.part","sessionId":"s","timestamp":1,"turnId":"t","messageId":"m","outputIndex":1,"partIndex":0,"part":{"type":"tool","id":"p","sessionId":"s","messageId":"m","toolCallId":"c","toolName":"n","state":{"status":"pending","partialInput":""}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := protocol.DecodeEvent(bytes.Clone(data))
		if err != nil {
			return
		}
		out, err := protocol.EncodeEvent(e)
		if err != nil || !bytes.Equal(out, bytes.TrimSpace(data)) {
			t.Fatalf("round trip: %v\ngot  %s\nwant %s", err, out, data)
		}
		if _, unknown := e.(*protocol.UnknownEvent); unknown {
			return
		}
		e.Header().Touch()
		fresh, err := protocol.EncodeEvent(e)
		if err != nil {
			t.Fatalf("a decoded event cannot be encoded: %v", err)
		}
		if _, err := protocol.DecodeEvent(fresh); err != nil || !json.Valid(fresh) {
			t.Fatalf("what was encoded cannot be decoded: %v\n%s", err, fresh)
		}
	})
}
