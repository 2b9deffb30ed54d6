package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"agentserver/protocol"
	"agentserver/protocol/conversation"
)

// A node is one schema. Members keep their order, so that the file reads like the types.
type node struct{ members []pair }

type pair struct {
	key   string
	value any
}

// set sets a member; one that is there keeps its place.
func (n *node) set(key string, value any) *node {
	for i := range n.members {
		if n.members[i].key == key {
			n.members[i].value = value
			return n
		}
	}
	n.members = append(n.members, pair{key, value})
	return n
}

func (n *node) get(key string) any {
	for _, m := range n.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

func (n *node) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range n.members {
		if i > 0 {
			b.WriteByte(',')
		}
		k, _ := json.Marshal(m.key)
		b.Write(k)
		b.WriteByte(':')
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// A schema is the whole document: its definitions in the order in which they were made.
type schema struct {
	src   *source
	defs  node
	order []string
	known map[string]*node
	// reworded says which of the rewordings were used.
	reworded map[int]bool
}

const intro = "The wire of agent-server, protocol version 2. Members and values that are not described here are allowed and must be kept."

func buildSchema(src *source) (*schema, error) {
	s := &schema{src: src, known: map[string]*node{}, reworded: map[int]bool{}}
	s.union("Event", "type", protocol.EventValues())
	s.union("Part", "type", protocol.PartValues())
	s.union("Delta", "type", protocol.DeltaValues())
	s.union("ToolState", "status", protocol.ToolStateValues())
	s.define("Envelope", reflect.TypeFor[envelope](), nil)
	s.define("Input", nil, new(node).set("oneOf", []any{
		new(node).set("type", "string").set("minLength", 1),
		new(node).set("type", "array").set("minItems", 1).set("items", s.of(reflect.TypeFor[protocol.InputItem]())),
	}))
	s.of(reflect.TypeFor[conversation.Snapshot]())
	var requests []any
	for _, m := range protocol.Methods() {
		base := goName(m.Name)
		s.alias(base+"Params", m.Params)
		s.alias(base+"Result", m.Result)
		requests = append(requests, s.request(m.Name, base))
	}
	s.of(reflect.TypeFor[protocol.Error]())
	s.define("Request", nil, new(node).set("description", "A request of a client.").set("oneOf", requests))
	s.define("Notification", nil, object(
		field{"jsonrpc", constant("2.0")}, field{"method", constant(protocol.NotificationEvent)}, field{"params", ref("Envelope")}).
		set("description", "The one notification that the server sends."))
	return s, nil
}

// envelope has the fields of protocol.Envelope with the tags that its own codec stands for.
type envelope struct {
	SessionID protocol.SessionID `json:"sessionId"`
	Seq       uint64             `json:"seq"`
	Event     protocol.Event     `json:"event"`
}

func (s *schema) encode() ([]byte, error) {
	doc := new(node).set("$schema", "https://json-schema.org/draft/2020-12/schema").set("title", "agent-server wire protocol, version 2").
		set("description", intro).set("anyOf", []any{ref("Request"), ref("Notification")}).set("$defs", &s.defs)
	raw, err := doc.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, err
	}
	return append(bytes.TrimSpace(b.Bytes()), '\n'), nil
}

// define adds a definition, made from t unless n is given.
func (s *schema) define(name string, t reflect.Type, n *node) {
	if s.known[name] != nil {
		return
	}
	if n == nil {
		n = &node{}
		s.known[name] = n // before its fields, which may refer to it
		s.describe(n, t)
		n.set("type", "object")
		s.structFields(n, t)
	}
	s.known[name] = n
	s.order = append(s.order, name)
	s.defs.set(name, n)
}

// union defines one schema for each member, and one that is any of them or, where the union is open, something unknown.
func (s *schema) union(name, key string, values any) {
	var arms []any
	var tags []any
	for i := range reflect.ValueOf(values).Len() {
		v := reflect.ValueOf(values).Index(i).Elem()
		t := v.Elem().Type()
		tag := discriminator(v.Interface())
		n := &node{}
		s.known[t.Name()] = n
		s.describe(n, t)
		n.set("type", "object")
		s.structFields(n, t, field{key, constant(tag)})
		s.order = append(s.order, t.Name())
		s.defs.set(t.Name(), n)
		arms, tags = append(arms, ref(t.Name())), append(tags, tag)
	}
	if name != "ToolState" {
		unknown := "Unknown" + name
		s.define(unknown, nil, new(node).set("description", article(name)+" of a type that is not described here: keep it in its place.").
			set("type", "object").set("properties", new(node).set(key, new(node).set("type", "string").set("pattern", `\S`).set("not", new(node).set("enum", tags)))).
			set("required", []string{key}))
		arms = append(arms, ref(unknown))
	}
	s.define(name, nil, new(node).set("description", s.prose(s.src.types["protocol."+name], nil)).set("oneOf", arms))
}

func discriminator(v any) string {
	switch v := v.(type) {
	case protocol.Event:
		return string(v.EventType())
	case protocol.Part:
		return string(v.PartType())
	case protocol.Delta:
		return string(v.DeltaType())
	case protocol.ToolState:
		return string(v.Status())
	}
	panic(fmt.Sprintf("%T is no member of a union", v))
}

// alias defines name as what v points to: a struct of the same name, or a reference to its own definition.
func (s *schema) alias(name string, v any) {
	t := reflect.TypeOf(v).Elem()
	if t.Name() == name {
		s.of(t)
		return
	}
	s.define(name, nil, s.of(t).(*node))
}

func (s *schema) request(method, base string) *node {
	id := new(node).set("type", []string{"string", "integer"})
	n := object(field{"jsonrpc", constant("2.0")}, field{"id", id}, field{"method", constant(method)}, field{"params", ref(base + "Params")})
	if p := s.known[base+"Params"]; p.get("required") == nil {
		n.set("required", []string{"jsonrpc", "id", "method"})
	}
	return n
}

func (s *schema) describe(n *node, t reflect.Type) {
	if d := s.src.types[sourceName(t)]; d != "" {
		n.set("description", s.prose(d, t))
	}
}

// sourceName returns the name of a type as [source] has it.
func sourceName(t reflect.Type) string {
	pkg := path.Base(t.PkgPath())
	if pkg == "main" {
		pkg = "schemagen"
	}
	return pkg + "." + t.Name()
}

// defName returns the name of a type's definition. Those of package conversation have names of the protocol's.
func defName(t reflect.Type) string {
	if t.Kind() == reflect.Struct && path.Base(t.PkgPath()) == "conversation" {
		return "Conversation" + t.Name()
	}
	return t.Name()
}

func article(name string) string {
	if strings.HasPrefix(name, "E") {
		return "An " + strings.ToLower(name)
	}
	return "A " + strings.ToLower(name)
}

type field struct {
	name   string
	schema any
}

func (s *schema) structFields(n *node, t reflect.Type, first ...field) {
	props := &node{}
	var required []string
	for _, f := range first {
		props.set(f.name, f.schema)
		required = append(required, f.name)
	}
	s.addFields(props, &required, t)
	if len(props.members) > 0 {
		n.set("properties", props)
	}
	if len(required) > 0 {
		n.set("required", required)
	}
}

func (s *schema) addFields(props *node, required *[]string, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		if f.Anonymous && !tagged {
			s.addFields(props, required, f.Type)
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		if !f.IsExported() || name == "-" || props.get(name) != nil {
			continue
		}
		fs := s.of(f.Type)
		if def, named := rawMembers[t.Name()+"."+name]; named {
			fs = ref(def)
		}
		if d := s.src.fields[sourceName(t)][f.Name]; d != "" {
			fs = withDescription(fs.(*node), s.prose(d, t))
		}
		if name == "fromSeq" || t == reflect.TypeFor[envelope]() && name == "seq" {
			fs.(*node).set("minimum", 1)
		}
		if isNullable(t.Name(), name) {
			fs = new(node).set("anyOf", []any{fs, new(node).set("type", "null")})
		}
		props.set(name, fs)
		if isRequired(t.Name(), name, opts, props) {
			*required = append(*required, name)
		}
	}
}

// isRequired reads the tag; only sessionId differs, which every event must have but for one.
func isRequired(def, name, opts string, props *node) bool {
	if def == "EventHeader" && name == "sessionId" {
		return props.get("type").(*node).get("const") != string(protocol.EventError)
	}
	return !strings.Contains(opts, "omit")
}

// of returns the schema of a Go type, defining the structs that it meets.
func (s *schema) of(t reflect.Type) any {
	if other := standIns[t]; other != nil {
		t = other
	}
	switch t {
	case reflect.TypeFor[conversation.Entry]():
		return s.conversationEntry()
	case reflect.TypeFor[json.RawMessage]():
		return &node{}
	case reflect.TypeFor[protocol.Meta]():
		return new(node).set("type", "object")
	case reflect.TypeFor[protocol.Input]():
		return ref("Input")
	case reflect.TypeFor[protocol.Envelope]():
		return ref("Envelope")
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Interface:
		return ref(t.Name())
	case reflect.Struct:
		s.define(defName(t), t, nil)
		return ref(defName(t))
	case reflect.Slice:
		return new(node).set("type", "array").set("items", s.of(t.Elem()))
	case reflect.Array:
		return new(node).set("type", "array").set("items", s.of(t.Elem())).set("minItems", t.Len()).set("maxItems", t.Len())
	case reflect.Map:
		return new(node).set("type", "object").set("additionalProperties", s.of(t.Elem()))
	case reflect.String:
		return s.stringType(t)
	case reflect.Bool:
		return new(node).set("type", "boolean")
	case reflect.Float64:
		return new(node).set("type", "number")
	case reflect.Uint64:
		return new(node).set("type", "integer").set("minimum", 0)
	}
	return new(node).set("type", "integer")
}

func (s *schema) stringType(t reflect.Type) any {
	v := s.src.vocabs[sourceName(t)]
	if v == nil || t.Name() == "HarnessID" {
		return new(node).set("type", "string")
	}
	if s.known[t.Name()] == nil {
		n := new(node).set("description", s.prose(s.src.types[sourceName(t)], nil)).set("type", "string")
		if v.closed {
			n.set("enum", v.values)
		} else {
			n.set("pattern", `\S`).set("examples", v.values)
		}
		s.define(t.Name(), nil, n)
	}
	return ref(t.Name())
}

func ref(name string) *node { return new(node).set("$ref", "#/$defs/"+name) }

func constant(v string) *node { return new(node).set("const", v) }

func object(fields ...field) *node {
	props, required := &node{}, []string{}
	for _, f := range fields {
		props.set(f.name, f.schema)
		required = append(required, f.name)
	}
	return new(node).set("type", "object").set("properties", props).set("required", required)
}

func withDescription(n *node, d string) *node {
	return &node{members: append([]pair{{"description", d}}, n.members...)}
}

// goName turns "turn/start" into "TurnStart".
func goName(method string) string {
	var b strings.Builder
	for _, w := range strings.Split(method, "/") {
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return b.String()
}

// rawMembers names the definitions of members that are raw JSON in Go.
var rawMembers = map[string]string{"SessionSnapshotResult.state": "ConversationState"}

// nullable lists the members that may be null, by definition and member.
var nullable = map[string][]string{
	"EventsReplayResult":    {"firstAvailableSeq", "latestSeq"},
	"EventsSubscribeParams": {"sessionIds"},
}

func isNullable(def, member string) bool { return slices.Contains(nullable[def], member) }
