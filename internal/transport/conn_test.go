package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// pair returns two connections over a memory pipe, closed at the end of the test.
func pair(t *testing.T, client, server Options) (c, s *Conn) {
	t.Helper()
	a, b := Memory()
	s, c = NewConn(t.Context(), b, server), NewConn(t.Context(), a, client)
	t.Cleanup(func() {
		c.Close(CloseNormal, "")
		s.Close(CloseNormal, "")
	})
	return c, s
}

func TestCall(t *testing.T) {
	params := `{"z":1,"a":"<b>&\u00e4","z":1.50}`
	c, _ := pair(t, Options{}, Options{Logger: quiet(), Handle: func(_ context.Context, r *Request) (any, error) {
		switch r.Method {
		case "echo":
			return r.Params, nil
		case "html":
			return map[string]string{"x": "<&>"}, nil
		case "fail":
			return nil, fmt.Errorf("wrapped: %w", &Error{Code: 7, Message: "no", Data: json.RawMessage(`{"b":1,"a":"<"}`)})
		case "secret":
			return nil, errors.New("key sk-123")
		case "panic":
			panic("boom")
		}
		return r.Go(func(ctx context.Context, r *Request) (any, error) { return "async", nil })
	}})
	for method, want := range map[string]string{"echo": params, "html": `{"x":"<&>"}`, "other": `"async"`} {
		got, err := c.Call(t.Context(), method, json.RawMessage(params))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", method, got, err, want)
		}
	}
	for method, want := range map[string]string{"fail": `no (code 7)`, "secret": "internal error (code -32603)", "panic": "internal error (code -32603)"} {
		_, err := c.Call(t.Context(), method, nil)
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v; want %s", method, err, want)
		}
	}
}

func TestCallForgets(t *testing.T) {
	got := make(chan *Request, 10)
	c, _ := pair(t, Options{}, Options{Handle: func(_ context.Context, r *Request) (any, error) {
		if r.Method == "slow" {
			got <- r
			return r.Later()
		}
		return r.Method, nil
	}})
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := c.Call(ctx, "slow", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		cancel()
		(<-got).Reply("late", nil)
		if r, err := c.Call(t.Context(), "fast", nil); err != nil || string(r) != `"fast"` {
			t.Fatalf("got %s, %v", r, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls.lastSlot != 1 || len(c.calls.byID) != 0 || len(c.calls.bySlot) != 0 {
		t.Errorf("slots %d, by id %d, by slot %d", c.calls.lastSlot, len(c.calls.byID), len(c.calls.bySlot))
	}
}

func TestCloseFailsCalls(t *testing.T) {
	c, s := pair(t, Options{}, Options{Handle: func(_ context.Context, r *Request) (any, error) { return r.Later() }})
	errs := make(chan error, 2)
	c.Start(t.Context(), "x", nil, func(_ json.RawMessage, err error) { errs <- err })
	go func() { _, err := c.Call(t.Context(), "y", nil); errs <- err }()
	for c.waiting() < 2 {
		time.Sleep(time.Millisecond)
	}
	s.Close(CloseGoingAway, "shutdown")
	for range 2 {
		if err := <-errs; !errors.Is(err, ErrClosed) || CodeOf(err) != CloseGoingAway {
			t.Errorf("got %v", err)
		}
	}
	if err := c.Start(t.Context(), "z", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func (c *Conn) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls.byID)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
