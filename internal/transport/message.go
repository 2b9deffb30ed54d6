package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// The codes of JSON-RPC 2.0 that this package answers with by itself.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInternal       = -32603
)

// maxID bounds the token of an id in bytes.
const maxID = 4096

// An Error is the `error` member of a response.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error says message and code.
func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// A Notification is an inbound message that expects no answer. Its bytes are the peer's own and stay valid.
type Notification struct {
	Method string
	Params json.RawMessage // nil when absent
	Text   json.RawMessage // the whole message
}

type kind int

const (
	isRequest kind = iota + 1
	isNotification
	isResponse
)

// A message is one inbound JSON-RPC object, as parts of the text.
type message struct {
	kind      kind
	text      []byte
	method    string
	rawMethod []byte
	id        []byte // the token; nil: absent
	params    []byte
	result    []byte
	err       []byte
}

// A rejection says why a text is no message, and what id an answer to it carries.
type rejection struct {
	id  []byte // nil: null
	err Error
}

var null = []byte("null")

// parse classifies one text by the table of errors in spec section 2. Without strict, `jsonrpc` may be absent, as codex does.
func parse(data []byte, strict bool) (message, *rejection) {
	m := message{text: data}
	seen := members{}
	if err := validObject(data, func(k, v []byte) { seen.note(&m, k, v) }); err != nil {
		return m, parseRejection(data, err)
	}
	if strict && !isVersion2(seen.version) {
		return m, &rejection{nil, Error{Code: codeParse, Message: `no "jsonrpc":"2.0"; every message needs it`}}
	}
	badID := m.id != nil && !usableID(m.id)
	reject := func(why string) (message, *rejection) {
		r := &rejection{m.id, Error{Code: codeInvalidRequest, Message: why}}
		if badID || seen.twice {
			r.id = nil
		}
		return m, r
	}
	hasResult, hasError := m.result != nil, m.err != nil && !bytes.Equal(m.err, null)
	switch {
	case seen.twice:
		return reject("a member of the message is given twice; give each once")
	case m.rawMethod != nil && (hasResult || hasError):
		return reject("a message has either a method or a result or an error")
	case m.rawMethod != nil:
		if m.rawMethod[0] != '"' {
			return reject("method must be a string")
		}
		m.method = text(m.rawMethod)
		if badID {
			return reject("id must be a string or an integer; leave it out for a notification")
		}
		m.kind = isNotification
		if m.id != nil {
			m.kind = isRequest
		}
		return m, nil
	case !hasResult && !hasError:
		return reject("the message is no request, notification or response: it has no method, result or error")
	case m.id == nil:
		return reject("a response must have an id")
	}
	m.kind = isResponse
	return m, nil
}

// members notes what belongs to the envelope, and whether something of it is given twice.
type members struct {
	version []byte
	twice   bool
}

func (s *members) note(m *message, key, value []byte) {
	var slot *[]byte
	switch name(key) {
	case "jsonrpc":
		slot = &s.version
	case "id":
		slot = &m.id
	case "method":
		slot = &m.rawMethod
	case "params":
		slot = &m.params
	case "result":
		slot = &m.result
	case "error":
		slot = &m.err
	default:
		return
	}
	s.twice = s.twice || *slot != nil
	*slot = value
}

// name decodes a member's name, without allocating for the known ones.
func name(key []byte) string {
	if bytes.IndexByte(key, '\\') >= 0 {
		return text(key)
	}
	switch k := key[1 : len(key)-1]; string(k) {
	case "jsonrpc":
		return "jsonrpc"
	case "id":
		return "id"
	case "method":
		return "method"
	case "params":
		return "params"
	case "result":
		return "result"
	case "error":
		return "error"
	}
	return ""
}

// text decodes a valid JSON string.
func text(token []byte) string {
	if bytes.IndexByte(token, '\\') < 0 {
		return string(token[1 : len(token)-1])
	}
	var s string
	_ = json.Unmarshal(token, &s) // it is valid
	return s
}

func isVersion2(token []byte) bool {
	if string(token) == `"2.0"` {
		return true
	}
	return len(token) > 0 && token[0] == '"' && text(token) == "2.0"
}

// usableID reports whether a JSON value is a string or an integer, of a sane length.
func usableID(token []byte) bool {
	if len(token) > maxID {
		return false
	}
	switch c := token[0]; {
	case c == '"':
		return true
	case c == '-' || isDigit(c):
		return !bytes.ContainsAny(token, ".eE")
	}
	return false
}

func parseRejection(text []byte, err error) *rejection {
	why := err.Error() + "; send one JSON-RPC 2.0 object a message"
	if len(text) > 0 && text[0] == '[' {
		why = "batches are not supported; send each message by itself"
	}
	return &rejection{nil, Error{Code: codeParse, Message: why}}
}

// decodeError decodes the error member of a response, whatever it is.
func decodeError(raw []byte) *Error {
	e := &Error{}
	if err := json.Unmarshal(raw, e); err != nil {
		return &Error{Code: codeInternal, Message: "the peer answered with an error that cannot be read", Data: bytes.Clone(raw)}
	}
	return e
}

// encode is json.Marshal without HTML escaping. A json.RawMessage is taken as it is.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case json.RawMessage:
		if len(v) == 0 {
			return null, nil
		}
		return v, nil
	case nil:
		return null, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// EncodeNotification returns the text of a notification, for [Conn.Send]. params is encoded as in [Conn.Notify].
func EncodeNotification(method string, params any) ([]byte, error) {
	return writer{}.call(nil, method, params)
}

// A writer puts messages together.
type writer struct{ versionless bool }

func (w writer) open(size int) []byte {
	b := make([]byte, 0, size+64)
	if w.versionless {
		return append(b, '{')
	}
	return append(b, `{"jsonrpc":"2.0",`...)
}

// call returns a request, or a notification when id is nil. Without params the member is left out.
func (w writer) call(id []byte, method string, params any) ([]byte, error) {
	var raw []byte
	if params != nil {
		var err error
		if raw, err = encode(params); err != nil {
			return nil, fmt.Errorf("encode the params of %s: %w", method, err)
		}
	}
	quoted, err := encode(method)
	if err != nil {
		return nil, err
	}
	b := w.open(len(id) + len(quoted) + len(raw))
	if id != nil {
		b = append(append(append(b, `"id":`...), id...), ',')
	}
	b = append(append(b, `"method":`...), quoted...)
	if params != nil {
		b = append(append(b, `,"params":`...), raw...)
	}
	return append(b, '}'), nil
}

// result returns a response; a nil id is null.
func (w writer) result(id, raw []byte) []byte {
	b := w.id(len(id)+len(raw), id)
	return append(append(append(b, `,"result":`...), raw...), '}')
}

// failure returns an error response; a nil id is null.
func (w writer) failure(id []byte, e *Error) []byte {
	raw, err := encode(e)
	if err != nil { // the data is no JSON
		raw, _ = encode(&Error{Code: e.Code, Message: e.Message})
	}
	b := w.id(len(id)+len(raw), id)
	return append(append(append(b, `,"error":`...), raw...), '}')
}

func (w writer) id(size int, id []byte) []byte {
	if id == nil {
		id = null
	}
	return append(append(w.open(size+len(id)), `"id":`...), id...)
}

// errorOf returns err as what goes out: the *Error in its chain, or an internal error without its text, which may hold a secret.
func errorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: codeInternal, Message: "internal error"}
}
