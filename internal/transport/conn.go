package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

// ErrClosed is in the chain of every error that a call gets because its connection ended. The cause is in the chain too.
var ErrClosed = errors.New("the connection is closed")

// Defaults of [Options].
const (
	DefaultMaxInFlight    = 256
	DefaultMaxQueuedTexts = 512
	DefaultMaxQueuedBytes = 4 << 20
)

// Options configure a Conn. The hooks run on the read loop, in the order of the wire: while one runs, nothing more is read. A hook that
// panics is logged and passed over.
type Options struct {
	// Handle takes the peer's requests; nil answers all of them with methodNotFound. See [Handler].
	Handle Handler
	// Notify takes the peer's notifications. nil ignores them.
	Notify func(*Notification)
	// Junk hears of what is passed over: text that is no message, a response that answers nothing, an oversized line. The text is cut
	// to 4 KiB and is only valid during the call. nil ignores it.
	Junk func(why string, text []byte)
	// Tolerant is for a child that is no careful speaker: `jsonrpc` may be missing, junk around messages is passed over, and nothing
	// malformed is answered. Otherwise malformed text is answered as spec section 2 says.
	Tolerant bool
	// Versionless leaves `jsonrpc` out of what we write, as codex does.
	Versionless bool
	// Errors maps a handler's error to what goes out. nil takes the [*Error] in its chain, or else answers an internal error without
	// its text.
	Errors func(error) *Error
	// MaxInFlight bounds the requests that are not yet answered; at the limit reading waits. 0 means DefaultMaxInFlight.
	MaxInFlight int
	// MaxQueuedTexts and MaxQueuedBytes bound what waits to be written: at either, Send, Call and reading wait. 0 means the defaults.
	MaxQueuedTexts, MaxQueuedBytes int
	// Linger is how long after the end of the peer's stream (io.EOF, which only a line pipe has) the requests that it sent before may
	// still be answered. 0 drops what is not yet written, which is right for a child that has exited.
	Linger time.Duration
	// Logger hears of panics. nil means slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	orDefault(&o.MaxInFlight, DefaultMaxInFlight)
	orDefault(&o.MaxQueuedTexts, DefaultMaxQueuedTexts)
	orDefault(&o.MaxQueuedBytes, DefaultMaxQueuedBytes)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Errors == nil {
		o.Errors = errorOf
	}
	if o.Handle == nil {
		o.Handle = func(_ context.Context, r *Request) (any, error) {
			return nil, &Error{Code: codeMethodNotFound, Message: "method not found: this side takes no requests"}
		}
	}
	return o
}

// A Conn is a JSON-RPC connection: requests and notifications both ways. All methods are safe for concurrent use. It must be closed.
type Conn struct {
	pipe  Pipe
	o     Options
	rpc   *jsonrpc2.Conn
	out   sendQueue
	write writer

	ctx      context.Context // ends with the connection
	cancel   context.CancelCauseFunc
	inFlight chan struct{}  // one place a request that is not yet answered
	tasks    sync.WaitGroup // writers and handlers that went async
	ready    chan struct{}  // closed when rpc is set
	readDone chan struct{}  // closed when the read loop is at its end
	closed   chan struct{}  // closed when the pipe is

	mu        sync.Mutex
	requests  map[uint64]*Request // inbound, not yet answered, by our number
	lastIn    uint64
	calls     calls
	cause     error
	closeCode CloseCode
	closeWhy  string
}

