package process

import (
	"bytes"
	"cmp"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	redacted  = "[redacted]"
	minSecret = 4 // bytes; shorter ones would blank ordinary text
)

// A tail keeps the last bytes of stderr. Its memory grows with what is written, up to its limit: most agents write nothing.
type tail struct {
	limit   int
	secrets []string // longest first, so that one which contains another goes whole

	mu    sync.Mutex
	ring  []byte
	at    int  // where the next byte goes once the ring is full
	lost  bool // something was overwritten
	total int64
}

func newTail(limit int, secrets []string) *tail {
	t := &tail{limit: limit}
	for _, s := range secrets {
		if len(s) >= minSecret {
			t.secrets = append(t.secrets, s)
		}
	}
	slices.SortFunc(t.secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return t
}

// drain reads src to its end, so that the child never waits for its stderr.
func (t *tail) drain(src io.Reader) {
	buf := make([]byte, 8<<10)
	for {
		n, err := src.Read(buf)
		t.write(buf[:n])
		if err != nil {
			return
		}
	}
}

func (t *tail) write(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(b))
	if room := t.limit - len(t.ring); room > 0 {
		n := min(room, len(b))
		t.ring = append(t.ring, b[:n]...)
		b = b[n:]
	}
	if len(b) == 0 {
		return
	}
	t.lost = true
	if len(b) > t.limit {
		b = b[len(b)-t.limit:]
	}
	for len(b) > 0 {
		n := copy(t.ring[t.at:], b)
		b = b[n:]
		t.at = (t.at + n) % t.limit
	}
}

// bytes returns what is kept, and whether something before it was lost.
func (t *tail) bytes() ([]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Concat(t.ring[t.at:], t.ring[:t.at]), t.lost
}

// lines returns the last n lines that are kept, cleaned and redacted; all of them if n <= 0.
func (t *tail) lines(n int) string {
	b, lost := t.bytes()
	if lost {
		b = t.dropTornSecret(b)
		if _, rest, ok := bytes.Cut(b, []byte{'\n'}); ok && len(rest) > 0 {
			b = rest // the first line lacks its beginning
		}
	}
	text := clean(t.redact(string(b)))
	if n > 0 {
		lines := strings.Split(text, "\n")
		text = strings.Join(lines[max(0, len(lines)-n):], "\n")
	}
	return text
}

func (t *tail) redact(s string) string {
	for _, secret := range t.secrets {
		s = strings.ReplaceAll(s, secret, redacted)
	}
	return s
}

// dropTornSecret removes the end of a secret whose beginning was overwritten.
func (t *tail) dropTornSecret(b []byte) []byte {
	for _, secret := range t.secrets {
		for i := 1; i < len(secret); i++ {
			if bytes.HasPrefix(b, []byte(secret[i:])) {
				return b[len(secret)-i:]
			}
		}
	}
	return b
}

var escapeSequence = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])`)

// clean makes text of a terminal fit for a message: no escape sequences, no control characters, valid UTF-8, no blank end.
func clean(s string) string {
	s = escapeSequence.ReplaceAllString(strings.ToValidUTF8(s, "\uFFFD"), "")
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	return strings.TrimRight(s, "\n\t ")
}
