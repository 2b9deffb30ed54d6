//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestDeafChild(t *testing.T) {
	spec := helper("deaf")
	spec.WriteStall = 200 * time.Millisecond
	p := start(t, spec)
	expectLine(t, p, "ready")
	big := []byte(strings.Repeat("x", 1<<20))
	err := p.WriteLine(t.Context(), big)
	if werr, ok := errors.AsType[*WriteError](err); !ok || !werr.Begun || !errors.Is(err, ErrStdinStalled) {
		t.Fatalf("got %v", err)
	}
	err = p.WriteLine(t.Context(), big)
	if werr, ok := errors.AsType[*WriteError](err); !ok || werr.Begun || !errors.Is(err, ErrStdinStalled) {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errBoom)
	defer cancel()
	if err := p.WriteLine(ctx, big); !errors.Is(err, errBoom) {
		t.Fatalf("got %v", err)
	}
}

// A line that was begun is completed before the next one, so the stream stays whole.
func TestCancelledLineIsCompleted(t *testing.T) {
	p := start(t, helper("late"))
	expectLine(t, p, "ready")
	first := bytes.Repeat([]byte{'a'}, 300_000)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := p.WriteLine(ctx, first)
	if werr, ok := errors.AsType[*WriteError](err); !ok || !werr.Begun || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if err := p.WriteLine(t.Context(), []byte("second")); err != nil {
			t.Error(err)
		}
	})
	expectLine(t, p, string(first))
	expectLine(t, p, "second")
}

func TestWritersDoNotMix(t *testing.T) {
	p := start(t, helper("echo"))
	const writers, each = 8, 50
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				ctx, cancel := context.WithCancel(t.Context()) // its late end must not disturb the others
				line := fmt.Sprintf("%d %d %s", w, i, strings.Repeat("y", (w+1)*i*40))
				if err := p.WriteLine(ctx, []byte(line)); err != nil {
					t.Error(err)
				}
				go cancel()
			}
		})
	}
	wg.Go(func() {
		next := [writers]int{}
		for range writers * each {
			line, err := p.ReadLine()
			if err != nil {
				t.Error(err)
				return
			}
			var w, i int
			if _, err := fmt.Sscanf(string(line), "%d %d", &w, &i); err != nil || i != next[w] || strings.Count(string(line), "y") != (w+1)*i*40 {
				t.Errorf("torn or out of order: %.40q", line)
				return
			}
			next[w]++
		}
	})
	wg.Wait()
}

func TestBigInput(t *testing.T) {
	p := start(t, helper("echo"))
	big := bytes.Repeat([]byte("0123456789"), 800_000)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if err := p.WriteLine(t.Context(), big); err != nil {
			t.Error(err)
		}
	})
	line, err := p.ReadLine()
	if err != nil || !bytes.Equal(line, big) {
		t.Errorf("got %d bytes, %v", len(line), err)
	}
}

func TestNewlines(t *testing.T) {
	p := start(t, helper("echo"))
	if err := p.WriteLine(t.Context(), []byte("a\nb")); err == nil {
		t.Error("two lines were taken for one")
	}
	if err := p.WriteLine(t.Context(), []byte("c\n")); err != nil {
		t.Error(err)
	}
	p.CloseStdin()
	expectLine(t, p, "c")
	expectEOF(t, p)
	if err := p.WriteLine(t.Context(), []byte("d")); !errors.Is(err, ErrStdinClosed) {
		t.Errorf("got %v", err)
	}
}
