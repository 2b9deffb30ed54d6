package transport_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/internal/transport"
	"agentserver/internal/transport/transporttest"
)

// serve returns a network whose every connection is handed to use, in a goroutine that the network waits for.
func serve(t *testing.T, o transport.AcceptOptions, use func(transport.Pipe)) *transporttest.Network {
	return transporttest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := transport.Accept(w, r, o)
		if err != nil {
			return
		}
		defer p.Close(transport.CloseInternal, "the test forgot to close")
		use(p)
	}))
}

func dial(t *testing.T, n *transporttest.Network, o transport.PipeOptions) transport.Pipe {
	t.Helper()
	p, err := n.Dial(t.Context(), transport.DialOptions{PipeOptions: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(transport.CloseNormal, "") })
	return p
}

func echo(p transport.Pipe) {
	for {
		text, err := p.Read(context.Background())
		if err != nil {
			return
		}
		if p.Write(context.Background(), text, text) != nil {
			return
		}
	}
}

func TestWebSocketEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, transport.AcceptOptions{}, echo)
		c := dial(t, n, transport.PipeOptions{})
		for _, size := range []int{1, 125, 126, 4000, 65535, 65536, 65537, 300_000} {
			want := strings.Repeat("x", size)
			for i := range want[:min(size, 10)] {
				want = want[:i] + string(rune('a'+i)) + want[i+1:]
			}
			go c.Write(t.Context(), []byte(want), []byte("mark"))
			for _, want := range []string{want, want, "mark", "mark"} {
				if got, err := c.Read(t.Context()); err != nil || string(got) != want {
					t.Fatalf("size %d: got %.20q (%d bytes), %v", size, got, len(got), err)
				}
			}
		}
	})
}

func TestWebSocketManyLinesAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, transport.AcceptOptions{}, func(p transport.Pipe) {
			p.Write(context.Background(), []byte("{\n\"a\":\r\n1}"))
			p.Read(context.Background())
		})
		c := dial(t, n, transport.PipeOptions{})
		if got, err := c.Read(t.Context()); err != nil || string(got) != `{ "a":  1}` {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestWebSocketCloseCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan error, 1)
		n := serve(t, transport.AcceptOptions{}, func(p transport.Pipe) {
			_, err := p.Read(context.Background())
			got <- err
			p.Read(context.Background())
		})
		c := dial(t, n, transport.PipeOptions{})
		c.Close(4321, strings.Repeat("ü", 100))
		if err := <-got; transport.CodeOf(err) != 4321 || !strings.Contains(err.Error(), strings.Repeat("ü", 61)) {
			t.Errorf("server saw %v", err)
		}
		if _, err := c.Read(t.Context()); transport.CodeOf(err) != 4321 {
			t.Errorf("client saw %v", err)
		}
		if err := c.Write(t.Context(), []byte("x")); transport.CodeOf(err) != 4321 {
			t.Errorf("client wrote: %v", err)
		}
	})
}

// The other side takes nothing: the connection ends after the write timeout, with a name, and not by the library's own 5 s.
func TestWebSocketStalledPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string, 2)
		n := serve(t, transport.AcceptOptions{PipeOptions: transport.PipeOptions{PingInterval: 3 * time.Second, PongTimeout: time.Minute}}, func(p transport.Pipe) {
			go func() {
				_, err := p.Read(context.Background())
				got <- fmt.Sprint("read ", transport.CodeOf(err))
			}()
			start := time.Now()
			err := p.Write(context.Background(), []byte("x"))
			got <- fmt.Sprint("write ", transport.CodeOf(err), " ", time.Since(start))
		})
		n.OnDial(func(l *transporttest.Link) error {
			l.Buffer(transporttest.ToClient, 1)
			l.Stall(transporttest.ToClient)
			return nil
		})
		c := dial(t, n, transport.PipeOptions{PingInterval: 3 * time.Second, PongTimeout: time.Minute})
		go c.Read(t.Context())
		a, b := <-got, <-got
		if a > b {
			a, b = b, a
		}
		if a != "read 4408" || b != "write 4408 30s" {
			t.Errorf("got %q, %q", a, b)
		}
	})
}

// A half-open connection, of which nobody was told that it is dead, is noticed by both sides.
func TestWebSocketDeadPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string, 2)
		read := func(p transport.Pipe) {
			start := time.Now()
			_, err := p.Read(context.Background())
			got <- fmt.Sprint(transport.CodeOf(err), " ", time.Since(start))
		}
		n := serve(t, transport.AcceptOptions{}, read)
		c := dial(t, n, transport.PipeOptions{})
		go read(c)
		time.Sleep(5*time.Minute + time.Second) // pings and pongs pass
		select {
		case s := <-got:
			t.Fatalf("died: %s", s)
		default:
		}
		n.Links()[0].Stall(transporttest.ToClient)
		n.Links()[0].Stall(transporttest.ToServer)
		for range 2 {
			if s := <-got; s != "4409 5m40s" {
				t.Errorf("got %s", s)
			}
		}
	})
}

func TestWebSocketRefused(t *testing.T) {
	n := transporttest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "who are you?", http.StatusUnauthorized)
	}))
	_, err := n.Dial(t.Context(), transport.DialOptions{Header: http.Header{"Authorization": {"secret"}}})
	if err == nil || err.Error() != "the server answered the WebSocket handshake with 401 Unauthorized: who are you?" {
		t.Errorf("got %v", err)
	}
}
