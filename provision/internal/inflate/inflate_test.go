package inflate

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// samples are contents of different kinds: what packs well, what does not, long and short distances, and more than the buffers hold.
func samples() [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 700_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	skewed := make([]byte, 700_000)
	for i := range skewed {
		skewed[i] = byte(r.ExpFloat64() * 9)
	}
	self, _ := os.ReadFile(os.Args[0]) // a program, as packages hold
	return [][]byte{
		nil, []byte("a"), []byte(strings.Repeat("ab", 1000)), bytes.Repeat([]byte{0}, 3_000_000), noise, skewed,
		bytes.Repeat(noise[:33_000], 5), bytes.Repeat(noise[:32_768], 3), bytes.Repeat([]byte("seven.."), 200_000), self[:min(len(self), 1<<20)],
	}
}

func TestRoundTrip(t *testing.T) {
	for i, want := range samples() {
		for _, level := range []int{flate.NoCompression, flate.BestSpeed, flate.DefaultCompression, flate.BestCompression, flate.HuffmanOnly} {
			var packed bytes.Buffer
			w, _ := gzip.NewWriterLevel(&packed, level)
			w.Name, w.Comment, w.Extra = "name", "comment", []byte("extra")
			w.Write(want)
			w.Close()
			for name, src := range map[string]io.Reader{
				"whole": bytes.NewReader(packed.Bytes()), "halves": iotest.HalfReader(bytes.NewReader(packed.Bytes())),
				"crumbs": &chunks{packed.Bytes(), 7 + packed.Len()/10_000}, "EOF with data": iotest.DataErrReader(bytes.NewReader(packed.Bytes())),
			} {
				got, err := readAll(src)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("sample %d, level %d, %s: %d of %d bytes, %v", i, level, name, len(got), len(want), err)
				}
			}
		}
	}
}

func readAll(src io.Reader) ([]byte, error) {
	r, err := NewReader(src)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// TestTruncated cuts a stream at every place: no part may pass for the whole.
func TestTruncated(t *testing.T) {
	packed := pack(samples()[5][:3000])
	for n := range packed {
		if _, err := readAll(bytes.NewReader(packed[:n])); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d of %d: %v", n, len(packed), err)
		}
	}
	broken := errors.New("broken")
	src := io.MultiReader(bytes.NewReader(packed[:len(packed)/2]), iotest.ErrReader(broken))
	if _, err := readAll(src); !errors.Is(err, broken) {
		t.Errorf("a source that fails: %v", err)
	}
}

// TestDamaged damages streams at random, up to three bits, and compares with the standard library: the same bytes, or both refuse.
func TestDamaged(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, sample := range samples() {
		packed := pack(sample[:min(len(sample), 3000)])
		for range 150 {
			bad := bytes.Clone(packed)
			for range 1 + r.IntN(3) {
				bit := 80 + r.IntN(len(bad)*8-80)
				bad[bit/8] ^= 1 << (bit % 8)
			}
			compare(t, bad, 1+r.IntN(400))
		}
	}
}

func pack(data []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write(data)
	w.Close()
	return packed.Bytes()
}

// FuzzAgainstStandard compares with compress/gzip on arbitrary deflate data, its checksum included: both give the same bytes, or both refuse.
func FuzzAgainstStandard(f *testing.F) {
	for _, s := range samples() {
		f.Add(pack(s[:min(len(s), 5000)])[10:], 7)
	}
	f.Fuzz(func(t *testing.T, body []byte, chunk int) {
		packed := append([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), body...)
		compare(t, packed, 1+max(chunk, 0)%4096)
	})
}

// compare decompresses packed, read in pieces of size bytes, here and by the standard library.
func compare(t *testing.T, packed []byte, size int) {
	t.Helper()
	std, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	std.Multistream(false)
	const most = 4 << 20
	want, wantErr := io.ReadAll(io.LimitReader(std, most))
	r, err := NewReader(&chunks{packed, size})
	if err != nil {
		t.Fatal(err)
	}
	got, gotErr := io.ReadAll(io.LimitReader(r, most))
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("the standard library says %v, this says %v, about %x", wantErr, gotErr, packed)
	}
	if n := min(len(got), len(want)); wantErr == nil && !bytes.Equal(got, want) || !bytes.Equal(got[:n], want[:n]) {
		t.Fatalf("%d bytes differ from the standard library's %d, of %x", len(got), len(want), packed)
	}
}

// chunks hands out a few bytes at a time.
type chunks struct {
	rest []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest[:min(c.size, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}

func BenchmarkInflate(b *testing.B) {
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		b.Fatal(err)
	}
	packed := pack(self)
	for name, open := range map[string]func(io.Reader) (io.Reader, error){
		"here":     func(r io.Reader) (io.Reader, error) { return NewReader(r) },
		"standard": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(self)))
			for b.Loop() {
				r, err := open(bytes.NewReader(packed))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
