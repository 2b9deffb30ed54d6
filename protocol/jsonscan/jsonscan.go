// Package jsonscan walks the members of JSON objects without building values.
//
// It exists for the places where decoding is the budget: finding the discriminator of a union member, checking which keys an object has,
// and taking a few fields out of a line that an agent wrote. Everything else decodes with encoding/json.
//
// The functions trust their input: it must be valid JSON (checked by [encoding/json.Valid], or handed over by encoding/json itself).
// On other input they return early or return garbage, but never panic and never read outside the slice.
package jsonscan

import "strconv"

// An Object walks the members of one JSON object in order. The zero value holds no members; get one from [NewObject].
type Object struct {
	data []byte
	pos  int
	key  []byte
	val  []byte
}

// NewObject returns a walker over data, which must hold one valid JSON object. Anything else has no members.
func NewObject(data []byte) Object {
	i := skipSpace(data, 0)
	if i >= len(data) || data[i] != '{' {
		return Object{}
	}
	return Object{data: data, pos: i + 1}
}

// Next moves to the next member and reports whether there is one.
func (o *Object) Next() bool {
	i := skipSpace(o.data, o.pos)
	if i < len(o.data) && o.data[i] == ',' {
		i = skipSpace(o.data, i+1)
	}
	if i >= len(o.data) || o.data[i] != '"' {
		return false
	}
	end := skipString(o.data, i)
	colon := skipSpace(o.data, end)
	if colon >= len(o.data) || o.data[colon] != ':' {
		return false
	}
	start := skipSpace(o.data, colon+1)
	stop := SkipValue(o.data, start)
	if stop <= start {
		return false
	}
	o.key, o.val, o.pos = o.data[i:end], o.data[start:stop], stop
	return true
}

// RawKey returns the current member's name as it stands in the text, quotes included.
func (o *Object) RawKey() []byte { return o.key }

// Is reports whether the current member is called name. It compares without allocating; a name that is written with escapes is decoded first.
func (o *Object) Is(name string) bool {
	k := o.key
	if len(k) == len(name)+2 && string(k[1:len(k)-1]) == name {
		return true
	}
	for _, c := range k {
		if c == '\\' {
			return String(k) == name
		}
	}
	return false
}

// Key returns the current member's name, decoded.
func (o *Object) Key() string { return String(o.key) }

// Value returns the current member's value as it stands in the text: a part of the walked slice, not a copy.
func (o *Object) Value() []byte { return o.val }

// Get returns the raw value of the first member called name, or nil.
func Get(data []byte, name string) []byte {
	o := NewObject(data)
	for o.Next() {
		if o.Is(name) {
			return o.Value()
		}
	}
	return nil
}

// String decodes a JSON string; anything else is "".
func String(raw []byte) string {
	b, ok := plain(raw)
	if ok {
		return string(b)
	}
	return unescape(raw)
}

// Equal reports whether raw is a JSON string with the given text. It does not allocate unless raw holds escapes.
func Equal(raw []byte, text string) bool {
	b, ok := plain(raw)
	if ok {
		return string(b) == text
	}
	return len(raw) >= 2 && raw[0] == '"' && unescape(raw) == text
}

// Int decodes a JSON integer; ok is false for anything else.
func Int(raw []byte) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

// IsNull reports whether raw is absent or the literal null.
func IsNull(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// SkipValue returns the index just past the JSON value that starts at data[i].
func SkipValue(data []byte, i int) int {
	if i >= len(data) {
		return i
	}
	switch data[i] {
	case '"':
		return skipString(data, i)
	case '{', '[':
		return skipNested(data, i)
	}
	for i < len(data) && data[i] != ',' && data[i] != '}' && data[i] != ']' && !isSpace(data[i]) {
		i++
	}
	return i
}

func skipNested(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch data[i] {
		case '"':
			i = skipString(data, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return i
}

func skipString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && isSpace(data[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
