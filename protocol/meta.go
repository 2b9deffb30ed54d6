package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"

	"agentserver/protocol/jsonscan"
)

// Meta is a `_meta` object: extensions under namespaced keys ("vendor/name"), and W3C trace context (traceparent, tracestate, baggage).
// It keeps the bytes it was decoded from. The zero value is an absent object. A Meta is immutable: [Meta.With] returns a new one.
type Meta []byte

// Get returns the raw value under key, or nil.
func (m Meta) Get(key string) json.RawMessage { return jsonscan.Get(m, key) }

// GetString returns the string under key, or "" when there is none.
func (m Meta) GetString(key string) string { return jsonscan.String(m.Get(key)) }

// With returns a copy that holds value under key, as encoding/json encodes it; an earlier value under key is replaced. It panics when value
// cannot be encoded, which is a mistake of the caller.
func (m Meta) With(key string, value any) Meta {
	name, err := marshal(key)
	if err != nil {
		panic(err)
	}
	val, err := marshal(value)
	if err != nil {
		panic(fmt.Sprintf("protocol: _meta %s: %v", key, err))
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for o := jsonscan.NewObject(m); o.Next(); {
		if o.Is(key) {
			continue
		}
		b.Write(o.RawKey())
		b.WriteByte(':')
		b.Write(o.Value())
		b.WriteByte(',')
	}
	b.Write(name)
	b.WriteByte(':')
	b.Write(val)
	b.WriteByte('}')
	return b.Bytes()
}

// MarshalJSON returns the object as it is held, or null for the zero value.
func (m Meta) MarshalJSON() ([]byte, error) {
	if len(m) == 0 {
		return []byte("null"), nil
	}
	return m, nil
}

// UnmarshalJSON takes an object and refuses anything else.
func (m *Meta) UnmarshalJSON(data []byte) error {
	if jsonscan.IsNull(data) {
		*m = nil
		return nil
	}
	if data[0] != '{' {
		return fmt.Errorf("_meta must be an object")
	}
	*m = bytes.Clone(data)
	return nil
}
