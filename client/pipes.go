package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"agentserver/internal/transport"
)

// closeTimeout bounds the closing handshake of a WebSocket. The loop waits for it, and a peer that is gone never answers.
const closeTimeout = 500 * time.Millisecond

// Dial connects to a server that listens: ws://host:port/ws or wss://…. ctx bounds this first connection only, whose failure is returned; later
// ones are the client's business.
func Dial(ctx context.Context, url string, opts *Options) (*Client, error) {
	o := opts.withDefaults()
	open := func(ctx context.Context) (transport.Pipe, error) { return openWebSocket(ctx, url, &o) }
	return start(ctx, opts, dialer{open: open}, open)
}

// Attach speaks to a server over a pipe that is open already, one message a line. The client owns rw from now on, also when Attach fails, and
// ends with [ErrConnectionLost] when rw does. Close of rw must unblock its Read and Write.
func Attach(ctx context.Context, rw io.ReadWriteCloser, opts *Options) (*Client, error) {
	o := opts.withDefaults()
	return start(ctx, opts, dialer{}, func(context.Context) (transport.Pipe, error) { return openLines(rw, &o), nil })
}

func openLines(rw io.ReadWriteCloser, o *Options) transport.Pipe {
	return transport.NewLines(rw, o.pipe())
}

func openWebSocket(ctx context.Context, url string, o *Options) (transport.Pipe, error) {
	header := o.Header.Clone()
	if o.Token != "" {
		if header == nil {
			header = make(http.Header)
		}
		header.Set("Authorization", "Bearer "+o.Token)
	}
	p, err := transport.Dial(ctx, url, transport.DialOptions{PipeOptions: o.pipe(), Header: header, HTTPClient: o.HTTPClient})
	refusal, ok := errors.AsType[*transport.HandshakeError](err)
	if ok && (refusal.Status == http.StatusUnauthorized || refusal.Status == http.StatusForbidden) {
		return nil, &refusedError{err}
	}
	return p, err
}

func (o *Options) pipe() transport.PipeOptions {
	return transport.PipeOptions{MaxMessageBytes: o.MaxMessageBytes, WriteTimeout: o.WriteTimeout, CloseTimeout: closeTimeout}
}
