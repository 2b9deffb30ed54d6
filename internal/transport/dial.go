package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"
)

// DialOptions configure the client's side of a WebSocket.
type DialOptions struct {
	PipeOptions
	// Header goes with the handshake request. It may hold secrets: it never shows in an error.
	Header http.Header
	// TLS is used for wss addresses; nil means the system's roots.
	TLS *tls.Config
	// HTTPClient replaces our own client, and TLS with it.
	HTTPClient *http.Client
}

// A HandshakeError says that the server answered a WebSocket handshake with something else.
type HandshakeError struct {
	Status int    // of the HTTP answer
	Body   string // its beginning
	Err    error
}

// Error says what the server answered.
func (e *HandshakeError) Error() string {
	s := fmt.Sprintf("the server answered the WebSocket handshake with %d %s", e.Status, http.StatusText(e.Status))
	if e.Status == http.StatusSwitchingProtocols {
		s = "the server's WebSocket handshake is wrong: " + e.Err.Error()
	}
	if e.Body != "" {
		s += ": " + e.Body
	}
	return s
}

// Unwrap returns the cause below.
func (e *HandshakeError) Unwrap() error { return e.Err }

// Dial opens a WebSocket. ctx bounds the handshake only. An answer other than 101 is a [*HandshakeError].
func Dial(ctx context.Context, address string, o DialOptions) (Pipe, error) {
	t := &rawTransport{base: dialTransport(o)}
	client := http.Client{Transport: t}
	if o.HTTPClient != nil {
		client = *o.HTTPClient
		client.Transport = t
	}
	ws, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: &client, HTTPHeader: o.Header})
	if err != nil {
		return nil, dialError(err, resp)
	}
	return newWSPipe(ws, t.raw, true, o.PipeOptions.withDefaults()), nil
}

func dialTransport(o DialOptions) http.RoundTripper {
	if o.HTTPClient != nil {
		if o.HTTPClient.Transport != nil {
			return o.HTTPClient.Transport
		}
		return http.DefaultTransport
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = o.TLS
	t.ForceAttemptHTTP2 = false // a WebSocket is made of an HTTP/1.1 request
	t.DisableKeepAlives = true  // a refused handshake leaves nothing behind
	return t
}

// dialError drops the address, which may hold a token, from what net/http says.
func dialError(err error, resp *http.Response) error {
	if resp != nil {
		body := ""
		if resp.Body != nil {
			b, _ := io.ReadAll(io.LimitReader(resp.Body, 256))
			body = strings.TrimSpace(string(b))
		}
		return &HandshakeError{Status: resp.StatusCode, Body: body, Err: err}
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return fmt.Errorf("dial the server: %w", err)
}

// A rawTransport puts our rawConn under the connection of a 101 answer.
type rawTransport struct {
	base http.RoundTripper
	raw  *rawConn
}

// RoundTrip implements http.RoundTripper.
func (t *rawTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return resp, err
	}
	if c, ok := resp.Body.(io.ReadWriteCloser); ok {
		t.raw = newRawConn(c)
		resp.Body = t.raw
	}
	return resp, nil
}
