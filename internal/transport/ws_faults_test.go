package transport_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/internal/transport"
	"agentserver/internal/transport/transporttest"

	"github.com/coder/websocket"
)

// Inbound, text and binary frames may hold several messages, and may be fragmented.
func TestWebSocketInbound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string)
		n := serve(t, transport.AcceptOptions{}, func(p transport.Pipe) {
			for {
				text, err := p.Read(context.Background())
				if err != nil {
					close(got)
					return
				}
				got <- string(text)
			}
		})
		c, _, err := websocket.Dial(t.Context(), "ws://x/", &websocket.DialOptions{HTTPClient: n.HTTPClient()})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c.Write(t.Context(), websocket.MessageText, []byte("a\n\n \r\nb\r\nc"))
			c.Write(t.Context(), websocket.MessageBinary, []byte("\nd\n"))
			w, _ := c.Writer(t.Context(), websocket.MessageText)
			for _, part := range []string{"e1", "e2\nf", strings.Repeat("g", 100_000), "\n"} {
				w.Write([]byte(part))
			}
			w.Close()
			c.Write(t.Context(), websocket.MessageText, nil)
			c.Close(websocket.StatusNormalClosure, "")
		}()
		for _, want := range []string{"a", "b", "c", "d", "e1e2", "f" + strings.Repeat("g", 100_000)} {
			if s := <-got; s != want {
				t.Errorf("got %.20q, want %.20q", s, want)
			}
		}
		if s, ok := <-got; ok {
			t.Errorf("got %q", s)
		}
	})
}

func TestWebSocketTooBig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan error, 1)
		n := serve(t, transport.AcceptOptions{PipeOptions: transport.PipeOptions{MaxMessageBytes: 1000}}, func(p transport.Pipe) {
			p.Read(context.Background())
			_, err := p.Read(context.Background())
			got <- err
		})
		c := dial(t, n, transport.PipeOptions{})
		c.Write(t.Context(), bytes.Repeat([]byte("x"), 1000))
		go c.Write(t.Context(), bytes.Repeat([]byte("x"), 1001))
		if _, err := c.Read(t.Context()); transport.CodeOf(err) != transport.CloseTooBig {
			t.Errorf("client saw %v", err)
		}
		if err := <-got; transport.CodeOf(err) != transport.CloseTooBig {
			t.Errorf("server saw %v", err)
		}
	})
}

func TestWebSocketOrigins(t *testing.T) {
	n := serve(t, transport.AcceptOptions{OriginPatterns: []string{"app.example", "https://*.example.org"}}, func(transport.Pipe) {})
	for origin, want := range map[string]bool{
		"": true, "http://memory.test": true, "http://app.example": true, "https://a.example.org": true,
		"http://a.example.org": false, "http://evil.example": false, "http://app.example.evil": false, "null": false,
	} {
		h := http.Header{}
		if origin != "" {
			h.Set("Origin", origin)
		}
		p, err := n.Dial(t.Context(), transport.DialOptions{Header: h})
		if (err == nil) != want {
			t.Errorf("%q: %v", origin, err)
		}
		if p != nil {
			p.Close(transport.CloseNormal, "")
		}
	}
}

// A link that breaks after any number of bytes ends both sides, and what came before is whole.
func TestWebSocketCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, transport.AcceptOptions{}, func(p transport.Pipe) {
			for p.Write(context.Background(), []byte(`{"a":1}`), []byte(`{"b":2}`)) == nil {
			}
		})
		for cut := range int64(60) {
			n.OnDial(func(l *transporttest.Link) error { l.CutAfter(transporttest.ToClient, cut); return nil })
			c := dial(t, n, transport.PipeOptions{})
			read := int64(0)
			for {
				text, err := c.Read(t.Context())
				if err != nil {
					if transport.CodeOf(err) != transport.CloseAbnormal {
						t.Errorf("cut after %d: %v", cut, err)
					}
					break
				}
				if s := string(text); s != `{"a":1}` && s != `{"b":2}` {
					t.Errorf("cut after %d: got %s", cut, s)
				}
				read++
			}
			if read != cut/9 { // 2 bytes of header and 7 of text
				t.Errorf("cut after %d: %d messages", cut, read)
			}
			c.Close(transport.CloseNormal, "")
		}
	})
}

