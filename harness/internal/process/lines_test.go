package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

var errBoom = errors.New("boom")

// readers are the ways in which the same bytes can arrive.
var readers = map[string]func(io.Reader) io.Reader{
	"whole":        func(r io.Reader) io.Reader { return r },
	"one byte":     iotest.OneByteReader,
	"half":         iotest.HalfReader,
	"data and EOF": iotest.DataErrReader,
}

// collect reads to the end. A line that is too long shows as its size and the beginning of its head.
func collect(t testing.TB, src io.Reader, limit int) (lines []string) {
	t.Helper()
	l := newLineReader(src, limit)
	for {
		line, err := l.next()
		if long, ok := errors.AsType[*LineTooLongError](err); ok {
			lines = append(lines, fmt.Sprintf("!%d %.3s", long.Size, long.Head))
			continue
		}
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("0123456789", 20_000) // 200 000 bytes
	for _, c := range []struct {
		in    string
		limit int
		want  []string
	}{
		{"", 10, nil},
		{"a\nb\n", 10, []string{"a", "b"}},
		{"a\n\n\nb", 10, []string{"a", "", "", "b"}},
		{"a\r\nb\r\r\nc\rd\n\r\n", 10, []string{"a", "b\r", "c\rd", ""}},
		{"\ufeffa\n\ufeffb\n", 10, []string{"a", "\ufeffb"}},
		{"\ufeff", 10, nil},
		{"\ufeff\n", 10, []string{""}},
		{"\x00\xff\xfe\n\x00", 10, []string{"\x00\xff\xfe", "\x00"}},
		{"0123456789\n0123456789a\nb\n", 10, []string{"0123456789", "!11 012", "b"}},
		{"0123456789\r\nb\n", 10, []string{"0123456789", "b"}},
		{"\ufeff0123456789\r\nb\n", 10, []string{"0123456789", "b"}},
		{"0123456789a", 10, []string{"!11 012"}},
		{long + "\nb\n", len(long), []string{long, "b"}},
		{long + "\r\nb\n", len(long), []string{long, "b"}},
		{"\ufeff" + long + "\r\nb\n", len(long), []string{long, "b"}},
		{long + "\nb\n", len(long) - 1, []string{"!200000 012", "b"}},
		{long + "\nb\n", 100, []string{"!200000 012", "b"}},
		{long + "\n" + long, 100, []string{"!200000 012", "!200000 012"}},
		{"a\n" + long, len(long), []string{"a", long}},
		{long + "\n" + long + "\n", 1 << 20, []string{long, long}},
		{strings.Repeat("x", lineBuffer) + "\ny\n", 1 << 20, []string{strings.Repeat("x", lineBuffer), "y"}},
		{strings.Repeat("x", lineBuffer-1) + "\ny\n", 1 << 20, []string{strings.Repeat("x", lineBuffer-1), "y"}},
	} {
		for name, wrap := range readers {
			got := collect(t, wrap(strings.NewReader(c.in)), c.limit)
			if fmt.Sprint(got) != fmt.Sprint(c.want) || len(got) != len(c.want) {
				t.Errorf("%s, %.30q: got %.100q", name, c.in, got)
			}
		}
	}
}

// A stream that breaks ends in its error, not in a torn line.
func TestTornLine(t *testing.T) {
	for _, n := range []int{3, lineBuffer + 5, 5 * lineBuffer} {
		l := newLineReader(io.MultiReader(strings.NewReader("a\n"+strings.Repeat("x", n)), iotest.ErrReader(errBoom)), 1<<20)
		if line, err := l.next(); string(line) != "a" || err != nil {
			t.Fatalf("got %q, %v", line, err)
		}
		for range 2 {
			if line, err := l.next(); err != errBoom {
				t.Errorf("got %.20q, %v", line, err)
			}
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\ufeffc\n\nlast"), 3, uint8(0), 0)
	f.Add([]byte("\xef\xbb\xbf{}\r\n"), 64, uint8(1), 40_000)
	f.Fuzz(func(t *testing.T, in []byte, limit int, how uint8, pad int) {
		limit = max(1, limit%100_000)
		if i := bytes.IndexByte(in, 'P'); i >= 0 && pad > 0 { // long lines, cheaply
			in = append(append(bytes.Clone(in[:i]), bytes.Repeat([]byte{'p'}, pad%150_000)...), in[i:]...)
		}
		wrap := []func(io.Reader) io.Reader{
			readers["whole"], readers["half"], readers["data and EOF"],
		}[how%3]
		got := collect(t, wrap(bytes.NewReader(in)), limit)
		want := reference(in, limit)
		if len(got) != len(want) {
			t.Fatalf("got %d lines, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] && !(strings.HasPrefix(want[i], "!") && strings.HasPrefix(got[i], "!")) {
				t.Fatalf("line %d: got %.50q, want %.50q", i, got[i], want[i])
			}
		}
	})
}

// reference is the plain definition of what a line is.
func reference(in []byte, limit int) (lines []string) {
	in = bytes.TrimPrefix(in, byteOrderMark)
	if len(in) == 0 {
		return nil
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(in), "\n"), "\n") {
		if line = strings.TrimSuffix(line, "\r"); len(line) > limit {
			line = "!"
		}
		lines = append(lines, line)
	}
	return lines
}

// An endless source of equal lines.
type repeat struct {
	line []byte
	at   int
}

func (r *repeat) Read(b []byte) (n int, err error) {
	for n < len(b) {
		m := copy(b[n:], r.line[r.at:])
		n += m
		r.at = (r.at + m) % len(r.line)
	}
	return n, nil
}

func TestOrdinaryLinesAllocateNothing(t *testing.T) {
	l := newLineReader(&repeat{line: append(bytes.Repeat([]byte{'x'}, 299), '\n')}, DefaultMaxLine)
	if n := testing.AllocsPerRun(10_000, func() {
		if line, err := l.next(); err != nil || len(line) != 299 {
			t.Fatal(len(line), err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLines(b *testing.B) {
	for _, size := range []int{300, 10_000, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := newLineReader(&repeat{line: append(bytes.Repeat([]byte{'x'}, size-1), '\n')}, DefaultMaxLine)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
