// Package transporttest lets tests connect to an http.Handler through memory, and break those connections in every way that a network can.
// It works inside a testing/synctest bubble.
package transporttest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"agentserver/internal/transport"
)

// A Network serves an http.Handler through memory: every request gets a link of its own, with buffers like those of a socket.
type Network struct {
	handler http.Handler
	tasks   sync.WaitGroup

	mu     sync.Mutex
	onDial func(*Link) error
	links  []*Link
}

// New returns a network to h. When the test ends, all links are cut, and the handlers that still run are waited for.
func New(t testing.TB, h http.Handler) *Network {
	n := &Network{handler: h}
	t.Cleanup(n.Close)
	return n
}

// Close cuts all links and waits for the handlers. A test in a bubble may have to call it before the bubble ends.
func (n *Network) Close() {
	for _, l := range n.Links() {
		l.Cut()
	}
	n.tasks.Wait()
}

// OnDial sets a hook that sees every link before its first byte, to set faults on it. An error refuses the connection.
func (n *Network) OnDial(hook func(*Link) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onDial = hook
}

// Links returns all links in the order in which they were dialled, also those that are cut.
func (n *Network) Links() []*Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*Link(nil), n.links...)
}

// Dial opens a WebSocket to the handler at path "/"; the HTTPClient of o is replaced.
func (n *Network) Dial(ctx context.Context, o transport.DialOptions) (transport.Pipe, error) {
	o.HTTPClient = n.HTTPClient()
	return transport.Dial(ctx, "ws://memory.test/", o)
}

// HTTPClient returns a client whose every request goes to the handler, whatever its address.
func (n *Network) HTTPClient() *http.Client { return &http.Client{Transport: roundTripper{n}} }

type roundTripper struct{ n *Network }

// RoundTrip implements http.RoundTripper. It returns when the handler has hijacked the connection, or has ended.
func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	l := newLink()
	if err := t.n.add(l); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	w := &response{link: l, header: http.Header{}, hijacked: make(chan struct{})}
	done := make(chan struct{})
	t.n.tasks.Go(func() {
		defer close(done)
		defer cancel()
		sr := r.Clone(ctx)
		sr.RemoteAddr, sr.RequestURI = "192.0.2.1:1", r.URL.RequestURI()
		if sr.Body == nil {
			sr.Body = http.NoBody
		}
		if sr.Host == "" {
			sr.Host = r.URL.Host
		}
		t.n.handler.ServeHTTP(w, sr)
	})
	select {
	case <-w.hijacked:
	case <-done:
	case <-r.Context().Done():
		l.Cut()
		return nil, context.Cause(r.Context())
	}
	return w.result(r), nil
}

func (n *Network) add(l *Link) error {
	n.mu.Lock()
	n.links = append(n.links, l)
	hook := n.onDial
	n.mu.Unlock()
	if hook == nil {
		return nil
	}
	err := hook(l)
	if err != nil {
		l.Cut()
	}
	return err
}

// A response is the handler's http.ResponseWriter.
type response struct {
	link     *Link
	hijacked chan struct{}

	mu     sync.Mutex
	header http.Header
	status int
	body   bytes.Buffer
	taken  bool
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken {
		return 0, http.ErrHijacked
	}
	return w.body.Write(p)
}

// Hijack implements http.Hijacker.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken {
		return nil, nil, errors.New("already hijacked")
	}
	w.taken = true
	close(w.hijacked)
	c := w.link.server
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

func (w *response) result(r *http.Request) *http.Response {
	w.mu.Lock()
	defer w.mu.Unlock()
	resp := &http.Response{
		StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header.Clone(), Request: r, ContentLength: int64(w.body.Len()),
	}
	if w.status == 0 {
		resp.StatusCode = http.StatusOK
	}
	resp.Status = http.StatusText(resp.StatusCode)
	resp.Body = io.NopCloser(bytes.NewReader(bytes.Clone(w.body.Bytes())))
	if w.taken {
		resp.Body = w.link.client
	}
	return resp
}
