package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"agentserver/protocol/jsonscan"
)

// wire is the form in which a union member was decoded. Every member embeds it.
type wire struct{ raw []byte }

// Touch forgets the wire form of a decoded value, so that a changed field is encoded. Members that this build does not know are forgotten too.
// It must not be called while another goroutine uses the value.
func (w *wire) Touch() { w.raw = nil }

func (w *wire) wireForm() *wire { return w }

// A member is one type of a sealed union.
type member interface {
	wireForm() *wire
	discriminator() (key, value string)
}

// A validator checks what struct tags cannot say.
type validator interface{ validate() error }

// marshal encodes without HTML escaping, so that text survives byte for byte.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// marshalMember encodes a union member: its wire form when it has one, else the discriminator followed by the fields of body, which is the
// member itself under a type without methods.
func marshalMember(m member, body any) ([]byte, error) {
	if raw := m.wireForm().raw; raw != nil {
		return raw, nil
	}
	if v, ok := m.(validator); ok {
		if err := v.validate(); err != nil {
			_, value := m.discriminator()
			return nil, fmt.Errorf("%s: %w", value, err)
		}
	}
	fields, err := marshal(body)
	if err != nil {
		return nil, err
	}
	key, value := m.discriminator()
	out := make([]byte, 0, len(fields)+len(key)+len(value)+8)
	out = append(append(append(append(out, `{"`...), key...), `":"`...), value...)
	out = append(out, '"')
	if len(fields) > len("{}") {
		out = append(out, ',')
	}
	return append(out, fields[1:]...), nil
}

// decodeMember fills m from data, which is valid JSON and stays untouched from now on.
func decodeMember(data []byte, m member) error {
	key, _ := m.discriminator()
	if err := decodeStrict(data, m, key); err != nil {
		return err
	}
	m.wireForm().raw = data
	return nil
}

// decodeStrict decodes an object into the struct that v points to. Unknown members are passed over. It is an error when a required member (a
// field whose tag has neither omitempty nor omitzero) is absent or null, when a known name is written twice or in other letter case (which
// encoding/json would take), or when v's own validation fails.
func decodeStrict(data []byte, v any, alsoKnown ...string) error {
	if err := checkMembers(data, shapeOf(v), alsoKnown); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return decodeError(err)
	}
	if c, ok := v.(validator); ok {
		return c.validate()
	}
	return nil
}

func checkMembers(data []byte, s *shape, alsoKnown []string) error {
	var seen uint64
	o := jsonscan.NewObject(data)
	if b := bytes.TrimSpace(data); len(b) == 0 || b[0] != '{' {
		return fmt.Errorf("must be an object")
	}
next:
	for o.Next() {
		for i := range s.fields {
			f := &s.fields[i]
			if !o.Is(f.name) {
				continue
			}
			if seen&(1<<i) != 0 {
				return fmt.Errorf("%s: given twice", f.name)
			}
			if f.required && jsonscan.IsNull(o.Value()) {
				return fmt.Errorf("%s: must not be null", f.name)
			}
			seen |= 1 << i
			continue next
		}
		if k := o.Key(); !isKnown(k, alsoKnown) {
			if name := s.fold(k); name != "" {
				return fmt.Errorf("%s: must be written %q", k, name)
			}
		}
	}
	for i, f := range s.fields {
		if f.required && seen&(1<<i) == 0 {
			return fmt.Errorf("%s: is missing", f.name)
		}
	}
	return nil
}

func isKnown(k string, names []string) bool {
	for _, n := range names {
		if k == n {
			return true
		}
	}
	return false
}

// decodeError drops what only a Go programmer could read from an error of encoding/json.
func decodeError(err error) error {
	if e, ok := err.(*json.UnmarshalTypeError); ok {
		if e.Field == "" {
			return fmt.Errorf("must not be a JSON %s", e.Value)
		}
		return fmt.Errorf("%s: must not be a JSON %s", e.Field, e.Value)
	}
	return err
}

// A shape lists the members that a struct decodes.
type shape struct{ fields []shapeField }

type shapeField struct {
	name     string
	required bool
}

// fold returns the known name that differs from k in letter case only.
func (s *shape) fold(k string) string {
	for i := range s.fields {
		if strings.EqualFold(s.fields[i].name, k) {
			return s.fields[i].name
		}
	}
	return ""
}

var shapes sync.Map // reflect.Type → *shape

func shapeOf(v any) *shape {
	t := reflect.TypeOf(v).Elem()
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s := &shape{}
	s.add(t)
	if len(s.fields) > 64 {
		panic("protocol: " + t.String() + " has more than 64 fields")
	}
	shapes.Store(t, s)
	return s
}

func (s *shape) add(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		if f.Anonymous && !tagged {
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			s.add(ft)
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		s.fields = append(s.fields, shapeField{name, !strings.Contains(opts, "omit")})
	}
}

// notBlank reports the first of the named values that is empty: pairs of name and value.
func notBlank(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if strings.TrimSpace(pairs[i+1]) == "" {
			return fmt.Errorf("%s: must not be blank", pairs[i])
		}
	}
	return nil
}

// notBlankIf is notBlank for optional members, where absent and empty decode alike: only white space is refused.
func notBlankIf(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" && strings.TrimSpace(pairs[i+1]) == "" {
			return fmt.Errorf("%s: must not be blank", pairs[i])
		}
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
