// Package redact blanks secrets in what a driver hands on: in errors, in the tail of stderr, and in raw messages.
package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

const (
	mark      = "[redacted]"
	minSecret = 4 // bytes; a shorter one would blank ordinary text
)

// A Redactor blanks secrets, as they are and as JSON writes them, with and without HTML escaping. The zero value blanks nothing. It is safe for
// concurrent use.
type Redactor struct{ forms []string }

// New returns a redactor of the given secrets. Those of fewer than 4 bytes are left alone, for they would blank ordinary text.
func New(secrets []string) Redactor {
	var r Redactor
	for _, s := range secrets {
		if len(s) >= minSecret {
			r.forms = append(r.forms, s, escaped(s, true), escaped(s, false))
		}
	}
	// Longest first, so that one which contains another goes whole.
	slices.SortFunc(r.forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	r.forms = slices.Compact(r.forms)
	return r
}

func escaped(s string, escapeHTML bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(escapeHTML)
	_ = enc.Encode(s) // a string always encodes
	quoted := strings.TrimSuffix(b.String(), "\n")
	return quoted[1 : len(quoted)-1]
}

// Text returns s without the secrets.
func (r Redactor) Text(s string) string {
	for _, form := range r.forms {
		s = strings.ReplaceAll(s, form, mark)
	}
	return s
}

// Bytes returns a copy of b without the secrets.
func (r Redactor) Bytes(b []byte) []byte {
	b = bytes.Clone(b)
	for _, form := range r.forms {
		b = bytes.ReplaceAll(b, []byte(form), []byte(mark))
	}
	return b
}