// Pings of the peer are answered while a long write goes on, and one that floods without reading is dropped.
func TestWebSocketPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, transport.AcceptOptions{}, func(p transport.Pipe) {
			go p.Read(context.Background())
			for p.Write(context.Background(), bytes.Repeat([]byte("x"), 200_000)) == nil {
			}
		})
		n.OnDial(func(l *transporttest.Link) error { l.Delay(transporttest.ToClient, 300*time.Millisecond); return nil })
		c, _, err := websocket.Dial(t.Context(), "ws://x/", &websocket.DialOptions{HTTPClient: n.HTTPClient()})
		if err != nil {
			t.Fatal(err)
		}
		c.SetReadLimit(-1)
		var reader sync.WaitGroup
		reader.Go(func() {
			for {
				if _, data, err := c.Read(t.Context()); err != nil || len(data) != 200_000 {
					return
				}
			}
		})
		for range 20 {
			if err := c.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		// The close handshake works in the middle of it too.
		if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Errorf("close: %v", err)
		}
		reader.Wait()
	})
}

// A handler that keeps the read loop busy for minutes says nothing about the peer.
func TestWebSocketBusyReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, transport.AcceptOptions{}, func(p transport.Pipe) {
			c := transport.NewConn(context.Background(), p, transport.Options{Handle: func(context.Context, *transport.Request) (any, error) {
				time.Sleep(10 * time.Minute)
				return "done", nil
			}})
			<-c.Done()
			c.Close(transport.CloseNormal, "")
		})
		c := transport.NewConn(t.Context(), dial(t, n, transport.PipeOptions{PingInterval: -1}), transport.Options{})
		if got, err := c.Call(t.Context(), "x", nil); err != nil || string(got) != `"done"` {
			t.Errorf("got %s, %v", got, err)
		}
		c.Close(transport.CloseNormal, "")
	})
}

// Close does not wait longer than its timeout for a peer that is not there.
func TestWebSocketCloseTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, transport.AcceptOptions{}, func(p transport.Pipe) { p.Read(context.Background()) })
		c := dial(t, n, transport.PipeOptions{})
		n.Links()[0].Stall(transporttest.ToServer)
		start := time.Now()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { c.Close(transport.CloseNormal, "") })
		}
		both.Wait()
		if d := time.Since(start); d != transport.DefaultCloseTimeout {
			t.Errorf("took %v", d)
		}
		n.Close()
	})
}

// Real sockets, with TLS, many messages both ways at once: nothing is lost, doubled or out of order.
func TestWebSocketRealSocket(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := transport.Accept(w, r, transport.AcceptOptions{PipeOptions: transport.PipeOptions{PingInterval: time.Millisecond}})
		if err != nil || r.Header.Get("X-Token") != "t" {
			t.Errorf("accept: %v", err)
			return
		}
		defer p.Close(transport.CloseNormal, "")
		echo(p)
	}))
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	p, err := transport.Dial(t.Context(), srv.URL, transport.DialOptions{
		PipeOptions: transport.PipeOptions{PingInterval: time.Millisecond},
		TLS:         &tls.Config{RootCAs: roots}, Header: http.Header{"X-Token": {"t"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(transport.CloseNormal, "")
	const total = 3000
	go func() {
		for i := range total {
			p.Write(t.Context(), fmt.Appendf(nil, `%d|%s|`, i, strings.Repeat("x", i*7%5000)))
		}
	}()
	for i := range 2 * total {
		want := fmt.Sprintf(`%d|%s|`, i/2, strings.Repeat("x", i/2*7%5000))
		if got, err := p.Read(t.Context()); err != nil || string(got) != want {
			t.Fatalf("message %d: got %.20q, %v", i, got, err)
		}
	}
}

// Robustness row 47: a hundred clients that stop reading cost what their queues hold, and are all closed by name.
func TestWebSocketStalledClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 100
		ended := make(chan transport.CloseCode, clients)
		n := serve(t, transport.AcceptOptions{}, func(p transport.Pipe) {
			c := transport.NewConn(context.Background(), p, transport.Options{MaxQueuedBytes: 10_000})
			var err error
			for err == nil {
				err = c.Send(context.Background(), bytes.Repeat([]byte("x"), 5000))
			}
			<-c.Done()
			ended <- transport.CodeOf(c.Err())
			c.Close(transport.CloseStalled, "")
		})
		n.OnDial(func(l *transporttest.Link) error { l.Stall(transporttest.ToClient); return nil })
		for range clients {
			dial(t, n, transport.PipeOptions{})
		}
		for range clients {
			if code := <-ended; code != transport.CloseStalled {
				t.Errorf("ended with %d", code)
			}
		}
	})
}
