package redact_test

import (
	"strings"
	"testing"

	"agentserver/harness/internal/redact"
)

func TestRedactor(t *testing.T) {
	r := redact.New([]string{"pa\"ss<1>", "long-secret", "long-secret-and-more", "abc", ""})
	for in, want := range map[string]string{
		`as it is: pa"ss<1>`:                      `as it is: [redacted]`,
		`in JSON: "pa\"ss<1>"`:                    `in JSON: "[redacted]"`,
		`escaped for HTML: "pa\"ss\u003c1\u003e"`: `escaped for HTML: "[redacted]"`,
		"long-secret-and-more, long-secret":       "[redacted], [redacted]",
		"too short to be one: abc":                "too short to be one: abc",
		"":                                        "",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
		raw := []byte(in)
		if got := string(r.Bytes(raw)); got != want || string(raw) != in {
			t.Errorf("Bytes(%q) = %q, want %q and the argument as it was (%q)", in, got, want, raw)
		}
	}
	if got := (redact.Redactor{}).Text("anything"); !strings.Contains(got, "anything") {
		t.Errorf("the zero value made %q", got)
	}
}