// NewConn takes over p and starts to read from it. When ctx ends the connection is closed as going away.
func NewConn(ctx context.Context, p Pipe, o Options) *Conn {
	o = o.withDefaults()
	c := &Conn{
		pipe: p, o: o, write: writer{o.Versionless},
		out:      sendQueue{maxTexts: o.MaxQueuedTexts, maxBytes: o.MaxQueuedBytes},
		inFlight: make(chan struct{}, o.MaxInFlight),
		ready:    make(chan struct{}), readDone: make(chan struct{}), closed: make(chan struct{}),
		requests: map[uint64]*Request{}, calls: newCalls(),
		closeCode: CloseGoingAway,
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	s := &stream{Conn: c}
	c.rpc = jsonrpc2.NewConn(c.ctx, s, s, jsonrpc2.OnSend(s.onSend), jsonrpc2.SetLogger(silent{}))
	close(c.ready)
	return c
}

// Done is closed when nothing more will be read: the peer closed, the connection broke, or Close was called. Close must be called even so.
func (c *Conn) Done() <-chan struct{} { return c.readDone }

// Err says why the connection ended: io.EOF or a [*CloseError]. It is nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Close tells the peer code and reason where the pipe can, drops what is not yet written, and returns when the read loop, the writer and the
// handlers have ended. Only the first call's code counts. It must not be called from a hook or handler: there, let another goroutine do it.
func (c *Conn) Close(code CloseCode, reason string) error {
	c.mu.Lock()
	if c.cause == nil {
		c.closeCode, c.closeWhy = code, reason
	}
	c.mu.Unlock()
	c.rpc.Close() // an error says that it is closed already
	<-c.closed
	<-c.readDone
	c.tasks.Wait()
	return nil
}

// Shutdown is Close after everything that is queued has been written, or ctx has ended. Who queues more meanwhile prolongs it.
func (c *Conn) Shutdown(ctx context.Context, code CloseCode, reason string) error {
	err := c.Flush(ctx)
	c.Close(code, reason)
	return err
}

// Flush waits until everything that is queued has been handed to the operating system.
func (c *Conn) Flush(ctx context.Context) error { return c.out.waitIdle(ctx) }

// Room waits until the queue is below its bounds. It is for whoever is about to make a large reply.
func (c *Conn) Room(ctx context.Context) error { return c.out.waitRoom(ctx) }

// Send writes whole, encoded messages in order. It waits for room in the queue until ctx ends; then it either writes by itself, together with
// what others queue meanwhile, or leaves the texts to the goroutine that writes. The bytes must not change any more; several connections may
// share them.
func (c *Conn) Send(ctx context.Context, texts ...[]byte) error {
	if err := c.out.waitRoom(ctx); err != nil {
		return err
	}
	mustWrite, err := c.out.push(func() { c.tasks.Add(1) }, texts...)
	if mustWrite {
		defer c.tasks.Done()
		c.drain()
		return c.out.failure()
	}
	return err
}

// Notify sends a notification. params is encoded without HTML escaping; a json.RawMessage goes out as it is, and nil leaves the member out.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	text, err := c.write.call(nil, method, params)
	if err != nil {
		return err
	}
	return c.Send(ctx, text)
}

// post queues a text without waiting for anything.
func (c *Conn) post(text []byte) error {
	mustWrite, err := c.out.push(func() { c.tasks.Add(1) }, text)
	if mustWrite {
		go func() {
			defer c.tasks.Done()
			c.drain()
		}()
	}
	return err
}

// drain writes until nothing waits. The caller is the writer.
func (c *Conn) drain() {
	var spare [][]byte
	for texts := c.out.take(nil); texts != nil; texts = c.out.take(spare) {
		if err := c.pipe.Write(context.Background(), texts...); err != nil {
			c.fail(err)
		}
		spare = texts
	}
}

// fail stores why the connection ended, if nothing did before, and stops sending.
func (c *Conn) fail(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	cause = c.cause
	c.mu.Unlock()
	err := closedError{cause}
	c.cancel(err)
	c.out.fail(err)
}

// A closedError is ErrClosed with its cause.
type closedError struct{ cause error }

func (e closedError) Error() string   { return ErrClosed.Error() + ": " + e.cause.Error() }
func (e closedError) Unwrap() []error { return []error{ErrClosed, e.cause} }

// guard runs a hook. A panic is logged and returned as an error.
func (c *Conn) guard(what string, hook func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.o.Logger.Error("a handler panicked", "in", what, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("panic in %s", what)
		}
	}()
	hook()
	return nil
}

func (c *Conn) junk(why string, text []byte) {
	if c.o.Junk != nil {
		c.guard("junk", func() { c.o.Junk(why, text[:min(len(text), 4096)]) })
	}
}

// silent keeps jsonrpc2 from writing to stderr.
type silent struct{}

func (silent) Printf(string, ...any) {}
