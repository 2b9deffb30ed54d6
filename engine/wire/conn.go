package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"agentserver/engine/eventlog"
	"agentserver/internal/transport"
	"agentserver/protocol"
)

// A conn serves one connection.
type conn struct {
	server   *Server
	log      *slog.Logger
	rpc      *transport.Conn
	follower *eventlog.Follower

	ctx    context.Context // ends with the pump's and the handlers' work
	cancel context.CancelFunc
	pumped chan struct{} // closed when the pump has ended
	pumpIs error         // why; set before
	kick   chan struct{} // closed by Server.Close

	snapshots chan struct{} // one place: held while a snapshot is made and queued
}

// flushTimeout bounds how long the end of a connection waits for what stands in its queue.
const flushTimeout = 5 * time.Second

// newConn begins to serve p. The follower is there before the first request is read, so that a client misses nothing after its first answer.
func (s *Server) newConn(ctx context.Context, p transport.Pipe, log *slog.Logger) *conn {
	work, cancel := context.WithCancel(ctx)
	c := &conn{
		server: s, log: log, ctx: work, cancel: cancel, follower: s.rt.Follow(),
		pumped: make(chan struct{}), kick: make(chan struct{}), snapshots: make(chan struct{}, 1),
	}
	ready := make(chan struct{})
	c.rpc = transport.NewConn(ctx, p, transport.Options{
		Handle: func(_ context.Context, r *transport.Request) (any, error) {
			<-ready // until c.rpc is set
			return c.handle(r)
		},
		Junk:   func(why string, text []byte) { log.Debug("passed over", "why", why, "bytes", len(text)) },
		Errors: wireError, MaxInFlight: s.opts.MaxInFlight, Linger: flushTimeout, Logger: log,
	})
	close(ready)
	return c
}

// handle answers one request.
func (c *conn) handle(r *transport.Request) (any, error) {
	method := methods[r.Method]
	if method == nil {
		return nil, protocol.Errorf(protocol.CodeMethodNotFound, "method %q is not known to this server", clip(r.Method))
	}
	return method(c, r)
}

// clip bounds a name that a client made up.
func clip(name string) string {
	const limit = 64
	if len(name) > limit {
		return name[:limit] + "…"
	}
	return name
}

// serve returns when the connection has ended and everything of it is gone.
func (c *conn) serve() error {
	go c.pump()
	code, reason := transport.CloseNormal, ""
	select {
	case <-c.rpc.Done():
	case <-c.kick:
		code, reason = transport.CloseGoingAway, "the server was closed"
	case <-c.pumped:
		if errors.Is(c.pumpIs, eventlog.ErrClosed) { // the runtime has ended and everything was sent
			code, reason = transport.CloseGoingAway, "the server shuts down"
			c.flush()
		}
	}
	c.cancel()
	c.follower.Close()
	c.rpc.Close(code, reason) // before the join: it unblocks a pump that writes to a peer which does not read
	<-c.pumped
	return ended(c.rpc.Err())
}

func (c *conn) flush() {
	ctx, cancel := context.WithTimeout(c.ctx, flushTimeout)
	defer cancel()
	if err := c.rpc.Flush(ctx); err != nil {
		c.log.Debug("the last events could not be sent", "error", err)
	}
}

// pump copies what the logs get to the connection. One look at the log becomes one call, and so few writes.
func (c *conn) pump() {
	defer close(c.pumped)
	var frames [][]byte
	for {
		batch, err := c.follower.Next(c.ctx)
		if err != nil {
			c.pumpIs = err
			return
		}
		if batch.Gap {
			c.log.Debug("a slow connection lost events to eviction; its client has to replay")
		}
		frames = frames[:0]
		for _, e := range batch.Entries {
			frames = append(frames, e.Frame())
		}
		if err := c.rpc.Send(c.ctx, frames...); err != nil {
			c.pumpIs = err
			return
		}
		clear(frames)
	}
}

// ended returns why a connection ended, nil when somebody ended it in good order.
func ended(err error) error {
	switch code := transport.CodeOf(err); {
	case err == nil, errors.Is(err, io.EOF):
		return nil
	case code == transport.CloseNormal, code == transport.CloseGoingAway:
		return nil
	}
	return fmt.Errorf("wire: %w", err)
}
