package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/sourcegraph/jsonrpc2"
)

// A Handler answers a request: what it returns is the reply. It runs on the read loop, so that requests are handled in the order in which they
// came and nothing more is read meanwhile. What takes longer goes async:
//
//	return r.Go(func(ctx context.Context, r *Request) (any, error) { ... }) // in a goroutine that Conn.Close waits for
//	return r.Later()                                                       // somebody calls r.Reply
//
// ctx ends with the connection. A panic is answered with an internal error. The result is encoded without HTML escaping; a json.RawMessage
// goes out as it is.
type Handler func(ctx context.Context, r *Request) (result any, err error)

// errLater is what Later returns.
var errLater = errors.New("the reply comes later")

// A Request is one request of the peer. It must be answered exactly once; a second answer is passed over.
type Request struct {
	Method string
	Params json.RawMessage // the peer's bytes; nil when absent

	conn *Conn
	num  uint64
	id   []byte

	answered atomic.Bool
}

// ID returns the request's id as the JSON token that the peer wrote. It need not be unique.
func (r *Request) ID() string { return string(r.id) }

// Later says that somebody else calls Reply: `return r.Later()`.
func (r *Request) Later() (any, error) { return nil, errLater }

// Go answers the request from a goroutine of its own: `return r.Go(h)`. It is for handlers on the read loop only.
func (r *Request) Go(h Handler) (any, error) {
	r.conn.tasks.Go(func() { r.run(h) })
	return r.Later()
}

// Reply answers the request with a result or an error, and returns when the reply is queued: what is sent after that is written after it.
// It never waits for the peer. The error is one of the connection.
func (r *Request) Reply(result any, err error) error {
	if r.answered.Swap(true) {
		return nil
	}
	defer r.conn.forget(r)
	resp := &jsonrpc2.Response{ID: jsonrpc2.ID{Num: r.num}}
	raw, encodeErr := encode(result)
	switch {
	case err != nil:
		resp.Error = toJSONRPC2(r.conn.o.Errors(err))
	case encodeErr != nil:
		r.conn.o.Logger.Error("a result cannot be encoded", "method", r.Method, "error", encodeErr)
		resp.Error = toJSONRPC2(errorOf(encodeErr))
	default:
		resp.Result = (*json.RawMessage)(&raw)
	}
	if r.conn.rpc.SendResponse(r.conn.ctx, resp) != nil {
		return closedError{r.conn.closeCause()}
	}
	return nil
}

// run calls h and replies, unless the reply comes later.
func (r *Request) run(h Handler) {
	var result any
	var err error
	if p := r.conn.guard(r.Method, func() { result, err = h(r.conn.ctx, r) }); p != nil {
		err = &Error{Code: codeInternal, Message: "internal error"}
	}
	if !errors.Is(err, errLater) {
		r.Reply(result, err)
	}
}

func toJSONRPC2(e *Error) *jsonrpc2.Error {
	out := &jsonrpc2.Error{Code: e.Code, Message: e.Message}
	if len(e.Data) > 0 {
		out.Data = (*json.RawMessage)(&e.Data)
	}
	return out
}

// accept makes a request of a message, as soon as there is a place for it. The error is one of the connection.
func (c *Conn) accept(m message) (*Request, error) {
	if err := c.out.waitRoom(c.ctx); err != nil {
		return nil, err
	}
	select {
	case c.inFlight <- struct{}{}:
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	}
	// The id is copied, or it would keep a whole frame in memory.
	r := &Request{Method: m.method, Params: m.params, conn: c, id: bytes.Clone(m.id)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastIn++
	r.num = c.lastIn
	c.requests[r.num] = r
	return r, nil
}

// request returns an inbound request that is not yet answered, by our number.
func (c *Conn) request(num uint64) *Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[num]
}

// forget gives up the place of a request that is answered.
func (c *Conn) forget(r *Request) {
	c.mu.Lock()
	delete(c.requests, r.num)
	c.mu.Unlock()
	<-c.inFlight
}
