package jsonscan

import (
	"encoding/json"
	"unicode/utf8"
)

// plain returns the text of a JSON string that needs no decoding: no escape, and valid UTF-8.
func plain(raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, true
	}
	b := raw[1 : len(raw)-1]
	ascii := true
	for _, c := range b {
		if c == '\\' {
			return nil, false
		}
		if c >= utf8.RuneSelf {
			ascii = false
		}
	}
	return b, ascii || utf8.Valid(b)
}

// unescape leaves the rules for surrogates and invalid UTF-8 to encoding/json, so that both agree.
func unescape(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
