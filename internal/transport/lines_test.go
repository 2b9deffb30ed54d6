package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// halves is a stream made of a reader and a writer.
type halves struct {
	io.Reader
	io.Writer
}

func (halves) Close() error { return nil }

// trickle yields its text in pieces of odd sizes.
type trickle struct {
	text string
	n    int
}

func (r *trickle) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	r.n = r.n%7 + 1
	n := copy(p, r.text[:min(r.n*977, len(r.text))])
	r.text = r.text[n:]
	return n, nil
}

func TestLines(t *testing.T) {
	const limit = 200_000
	full := strings.Repeat("f", limit)
	in := "\n\r\n  \na\r\n\xef\xbb\xbf b \n" + full + "\n" + full + "x\n" + strings.Repeat("y", 5*limit) + "\nc\n" + strings.Repeat("z", 2*limit)
	p := NewLines(halves{&trickle{text: in}, io.Discard}, PipeOptions{MaxMessageBytes: limit})
	var got []string
	for {
		text, err := p.Read(t.Context())
		if big, ok := errors.AsType[*TooLargeError](err); ok {
			got = append(got, fmt.Sprintf("%d %.3s", big.Size, big.Head))
			continue
		}
		if err != nil {
			got = append(got, err.Error())
			break
		}
		if string(text) == full {
			text = []byte("full")
		}
		got = append(got, string(text))
	}
	want := fmt.Sprintf("[a b full %d fff %d yyy c %d zzz EOF]", limit+2, 5*limit+1, 2*limit)
	if fmt.Sprint(got) != want {
		t.Errorf("got  %.300s\nwant %s", fmt.Sprint(got), want)
	}
	if _, err := p.Read(t.Context()); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

func TestLinesLastWithoutBreak(t *testing.T) {
	p := NewLines(halves{strings.NewReader("a\nb"), io.Discard}, PipeOptions{})
	for _, want := range []string{"a", "b"} {
		if got, err := p.Read(t.Context()); err != nil || string(got) != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if _, err := p.Read(t.Context()); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

// countWrites counts the writes that reach a stream.
type countWrites struct {
	bytes.Buffer
	n int
}

func (w *countWrites) Write(p []byte) (int, error) {
	w.n++
	return w.Buffer.Write(p)
}

func TestLinesCoalesce(t *testing.T) {
	w := &countWrites{}
	p := NewLines(halves{strings.NewReader(""), w}, PipeOptions{})
	texts := make([][]byte, 1000)
	for i := range texts {
		texts[i] = []byte(`{"a":` + "\n" + `1}`)
	}
	if err := p.Write(t.Context(), texts...); err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat(`{"a": 1}`+"\n", 1000); w.String() != want || w.n != 1 {
		t.Errorf("%d writes of %d bytes", w.n, w.Len())
	}
	if err := p.Write(t.Context(), bytes.Repeat([]byte("x"), 3*chunkSize)); err != nil || w.n != 1+4 {
		t.Errorf("%d writes, %v", w.n, err)
	}
}

// An oversized line is answered with an error, and the connection lives: robustness row 36.
func TestLinesOversizedIsAnswered(t *testing.T) {
	a, b := net.Pipe()
	c := NewConn(t.Context(), NewLines(b, PipeOptions{MaxMessageBytes: 100}), Options{})
	defer c.Close(CloseNormal, "")
	p := NewLines(a, PipeOptions{})
	defer p.Close(CloseNormal, "")
	go p.Write(t.Context(), bytes.Repeat([]byte("x"), 100_000), []byte(`{"jsonrpc":"2.0","id":1,"method":"a"}`))
	for _, want := range []string{`"id":null,"error":{"code":-32600,"message":"a message of 100001 bytes was skipped`, `"id":1,"error":{"code":-32601`} {
		if got, err := p.Read(t.Context()); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("got %s, %v", got, err)
		}
	}
}

func TestLinesStalledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer a.Close()
		p := NewLines(b, PipeOptions{})
		start := time.Now()
		err := p.Write(t.Context(), []byte("x"))
		if CodeOf(err) != CloseStalled || time.Since(start) != DefaultWriteTimeout {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		if _, err := p.Read(t.Context()); CodeOf(err) != CloseStalled {
			t.Errorf("got %v", err)
		}
	})
}

func TestReadContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer a.Close()
		m, _ := Memory()
		for _, p := range []Pipe{NewLines(b, PipeOptions{}), m} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := p.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if err := p.Write(t.Context(), []byte("x")); err == nil {
				t.Error("the pipe was not closed")
			}
			cancel()
		}
	})
}

func TestStdio(t *testing.T) {
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := NewLines(Stdio(inR, &out), PipeOptions{})
	big := strings.Repeat("x", 100_000)
	go fmt.Fprintf(inW, "a\n%s\n", big)
	for _, want := range []string{"a", big} {
		if got, err := p.Read(t.Context()); err != nil || string(got) != want {
			t.Errorf("got %.10q, %v", got, err)
		}
	}
	if err := p.Write(t.Context(), []byte("answer")); err != nil || out.String() != "answer\n" {
		t.Errorf("wrote %q, %v", out.String(), err)
	}
	// Close does not wait for a read that cannot be interrupted.
	done := make(chan error)
	go func() { _, err := p.Read(context.Background()); done <- err }()
	p.Close(CloseGoingAway, "")
	if err := <-done; CodeOf(err) != CloseGoingAway {
		t.Errorf("got %v", err)
	}
	inW.Close() // lets the goroutine that is left behind go
	defer inR.Close()
}

func TestStdioEnd(t *testing.T) {
	p := NewLines(Stdio(strings.NewReader("a\nb"), io.Discard), PipeOptions{})
	defer p.Close(CloseNormal, "")
	c := NewConn(t.Context(), p, Options{Tolerant: true})
	<-c.Done()
	if c.Err() != io.EOF {
		t.Errorf("got %v", c.Err())
	}
	c.Close(CloseNormal, "")
}
