package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"agentserver/internal/transport"
	"agentserver/protocol"
)

// A dialer opens connections to one server.
type dialer struct {
	// open opens one; nil when there is no second (Attach).
	open func(ctx context.Context) (transport.Pipe, error)
	// ephemeral: the server lives and dies with its connection (Spawn), so that a lost connection is a lost instance.
	ephemeral bool
}

// A refusedError is a refusal that trying again does not cure: wrong credentials, or an address that cannot be one.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// A connectResult is what one attempt to connect came to: a link with the server's answer to `initialize`, or err.
type connectResult struct {
	link *link
	init protocol.InitializeResult
	// early holds the events that came before the answer, which must not be looked at before the instance is known.
	early []row
	err   error
}

// earlyLimit bounds connectResult.early; what is beyond is fetched by replay like any gap.
const earlyLimit = 4096

// connect opens a connection and initializes it within the timeout.
func connect(ctx context.Context, opts *Options, open func(context.Context) (transport.Pipe, error)) connectResult {
	ctx, cancel := context.WithTimeoutCause(ctx, opts.ConnectTimeout, fmt.Errorf("client: no connection within %v", opts.ConnectTimeout))
	defer cancel()
	p, err := open(ctx)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return connectResult{err: err}
	}
	l := newLink(p)
	r := initialize(ctx, l, opts)
	if r.err != nil {
		l.stop(r.err)
		l.join()
	}
	return r
}

// initializeID is the id of every link's first request; the loop's ids begin above it.
const initializeID = 0

// initialize performs the handshake on a fresh link.
func initialize(ctx context.Context, l *link, opts *Options) connectResult {
	r := connectResult{link: l}
	select {
	case l.out <- encodeRequest(initializeID, protocol.MethodInitialize, initializeParams(opts)):
	case <-l.ctx.Done():
		return connectResult{err: l.err()}
	case <-ctx.Done():
		return connectResult{err: context.Cause(ctx)}
	}
	for {
		select {
		case m, ok := <-l.in:
			switch {
			case !ok:
				return connectResult{err: l.err()}
			case m.kind == event && len(r.early) < earlyLimit:
				r.early = append(r.early, m.row)
			case m.kind == response && m.id == initializeID:
				if r.init, r.err = decodeInitialize(m); r.err != nil {
					return connectResult{err: r.err}
				}
				return r
			}
		case <-ctx.Done():
			return connectResult{err: context.Cause(ctx)}
		}
	}
}

func initializeParams(opts *Options) []byte {
	params, err := marshalParams(protocol.InitializeParams{ProtocolVersion: protocol.Version, Client: opts.Client})
	if err != nil {
		panic(err) // two strings and a number
	}
	return params
}

func decodeInitialize(m message) (protocol.InitializeResult, error) {
	if m.err != nil {
		return protocol.InitializeResult{}, m.err
	}
	var init protocol.InitializeResult
	if err := json.Unmarshal(m.result, &init); err != nil {
		return init, fmt.Errorf("client: the server's answer to initialize: %w", err)
	}
	if init.ProtocolVersion != protocol.Version {
		return init, protocol.VersionMismatch(init.ProtocolVersion)
	}
	return init, nil
}

// reconnect starts an attempt to connect, after the wait that earlier failures ask for.
func (c *core) reconnect(cause error) {
	wait := backoff(c.opts.MinBackoff, c.opts.MaxBackoff, c.failures)
	c.setState(State{Phase: Waiting, Err: cause, Attempt: c.failures + 1, Next: time.Now().Add(wait), InstanceID: c.instance})
	result := make(chan connectResult, 1)
	c.connected = result
	attempt, instance := c.failures+1, c.instance
	c.wg.Go(func() {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.ctx.Done():
			result <- connectResult{err: ErrClosed}
			return
		}
		c.setState(State{Phase: Connecting, Err: cause, Attempt: attempt, InstanceID: instance})
		result <- connect(c.ctx, &c.opts, c.dial.open)
	})
}

// backoff is the wait after so many failures in a row: doubling, capped, the lower half certain and the upper half by chance.
func backoff(least, most time.Duration, failures int) time.Duration {
	d := most
	if failures < 30 && least<<failures < most && least<<failures > 0 {
		d = least << failures
	}
	return d/2 + rand.N(d/2+1)
}

// up takes over what an attempt to connect came to.
func (c *core) up(r connectResult) {
	if r.err != nil {
		c.failures++
		if fatal(r.err) {
			c.err = r.err
			return
		}
		c.opts.Logger.Debug("connecting failed", "error", r.err, "attempt", c.failures)
		c.reconnect(r.err)
		return
	}
	if c.instance != "" && c.instance != r.init.InstanceID {
		c.newInstance()
	}
	c.instance = r.init.InstanceID
	c.link, c.proven = r.link, false
	c.heartbeat.start(c.opts.Heartbeat)
	c.box.setInit(r.init)
	c.restore(r.early)
	c.setState(State{Phase: Ready, InstanceID: c.instance})
}

// restore brings the new connection to where the last one was: the subscription, the requests that waited, the sessions.
func (c *core) restore(early []row) {
	if c.filter != nil {
		c.sendFilter()
	}
	waiting := c.waiting
	c.waiting = nil
	for _, cl := range waiting {
		c.transmit(cl)
	}
	c.syncAll()
	for _, r := range early {
		c.live(r)
	}
}

// A heartbeat notices a connection that died silently. It ticks; a tick that finds nothing heard since the last one sends a probe, and the next
// tick that still finds nothing ends the link.
type heartbeat struct {
	ticker *time.Ticker
	alive  bool // something was heard since the last tick
	probed bool
}

func (h *heartbeat) start(every time.Duration) {
	if every > 0 {
		h.ticker, h.alive, h.probed = time.NewTicker(every), true, false
	}
}

func (h *heartbeat) stop() {
	if h.ticker != nil {
		h.ticker.Stop()
		h.ticker = nil
	}
}

func (h *heartbeat) timer() <-chan time.Time {
	if h.ticker == nil {
		return nil
	}
	return h.ticker.C
}

func (h *heartbeat) heard() { h.alive, h.probed = true, false }

// beat is what the loop does at a tick.
func (c *core) beat() {
	h := &c.heartbeat
	switch {
	case h.alive:
		h.alive = false
	case !h.probed:
		h.probed = true
		c.probe()
	default:
		c.lost(fmt.Errorf("the server has been silent for %v", 2*c.opts.Heartbeat))
	}
}

// probe asks for a sign of life with a request that every server answers, an error being one too. It also notices another process behind the
// same address.
func (c *core) probe() {
	c.send(&call{
		method: protocol.MethodInitialize, params: initializeParams(&c.opts), internal: true,
		done: func(m message) {
			if init, err := decodeInitialize(m); err == nil && init.InstanceID != c.instance {
				c.lost(ErrInstanceChanged)
			}
		},
	})
}
