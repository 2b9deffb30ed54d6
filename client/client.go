package client

import (
	"context"

	"agentserver/internal/transport"
	"agentserver/protocol"
)

// A Client is a connection to an agent-server that heals. Its methods are safe for concurrent use.
type Client struct{ core *core }

// start makes the first connection, whose failure is the caller's, and then runs the loop.
func start(ctx context.Context, opts *Options, d dialer, open func(context.Context) (transport.Pipe, error)) (*Client, error) {
	o := opts.withDefaults()
	first := connect(ctx, &o, open)
	if first.err != nil {
		return nil, first.err
	}
	c := newCore(o, d)
	c.box.setInit(first.init) // before anybody can ask
	c.up(first)               // here, so that State and Server tell of it from the start
	go c.run()                // joined by close, which waits for done
	return &Client{core: c}, nil
}

// Close ends the client: every call that waits returns [ErrClosed], every turn handle fails with it, handlers get no further event. It returns
// when all goroutines of the client have ended, a handler's call that is under way included; it must therefore not be called from a handler. A
// turn that runs on a server goes on; the server that [Spawn] started ends. Close is idempotent.
func (c *Client) Close() error {
	c.core.close()
	return nil
}

// Done is closed when the client has ended: closed, or cut off with no way to connect again.
func (c *Client) Done() <-chan struct{} { return c.core.done }

// Err returns why the client ended, nil before that.
func (c *Client) Err() error {
	select {
	case <-c.core.done:
		return c.core.err
	default:
		return nil
	}
}

// State returns where the connection stands. See [Options.OnState] for its changes.
func (c *Client) State() State {
	c.core.box.mu.Lock()
	defer c.core.box.mu.Unlock()
	return c.core.box.state
}

// Server returns what the server said of itself at the last connect: its instance, its version, its harnesses and what they can do.
func (c *Client) Server() protocol.InitializeResult {
	c.core.box.mu.Lock()
	defer c.core.box.mu.Unlock()
	return c.core.box.init
}

// OnEvent registers a handler for the events of all sessions, from now on, and returns a function that removes it.
//
// A handler is called from one goroutine of its own, in order within each session. Between it and the connection stands a queue of its own,
// bounded by [Options.QueueLimit], so that a handler that is slow delays no other; one that falls behind further than that is removed, and
// [Options.OnError] hears a [*LagError]. A handler that panics stays registered, and [Options.OnError] hears a [*PanicError]. After remove has
// returned no call begins, though one may still be under way. When the connection is lost for good, what had come before is still delivered.
// Events are shared between the handlers and must not be changed.
func (c *Client) OnEvent(handler func(protocol.Envelope)) (remove func()) {
	return c.core.addHandler(handler)
}
