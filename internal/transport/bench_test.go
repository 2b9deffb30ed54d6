package transport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
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
