package process

import (
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	for _, c := range []struct {
		name    string
		limit   int
		secrets []string
		in      []string
		n       int
		want    string
	}{
		{"nothing", 100, nil, nil, 0, ""},
		{"all", 100, nil, []string{"a\nb\n"}, 0, "a\nb"},
		{"the last ones", 100, nil, []string{"a\nb\nc\n\n"}, 2, "b\nc"},
		{"overwritten", 10, nil, []string{"aaaa\nbbbb\n", "cccc\n"}, 0, "cccc"},
		{"torn line goes", 10, nil, []string{"aaaa\nbbbbbb\ncc\n"}, 0, "cc"},
		{"one endless line", 10, nil, []string{strings.Repeat("x", 95), "0123456789"}, 0, "0123456789"},
		{"secret over two writes", 100, []string{"s3cret!"}, []string{"key s3c", "ret! end\n"}, 0, "key [redacted] end"},
		{"the longer secret first", 100, []string{"abcd", "abcdefgh"}, []string{"abcdefgh abcd"}, 0, "[redacted] [redacted]"},
		{"too short for a secret", 100, []string{"abc"}, []string{"abc"}, 0, "abc"},
		{"torn secret", 10, []string{"0123456789"}, []string{"01234", "56789 end"}, 0, " end"},
		{"torn secret of two lines", 12, []string{"BEGIN\nKEYKEY"}, []string{"BEGIN\nKEYKEY\nend"}, 0, "end"},
		{"terminal", 100, nil, []string{"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x00y\xff\tz\r\n"}, 0, "red xy\ufffd\tz"},
	} {
		tl := newTail(c.limit, c.secrets)
		for _, s := range c.in {
			tl.write([]byte(s))
		}
		if got := tl.lines(c.n); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if len(tl.ring) > c.limit {
			t.Errorf("%s: %d bytes kept", c.name, len(tl.ring))
		}
	}
}

// The ring agrees with a plain string at every point.
func TestTailRing(t *testing.T) {
	tl := newTail(17, nil)
	all := ""
	for i := range 200 {
		s := strings.Repeat(string(rune('a'+i%26)), i%41)
		tl.write([]byte(s))
		all += s
		want := all[max(0, len(all)-17):]
		if got, lost := tl.bytes(); string(got) != want || lost != (len(all) > 17) {
			t.Fatalf("after %d writes: got %q, %v, want %q", i, got, lost, want)
		}
	}
}
