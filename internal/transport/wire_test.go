package transport

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// What lets a test read and write the bytes of a WebSocket without a network.

type handshake func(*http.Request) *http.Response

func (f handshake) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// duplexBuffer is a connection that reads from Reader and drops what is written.
type duplexBuffer struct {
	io.Reader
	net.Conn // nil: nothing else is called
}

func (b *duplexBuffer) Read(p []byte) (int, error)  { return b.Reader.Read(p) }
func (b *duplexBuffer) Write(p []byte) (int, error) { return len(p), nil }
func (b *duplexBuffer) Close() error                { return nil }

type hijackRecorder struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (h hijackRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

func upgradeRequest() *http.Request {
	r := httptest.NewRequest("GET", "http://x/", nil)
	for _, h := range []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="} {
		k, v, _ := strings.Cut(h, ": ")
		r.Header.Set(k, v)
	}
	return r
}

func acceptOver(t *testing.T, c net.Conn) *websocket.Conn {
	t.Helper()
	ws, err := websocket.Accept(hijackRecorder{httptest.NewRecorder(), c}, upgradeRequest(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	return ws
}
