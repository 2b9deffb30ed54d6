package claude

import (
	"bytes"
	"unicode/utf8"

	"agentserver/protocol/jsonscan"
)

// text decodes a JSON string. Unlike [jsonscan.String] it handles the common escapes without encoding/json: half of all text deltas hold a
// line break.
func text(raw []byte) string {
	if len(raw) < 2 || bytes.IndexByte(raw, '\\') < 0 || !utf8.Valid(raw) {
		return jsonscan.String(raw)
	}
	var stack [256]byte
	out := stack[:0]
	in := raw[1 : len(raw)-1]
	for i := 0; i < len(in); i++ {
		if in[i] != '\\' {
			out = append(out, in[i])
			continue
		}
		i++
		if i == len(in) {
			return jsonscan.String(raw)
		}
		switch c := in[i]; c {
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case '"', '\\', '/':
			out = append(out, c)
		default: // \u and its surrogates are encoding/json's business
			return jsonscan.String(raw)
		}
	}
	return string(out)
}
