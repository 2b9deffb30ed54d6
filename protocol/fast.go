package protocol

import (
	"strconv"
	"unicode/utf8"
)

// Text deltas are most of what an agent says, and the time from an agent's line to a frame is a budget (spec/performance.md, P1 and P5). So they
// are encoded by hand; everything else goes through encoding/json. The two give the same bytes, which a fuzz test holds.

// appendDelta appends e as [EncodeEvent] would encode it. It reports false, with dst unchanged, for what only encoding/json can do: decoded values,
// values with meta, deltas of an unknown type, and values that are not valid.
func appendDelta(dst []byte, e *MessagePartDelta) ([]byte, bool) {
	if e.raw != nil || len(e.Meta) > 0 || e.SessionID == "" || e.validate() != nil || e.Delta.wireForm().raw != nil {
		return dst, false
	}
	start := len(dst)
	dst = append(dst, `{"type":"message.part.delta","sessionId":`...)
	dst = appendString(dst, string(e.SessionID))
	dst = append(dst, `,"timestamp":`...)
	dst = strconv.AppendInt(dst, e.Timestamp, 10)
	dst = append(dst, `,"turnId":`...)
	dst = appendString(dst, string(e.TurnID))
	dst = append(dst, `,"messageId":`...)
	dst = appendString(dst, string(e.MessageID))
	dst = append(dst, `,"outputIndex":`...)
	dst = strconv.AppendInt(dst, int64(e.OutputIndex), 10)
	dst = append(dst, `,"partIndex":`...)
	dst = strconv.AppendInt(dst, int64(e.PartIndex), 10)
	dst = append(dst, `,"partId":`...)
	dst = appendString(dst, string(e.PartID))
	switch d := e.Delta.(type) {
	case *TextDelta:
		dst = append(dst, `,"delta":{"type":"text","text":`...)
		dst = appendString(dst, d.Text)
	case *ReasoningDelta:
		dst = append(dst, `,"delta":{"type":"reasoning","text":`...)
		dst = appendString(dst, d.Text)
	case *ToolInputDelta:
		dst = append(dst, `,"delta":{"type":"tool_input","toolCallId":`...)
		dst = appendString(dst, d.ToolCallID)
		dst = append(dst, `,"toolName":`...)
		dst = appendString(dst, d.ToolName)
		dst = append(dst, `,"input":`...)
		dst = appendString(dst, d.Input)
	default:
		return dst[:start], false
	}
	return append(dst, "}}"...), true
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string, as encoding/json does without HTML escaping: invalid UTF-8 becomes U+FFFD, and U+2028 and U+2029 are
// escaped.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = appendEscape(append(dst, s[start:i]...), c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&0xF])
			start = i + size
		}
		i += size
	}
	return append(append(dst, s[start:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
}
