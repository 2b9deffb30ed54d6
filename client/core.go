package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentserver/protocol"
)

// A core is a client's state and the loop that owns it. Everything below the marker is touched by the loop only.
type core struct {
	opts Options
	dial dialer

	ops  chan func()   // what the loop is to do
	quit chan struct{} // closed by close: the loop is to end
	done chan struct{} // closed when the loop has ended and everything has been told
	err  error         // why it ended; set before done is closed

	ctx    context.Context // ends with the loop; for what the loop starts
	cancel context.CancelFunc
	wg     sync.WaitGroup // connects, links and timers that the loop started
	once   sync.Once

	handlers handlers
	box      stateBox

	// The loop's own.
	link      *link              // nil while down
	connected chan connectResult // the connect that is under way
	instance  string
	failures  int  // attempts to connect that failed in a row
	proven    bool // the link has carried something after its handshake
	heartbeat heartbeat
	calls     map[int64]*call // by id: made, not answered
	waiting   []*call         // made while down, in order
	outbox    [][]byte        // encoded, not yet taken by the link's writer
	nextID    int64
	heal
}

// A call is one request.
type call struct {
	id     int64
	method string
	params []byte
	// idempotent: sent again on the next connection when this one drops before the answer.
	idempotent bool
	// replay: the answer is decoded by the link's reader.
	replay bool
	// internal: for one connection only; it never waits for the next.
	internal bool
	// onSend, if set, is called by the loop whenever the request is sent.
	onSend func()
	// done is called by the loop, once, with the answer.
	done func(m message)
	over bool
}

func (cl *call) finish(m message) {
	if !cl.over {
		cl.over = true
		cl.done(m)
	}
}

func newCore(opts Options, d dialer) *core {
	ctx, cancel := context.WithCancel(context.Background())
	c := &core{
		opts: opts, dial: d, ctx: ctx, cancel: cancel,
		ops: make(chan func()), quit: make(chan struct{}), done: make(chan struct{}),
		calls: make(map[int64]*call),
	}
	c.initHeal()
	c.initHandlers()
	return c
}

// do hands op to the loop and reports false when the loop has ended.
func (c *core) do(op func()) bool {
	select {
	case c.ops <- op:
		return true
	case <-c.done:
		return false
	}
}

// close ends the loop, waits for everything that the client started, and is idempotent.
func (c *core) close() {
	c.once.Do(func() { close(c.quit) })
	<-c.done
	c.handlers.stop()
	c.wg.Wait()
	c.handlers.wg.Wait()
}

// run is the loop. It begins with a connection that is up.
func (c *core) run() {
	for c.err == nil {
		c.step()
	}
	c.down(c.err)
	c.finish()
}

// step waits for one thing and does it.
func (c *core) step() {
	var in <-chan message
	var out chan<- []byte
	var next []byte
	if c.link != nil {
		in = c.link.in
		if len(c.outbox) > 0 {
			out, next = c.link.out, c.outbox[0]
		}
	}
	select {
	case op := <-c.ops:
		op()
	case m, ok := <-in:
		if !ok {
			c.lost(c.link.err())
			return
		}
		c.take(m)
		for n := len(in); n > 0 && c.link != nil; n-- { // what is there already, without another select
			c.take(<-in)
		}
	case out <- next:
		c.outbox[0] = nil
		c.outbox = c.outbox[1:]
	case r := <-c.connected:
		c.connected = nil
		c.up(r)
	case <-c.heartbeat.timer():
		c.beat()
	case <-c.quit:
		c.err = ErrClosed
	}
}

// take handles one message of the link.
func (c *core) take(m message) {
	c.proven = true
	c.failures = 0
	c.heartbeat.heard()
	switch m.kind {
	case event:
		c.live(m.row)
	case response:
		if cl := c.calls[m.id]; cl != nil {
			delete(c.calls, m.id)
			cl.finish(m)
		}
	}
}

