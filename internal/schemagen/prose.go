package main

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"agentserver/protocol"
)

// The comments are written for Go; the schema's readers know the wire. So the names of Go fields become those of the members, links become code,
// and the few sentences that only make sense in Go are reworded.

// rewordings are phrases of the comments and what the schema says instead. A test fails when one is no longer found.
var rewordings = []struct{ from, to string }{
	{" The union is sealed: its members are the pointer types of the table below and `UnknownEvent`. Switch on the type, with a default for what is not handled.",
		" Events of other types may come (`UnknownEvent`): have a default for them."},
	{" The union is sealed: its members are the pointer types of the table below and `UnknownPart`.", " Parts of other types may come (`UnknownPart`): have a default for them."},
	{" The union is sealed: its members are the types of the table below and `UnknownDelta`.", " Deltas of other types may come (`UnknownDelta`): leave them out."},
	{" The union is sealed and closed: an unknown status is an error.", " There are no others."},
	{"(open: an unknown type decodes as `UnknownPart`)", "(open)"},
	{" errors.Is compares codes only, so that the Err values below serve as targets.", ""},
	{"The zero value of every field but `harness` and `cwd` means the harness's own default.", "Without a member, but for `harness` and `cwd`, the harness's own default holds."},
	{" The zero value delivers single turns of text.", ""},
	{" (spec section 4).", "."},
	{", as ACP writes it (RFD 0002)", ""},
	{" Nil means true.", " It is true when absent."},
	{"Both numbers are nil while", "Both numbers are null while"},
	{"nil is the firehose", "null means all sessions"},
	{"`oldText` is nil for a file", "`oldText` is absent for a file"},
	{" Empty means that the sender did not say.", " It is absent when the sender did not say."},
	{" `state` is the JSON of conversation.`state`.", ""},
	{" 0 when it is not known", " absent or 0 when it is not known"},
	{"`end` is 0 while it goes on", "`end` is absent while it goes on"},
	{" A part that deltas have changed carries no unknown fields until its next snapshot.", ""},
	{"A `part` is a part of a message and where it stands.", "A part of a message and where it stands."},
	{"`outcome` is nil while", "`outcome` is absent while"},
	{"envelope has the fields of protocol.Envelope with the tags that its own codec stands for.", "A row of a session's log. `seq` numbers the session's events from 1, without holes."},
}

var (
	link  = regexp.MustCompile(`\[([A-Z]\w*(?:\.[A-Z]\w*)?)\]`)
	chain = regexp.MustCompile(`\b[A-Z]\w*(?:\.[A-Z]\w*)*`)
)

// prose makes the comment of a type, or of one of its fields, readable for those who know only the wire. t may be nil.
func (s *schema) prose(text string, t reflect.Type) string {
	text = link.ReplaceAllStringFunc(text, func(m string) string {
		name := m[1 : len(m)-1]
		if v, ok := s.src.consts[name]; ok {
			return fmt.Sprintf("%q", v)
		}
		if path, ok := s.member(name, t); ok {
			return "`" + path + "`"
		}
		return "`" + name + "`"
	})
	// What stands in backticks is code already.
	pieces := strings.Split(text, "`")
	for i := 0; i < len(pieces); i += 2 {
		pieces[i] = chain.ReplaceAllStringFunc(pieces[i], func(m string) string {
			if path, ok := s.member(m, t); ok {
				return "`" + path + "`"
			}
			return m
		})
	}
	text = strings.Join(pieces, "`")
	for i, r := range rewordings {
		if strings.Contains(text, r.from) {
			s.reworded[i] = true
			text = strings.ReplaceAll(text, r.from, r.to)
		}
	}
	return strings.TrimSpace(text)
}

// owners are the types that a comment may name before a field.
var owners = map[string]reflect.Type{
	"RunConfig": reflect.TypeFor[protocol.RunConfig](), "ToolPart": reflect.TypeFor[protocol.ToolPart](), "TurnEnded": reflect.TypeFor[protocol.TurnEnded](),
}

// member turns "Cache.Read", said about t, or "RunConfig.MaxTurns" into the path on the wire.
func (s *schema) member(name string, t reflect.Type) (path string, ok bool) {
	var out []string
	for i, word := range strings.Split(name, ".") {
		if owner, known := owners[word]; i == 0 && known && strings.Contains(name, ".") {
			t, out = owner, append(out, word)
			continue
		}
		for t != nil && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t == nil || t.Kind() != reflect.Struct {
			return "", false
		}
		f, found := t.FieldByName(word)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !found || tag == "" || tag == "-" {
			return "", false
		}
		t, out = f.Type, append(out, tag)
	}
	return strings.Join(out, "."), true
}
