package transport

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/sourcegraph/jsonrpc2"
)

// A call is a request of ours that is not yet answered.
type call struct {
	id     uint64 // on the wire: 1, 2, 3, ...
	slot   uint64 // jsonrpc2's name for it
	method string
	text   []byte                       // until it is queued
	sent   bool                         // a response may come
	done   func(json.RawMessage, error) // nil: somebody waits in Call

	result json.RawMessage
	err    error
}

// calls are the calls under way. jsonrpc2 has no way to forget one that was given up, so it knows them by slots that are used again: what it
// holds is bounded by the calls that were under way at one time, and a late response, which carries an id that we no longer know, never
// reaches it.
type calls struct {
	lastID, lastSlot uint64
	byID, bySlot     map[uint64]*call
	free             []uint64
}

func newCalls() calls { return calls{byID: map[uint64]*call{}, bySlot: map[uint64]*call{}} }

// Call sends a request and waits for the response. It returns the result's bytes, the peer's [*Error], ctx's cause, or an error with
// [ErrClosed] in its chain. A call that ctx ended is forgotten: its late response is passed over. params is encoded as in [Conn.Notify].
//
// It must not be called from a hook or a handler that runs on the read loop: the response could not be read.
func (c *Conn) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	k, err := c.newCall(ctx, method, params, nil)
	if err != nil {
		return nil, err
	}
	w, err := c.dispatch(ctx, k)
	if err != nil {
		return nil, err
	}
	err = w.Wait(ctx, nil)
	if err != nil && ctx.Err() != nil {
		if c.takeCall(k.id) != nil {
			c.freeSlot(k.slot)
			return nil, context.Cause(ctx)
		}
		err = w.Wait(context.Background(), nil) // the response came in the same moment
	}
	c.freeSlot(k.slot)
	if err != nil {
		c.takeCall(k.id)
		return nil, closedError{c.closeCause()}
	}
	return k.result, k.err
}

// Start sends a request and returns. done is called once, on the read loop: its place in the order of the wire is that of the response, or
// after everything else when the connection ends first. When Start fails, done is not called.
func (c *Conn) Start(ctx context.Context, method string, params any, done func(json.RawMessage, error)) error {
	k, err := c.newCall(ctx, method, params, done)
	if err != nil {
		return err
	}
	_, err = c.dispatch(ctx, k)
	return err
}

// newCall waits for room in the queue and gives the call an id and a slot.
func (c *Conn) newCall(ctx context.Context, method string, params any, done func(json.RawMessage, error)) (*call, error) {
	if err := c.out.waitRoom(ctx); err != nil {
		return nil, err
	}
	k := &call{method: method, done: done}
	c.mu.Lock()
	c.calls.lastID++
	k.id = c.calls.lastID
	c.mu.Unlock()
	var err error
	if k.text, err = c.write.call(strconv.AppendUint(nil, k.id, 10), method, params); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.add(k)
	return k, nil
}

// dispatch sends k through jsonrpc2, which queues it without waiting.
func (c *Conn) dispatch(ctx context.Context, k *call) (jsonrpc2.Waiter, error) {
	w, err := c.rpc.DispatchCall(ctx, k.method, nil, jsonrpc2.PickID(jsonrpc2.ID{Num: k.slot}))
	if err == nil {
		return w, nil
	}
	ours := c.takeCall(k.id) != nil || !k.sent
	c.freeSlot(k.slot)
	if k.done != nil && !ours {
		return w, nil // the end of the read loop has called done already
	}
	return w, closedError{c.closeCause()}
}

func (c *calls) add(k *call) {
	if n := len(c.free); n > 0 {
		k.slot, c.free = c.free[n-1], c.free[:n-1]
	} else {
		c.lastSlot++
		k.slot = c.lastSlot
	}
	c.bySlot[k.slot] = k
}

// takeCall removes and returns the call with an id, or nil. Who gets it decides how it ends.
func (c *Conn) takeCall(id uint64) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.calls.byID[id]
	delete(c.calls.byID, id)
	return k
}

func (c *Conn) freeSlot(slot uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls.bySlot, slot)
	c.calls.free = append(c.calls.free, slot)
}

// sendCall queues the text of the call in a slot. From here on, and not before, a response to it is one.
func (c *Conn) sendCall(slot uint64) error {
	c.mu.Lock()
	k := c.calls.bySlot[slot]
	text := k.text
	k.text, k.sent = nil, true
	c.calls.byID[k.id] = k
	c.mu.Unlock()
	return c.post(text)
}

// takeCallbacks removes and returns the calls of Start that nobody will answer.
func (c *Conn) takeCallbacks() []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*call
	for id, k := range c.calls.byID {
		if k.done != nil {
			out = append(out, k)
			delete(c.calls.byID, id)
		}
	}
	return out
}

// closeCause says why the connection ended, also in the moment before that is known.
func (c *Conn) closeCause() error {
	if err := c.Err(); err != nil {
		return err
	}
	return &CloseError{Code: CloseAbnormal}
}
