package transport

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/coder/websocket"
)

// AcceptOptions configure the server's side of a WebSocket.
type AcceptOptions struct {
	PipeOptions
	// OriginPatterns list the hosts of web pages that may connect, besides the one that serves them: [path.Match] patterns of a host, or
	// of scheme://host. A request without an Origin header is not a browser's and is let through.
	OriginPatterns []string
}

// Accept upgrades a request to a WebSocket. When it fails, it has answered the request.
//
// The pipe outlives the request: its Close must be called, also when reading has failed. The handler may return while the pipe lives;
// [http.Server.Shutdown] neither closes it nor waits for it.
func Accept(w http.ResponseWriter, r *http.Request, o AcceptOptions) (Pipe, error) {
	h := &hijacker{ResponseWriter: w}
	ws, err := websocket.Accept(h, r, &websocket.AcceptOptions{OriginPatterns: o.OriginPatterns})
	if err != nil {
		return nil, fmt.Errorf("accept a WebSocket from %s: %w", r.RemoteAddr, err)
	}
	return newWSPipe(ws, h.raw, false, o.PipeOptions.withDefaults()), nil
}

// A hijacker puts our rawConn under the connection that the library takes over.
type hijacker struct {
	http.ResponseWriter
	raw *rawConn
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if rw.Writer.Buffered() > 0 {
		c.Close()
		return nil, nil, errors.New("the server left a part of its answer unwritten")
	}
	h.raw = newRawConn(c)
	rw.Writer.Reset(h.raw)
	return rawNetConn{h.raw, c}, rw, nil
}
