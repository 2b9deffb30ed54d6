package codex

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

const (
	redacted  = "[redacted]"
	minSecret = 4 // bytes; a shorter one would blank ordinary text
)

// A redactor blanks secrets, as they are and as JSON writes them. The zero value blanks nothing.
type redactor struct{ forms []string }

func newRedactor(secrets []string) redactor {
	var r redactor
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		quoted := string(encode(s))
		r.forms = append(r.forms, s, quoted[1:len(quoted)-1])
	}
	// Longest first, so that one which contains another goes whole.
	slices.SortFunc(r.forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	r.forms = slices.Compact(r.forms)
	return r
}

func (r redactor) text(s string) string {
	for _, form := range r.forms {
		s = strings.ReplaceAll(s, form, redacted)
	}
	return s
}

// bytes returns a copy of b without the secrets.
func (r redactor) bytes(b []byte) []byte {
	b = bytes.Clone(b)
	for _, form := range r.forms {
		b = bytes.ReplaceAll(b, []byte(form), []byte(redacted))
	}
	return b
}