// send makes a request: at once, or on the next connection.
func (c *core) send(cl *call) {
	switch {
	case c.err != nil:
		cl.finish(message{err: c.err})
	case c.link != nil:
		c.transmit(cl)
	case cl.internal:
		cl.finish(message{err: ErrConnectionLost})
	default:
		c.waiting = append(c.waiting, cl)
	}
}

func (c *core) transmit(cl *call) {
	if cl.over {
		return
	}
	c.nextID++
	cl.id = c.nextID
	c.calls[cl.id] = cl
	if cl.replay {
		c.link.replays.Store(cl.id, true)
	}
	if cl.onSend != nil {
		cl.onSend()
	}
	c.outbox = append(c.outbox, encodeRequest(cl.id, cl.method, cl.params))
}

// abandon forgets a call whose caller no longer waits.
func (c *core) abandon(cl *call) {
	cl.over = true
	delete(c.calls, cl.id)
}

// lost handles the end of the link: what can be sent again waits for the next connection, the rest fails.
func (c *core) lost(cause error) {
	if c.link == nil {
		return
	}
	c.opts.Logger.Debug("connection lost", "error", cause)
	c.down(cause)
	if c.dial.open == nil || c.opts.NoReconnect {
		c.err = fmt.Errorf("%w: %w", ErrConnectionLost, cause)
		return
	}
	if c.dial.ephemeral {
		c.failTurns(fmt.Errorf("%w (%w: %w)", ErrInstanceChanged, ErrConnectionLost, cause))
	}
	if !c.proven {
		c.failures++
	}
	c.reconnect(cause)
}

// down ends the link, if there is one, and settles the requests that were under way.
func (c *core) down(cause error) {
	if c.link == nil {
		return
	}
	l := c.link
	c.link, c.outbox = nil, nil
	c.heartbeat.stop()
	l.stop(cause)
	c.wg.Go(l.join) // not here: a farewell to a peer that is gone, or to a child that will not go, takes its time
	c.dropSyncs()
	failed := message{err: fmt.Errorf("%w: %w", ErrConnectionLost, cause)}
	for _, id := range sortedKeys(c.calls) {
		cl := c.calls[id]
		delete(c.calls, id)
		switch {
		case cl.idempotent:
			c.waiting = append(c.waiting, cl)
		case cause == ErrClosed:
			cl.finish(message{err: ErrClosed})
		default:
			cl.finish(failed)
		}
	}
}

// finish tells everybody that it is over, joins what the loop started, and ends the loop.
func (c *core) finish() {
	c.cancel()
	if c.connected != nil {
		if r := <-c.connected; r.link != nil {
			r.link.stop(c.err)
			r.link.join()
		}
	}
	for _, cl := range c.waiting {
		cl.finish(message{err: c.err})
	}
	c.failTurns(c.err)
	c.endWaiters(c.err)
	c.setState(State{Phase: Closed, Err: c.err})
	c.handlers.end()
	if c.err == ErrClosed {
		c.handlers.stop()
	}
	close(c.done)
}

// request makes a request and waits for its answer, until ctx ends or the client does.
func (c *core) request(ctx context.Context, cl *call) (message, error) {
	answer := make(chan message, 1)
	cl.done = func(m message) { answer <- m }
	if !c.do(func() { c.send(cl) }) {
		return message{}, c.err
	}
	select {
	case m := <-answer:
		return m, m.err
	case <-ctx.Done():
		c.do(func() { c.abandon(cl) })
		return message{}, context.Cause(ctx)
	}
}

// fatal reports whether connecting again cannot help.
func fatal(err error) bool {
	var refused *refusedError
	return errors.Is(err, protocol.ErrVersionMismatch) || errors.As(err, &refused)
}

// after runs op in the loop after d, unless the client ends first.
func (c *core) after(d time.Duration, op func()) {
	c.wg.Go(func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			c.do(op)
		case <-c.ctx.Done():
		}
	})
}
