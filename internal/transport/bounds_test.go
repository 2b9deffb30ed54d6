package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// gatePipe is a pipe whose writes wait for a gate, and which remembers them.
type gatePipe struct {
	Pipe
	gate chan struct{}

	mu      sync.Mutex
	batches [][]string
}

func (p *gatePipe) Write(ctx context.Context, texts ...[]byte) error {
	<-p.gate
	var batch []string
	for _, t := range texts {
		batch = append(batch, string(t))
	}
	p.mu.Lock()
	p.batches = append(p.batches, batch)
	p.mu.Unlock()
	return nil
}

// What waits for a slow peer is bounded, and senders wait for it with their own contexts.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Memory()
		defer a.Close(CloseNormal, "")
		p := &gatePipe{Pipe: b, gate: make(chan struct{})}
		c := NewConn(t.Context(), p, Options{MaxQueuedTexts: 3})
		var tasks sync.WaitGroup
		send := func(s string) { tasks.Go(func() { c.Send(context.Background(), []byte(s)) }); synctest.Wait() }
		for _, s := range []string{"1", "2", "3", "4"} { // 1 is being written
			send(s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Send(ctx, []byte("5")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Send: %v", err)
		}
		if _, err := c.Call(ctx, "x", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Call: %v", err)
		}
		send("6")
		close(p.gate)
		tasks.Wait()
		c.Flush(t.Context())
		if got := fmt.Sprint(p.batches); got != "[[1] [2 3 4] [6]]" {
			t.Errorf("got %s", got)
		}
		c.Close(CloseNormal, "")
	})
}

// A peer that sends requests and takes no replies is no longer read.
func TestInFlightIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Memory()
		var requests []*Request
		c := NewConn(t.Context(), b, Options{MaxInFlight: 3, Handle: func(_ context.Context, r *Request) (any, error) {
			requests = append(requests, r)
			return r.Later()
		}})
		for i := range 10 {
			a.Write(t.Context(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"a"}`, i))
		}
		synctest.Wait()
		if len(requests) != 3 {
			t.Errorf("%d in flight", len(requests))
		}
		for i := 0; i < len(requests); i++ {
			requests[i].Reply(i, nil)
			synctest.Wait()
		}
		if len(requests) != 10 || len(c.requests) != 0 {
			t.Errorf("%d came, %d are left", len(requests), len(c.requests))
		}
		for i := range 10 {
			if got, err := a.Read(t.Context()); string(got) != fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%d}`, i, i) {
				t.Errorf("got %s, %v", got, err)
			}
		}
		c.Close(CloseNormal, "")
	})
}

// A stalled peer blocks nobody but itself: replies are queued, the read loop goes on.
func TestReplyDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Memory()
		p := &gatePipe{Pipe: b, gate: make(chan struct{})}
		n := 0
		c := NewConn(t.Context(), p, Options{Handle: func(context.Context, *Request) (any, error) { n++; return n, nil }})
		for i := range 20 {
			a.Write(t.Context(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"a"}`, i))
		}
		synctest.Wait()
		if n != 20 {
			t.Errorf("%d handled", n)
		}
		close(p.gate)
		c.Close(CloseNormal, "")
	})
}

// Close ends handlers through their context, and waits for them.
func TestCloseJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Memory()
		ended := false
		c := NewConn(t.Context(), b, Options{Handle: func(_ context.Context, r *Request) (any, error) {
			return r.Go(func(ctx context.Context, r *Request) (any, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				ended = errors.Is(context.Cause(ctx), ErrClosed)
				return nil, nil
			})
		}})
		a.Write(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"a"}`))
		synctest.Wait()
		go c.Close(CloseGoingAway, "bye")
		c.Close(CloseNormal, "")
		if !ended {
			t.Error("Close returned before the handler did")
		}
		if _, err := a.Read(t.Context()); CodeOf(err) == CloseAbnormal {
			t.Errorf("the peer saw %v", err)
		}
		if err := c.Send(t.Context(), []byte("x")); !errors.Is(err, ErrClosed) {
			t.Errorf("Send: %v", err)
		}
	})
}

// Shutdown delivers what is queued before it closes.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Memory()
		c := NewConn(t.Context(), b, Options{})
		go c.Send(context.Background(), make([][]byte, 0)...)
		for i := range 50 {
			if err := c.Notify(t.Context(), "event", i); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Shutdown(t.Context(), CloseGoingAway, "shutdown"); err != nil {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			if _, err := a.Read(t.Context()); err != nil {
				if n != 50 || CodeOf(err) != CloseGoingAway {
					t.Errorf("%d came, then %v", n, err)
				}
				return
			}
		}
	})
}

// Who pipes requests into stdin and closes it gets the answers.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"quick"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"slow"}`)
		c := NewConn(t.Context(), NewLines(halves{in, &out}, PipeOptions{}), Options{
			Linger: time.Minute,
			Handle: func(_ context.Context, r *Request) (any, error) {
				if r.Method == "quick" {
					return 1, nil
				}
				return r.Go(func(context.Context, *Request) (any, error) { time.Sleep(time.Second); return 2, nil })
			},
		})
		<-c.Done()
		c.Close(CloseNormal, "")
		if want := `{"jsonrpc":"2.0","id":1,"result":1}` + "\n" + `{"jsonrpc":"2.0","id":2,"result":2}` + "\n"; out.String() != want {
			t.Errorf("got %s", out.String())
		}
	})
}

// The context of NewConn ends the connection.
func TestConnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a, b := Memory()
		c := NewConn(ctx, b, Options{})
		cancel()
		<-c.Done()
		if CodeOf(c.Err()) != CloseGoingAway {
			t.Errorf("got %v", c.Err())
		}
		c.Close(CloseNormal, "")
		if _, err := a.Read(t.Context()); CodeOf(err) != CloseGoingAway {
			t.Errorf("the peer saw %v", err)
		}
	})
}

// A panic in a hook is passed over.
func TestPanickingHooks(t *testing.T) {
	a, b := Memory()
	c := NewConn(t.Context(), b, Options{
		Logger: quiet(),
		Notify: func(*Notification) { panic("notify") },
		Junk:   func(string, []byte) { panic("junk") },
		Handle: func(context.Context, *Request) (any, error) { panic("handle") },
	})
	defer c.Close(CloseNormal, "")
	a.Write(t.Context(), []byte(`{"jsonrpc":"2.0","method":"a"}`), []byte(`{"jsonrpc":"2.0","id":1,"result":1}`), []byte(`{"jsonrpc":"2.0","id":1,"method":"a"}`))
	if got, err := a.Read(t.Context()); string(got) != `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}` {
		t.Errorf("got %s, %v", got, err)
	}
}
