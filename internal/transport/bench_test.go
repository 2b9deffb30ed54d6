package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"agentserver/internal/transport"

	"github.com/coder/websocket"
)

// frame is an event notification of 300 bytes.
var frame = fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"event","params":{"sessionId":"s","seq":1,"event":{"type":"message.part.delta","text":"%s"}}}`, bytes.Repeat([]byte("x"), 190))

// drainTCP opens a WebSocket by hand and throws away what comes, so that the reader costs as little as it can.
func drainTCP(b *testing.B, h http.HandlerFunc) {
	srv := httptest.NewServer(h)
	b.Cleanup(srv.Close)
	c := upgrade(b, srv.Listener.Addr().String())
	b.Cleanup(func() { c.Close() })
	io.Copy(io.Discard, c)
}

// BenchmarkWebSocketWrite compares frames a second to one client over loopback TCP: the library's one write a message, and ours in batches.
func BenchmarkWebSocketWrite(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		drainTCP(b, func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.CloseNow()
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				c.Write(context.Background(), websocket.MessageText, frame)
			}
		})
	})
	for _, batch := range []int{1, 4, 16, 64, 256} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			frames := make([][]byte, batch)
			for i := range frames {
				frames[i] = frame
			}
			drainTCP(b, func(w http.ResponseWriter, r *http.Request) {
				p, err := transport.Accept(w, r, transport.AcceptOptions{})
				if err != nil {
					b.Error(err)
					return
				}
				defer p.Close(transport.CloseInternal, "")
				b.SetBytes(int64(len(frame)))
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					if n++; n%batch == 0 {
						p.Write(context.Background(), frames...)
					}
				}
			})
		})
	}
}

// BenchmarkNotifications measures the client's side: frames a second from the wire to the hook.
func BenchmarkNotifications(b *testing.B) {
	frames := make([][]byte, 64)
	for i := range frames {
		frames[i] = frame
	}
	stop := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := transport.Accept(w, r, transport.AcceptOptions{})
		if err != nil {
			return
		}
		c := transport.NewConn(context.Background(), p, transport.Options{})
		defer c.Close(transport.CloseNormal, "")
		for c.Send(context.Background(), frames...) == nil {
		}
		<-stop
	}))
	defer srv.Close()
	defer close(stop)
	p, err := transport.Dial(b.Context(), srv.URL, transport.DialOptions{})
	if err != nil {
		b.Fatal(err)
	}
	got := make(chan int, 1024)
	n := 0
	c := transport.NewConn(context.Background(), p, transport.Options{Notify: func(m *transport.Notification) {
		if n++; n%64 == 0 {
			got <- n
		}
	}})
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i++; i%64 == 0 {
			<-got
		}
	}
	go func() {
		for range got {
		}
	}()
	c.Close(transport.CloseNormal, "")
	close(got)
}

// BenchmarkCall measures a round trip in memory.
func BenchmarkCall(b *testing.B) {
	x, y := transport.Memory()
	params := json.RawMessage(`{"sessionId":"s","turnId":"t"}`)
	s := transport.NewConn(b.Context(), y, transport.Options{Handle: func(_ context.Context, r *transport.Request) (any, error) { return r.Params, nil }})
	c := transport.NewConn(b.Context(), x, transport.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Call(b.Context(), "echo", params); err != nil {
			b.Fatal(err)
		}
	}
	c.Close(transport.CloseNormal, "")
	s.Close(transport.CloseNormal, "")
}

// BenchmarkIdle reports what an idle connection costs the server, in bytes and goroutines: a bare one of the library, and ours.
func BenchmarkIdle(b *testing.B) {
	bare := func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		c.Read(context.Background())
		c.CloseNow()
	}
	ours := func(w http.ResponseWriter, r *http.Request) {
		p, err := transport.Accept(w, r, transport.AcceptOptions{})
		if err != nil {
			return
		}
		c := transport.NewConn(context.Background(), p, transport.Options{})
		<-c.Done()
		c.Close(transport.CloseNormal, "")
	}
	for name, h := range map[string]http.HandlerFunc{"bare": bare, "ours": ours} {
		b.Run(name, func(b *testing.B) {
			srv := httptest.NewServer(h)
			defer srv.Close()
			var conns []net.Conn
			memory, goroutines := inUse()
			for b.Loop() {
				if len(conns) < 500 { // files are limited
					conns = append(conns, upgrade(b, srv.Listener.Addr().String()))
				}
			}
			after, now := inUse()
			b.ReportMetric((after-memory)/float64(len(conns)), "B/conn")
			b.ReportMetric((now-goroutines)/float64(len(conns)), "goroutines/conn")
			for _, c := range conns {
				c.Close()
			}
		})
	}
}

func inUse() (bytes, goroutines float64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse), float64(runtime.NumGoroutine())
}

// upgrade opens a WebSocket by hand: what it costs is the server's.
func upgrade(b *testing.B, addr string) net.Conn {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
		b.Fatal(err)
	}
	return c
}
