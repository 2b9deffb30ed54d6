package protocol

import (
	"math"

	"agentserver/protocol/jsonscan"
)

// Most events of a stream are deltas, and decoding them is what a client spends its time on, so the plain ones are decoded in one walk.
//
// A plain one has exactly the members that this package writes, each once, of the right kind; everything else (an unknown member, a `_meta`, a
// name in other letter case, a malformed value) is left to the general decoder, which alone says what is wrong. So both agree on what is a delta,
// and a test holds them to that.

// plainDeltaPrefix is how a delta begins that this package wrote. Another beginning costs only time.
var plainDeltaPrefix = []byte(`{"type":"message.part.delta",`)

// decodePlainDelta decodes a message.part.delta event, or returns nil. The data is valid JSON and stays untouched.
func decodePlainDelta(data []byte) *MessagePartDelta {
	e := new(MessagePartDelta)
	n, ok := 0, true
	str := func(raw []byte) string {
		ok = ok && raw[0] == '"'
		return jsonscan.String(raw)
	}
	index := func(raw []byte) int {
		i, isInt := jsonscan.Int(raw)
		ok = ok && isInt && 0 <= i && i <= math.MaxInt32 && raw[0] != '-'
		return int(i)
	}
	var seen [9]bool
	once := func(i int) { ok, seen[i], n = ok && !seen[i], true, n+1 }
	for o := jsonscan.NewObject(data); ok && o.Next(); {
		raw := o.Value()
		switch key := o.RawKey(); string(key) {
		case `"type"`:
			once(0)
			ok = ok && jsonscan.Equal(raw, string(EventMessagePartDelta))
		case `"sessionId"`:
			once(1)
			e.SessionID = SessionID(str(raw))
		case `"timestamp"`:
			once(2)
			var isInt bool
			e.Timestamp, isInt = jsonscan.Int(raw)
			ok = ok && isInt
		case `"turnId"`:
			once(3)
			e.TurnID = TurnID(str(raw))
		case `"messageId"`:
			once(4)
			e.MessageID = MessageID(str(raw))
		case `"outputIndex"`:
			once(5)
			e.OutputIndex = index(raw)
		case `"partIndex"`:
			once(6)
			e.PartIndex = index(raw)
		case `"partId"`:
			once(7)
			e.PartID = PartID(str(raw))
		case `"delta"`:
			once(8)
			e.Delta = decodePlainText(raw)
		default:
			ok = false
		}
	}
	if !ok || n != len(seen) || e.Delta == nil || e.SessionID == "" || e.validate() != nil {
		return nil
	}
	e.raw = data
	return e
}

// decodePlainText decodes {"type":"text"|"reasoning","text":…}, or returns nil.
func decodePlainText(data []byte) Delta {
	var typ, text []byte
	n := 0
	for o := jsonscan.NewObject(data); o.Next(); n++ {
		switch string(o.RawKey()) {
		case `"type"`:
			typ = o.Value()
		case `"text"`:
			text = o.Value()
		}
	}
	switch {
	case n != 2 || len(typ) == 0 || len(text) == 0 || text[0] != '"':
		return nil
	case string(typ) == `"text"`:
		return &TextDelta{wire{data}, jsonscan.String(text)}
	case string(typ) == `"reasoning"`:
		return &ReasoningDelta{wire{data}, jsonscan.String(text)}
	}
	return nil
}
