package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
)

// A wsPipe is a Pipe over a WebSocket. The library reads and shakes hands; data frames and pings are ours.
type wsPipe struct {
	ws     *websocket.Conn
	raw    *rawConn
	o      PipeOptions
	client bool
	frames framer
	rest   []byte // of the frame read last, what is not yet returned

	heart       sync.WaitGroup // the heartbeat that runs or is due
	readingFrom atomic.Int64   // when the Read under way began, in ns of [rawConn.now]; 0: none is

	mu      sync.Mutex
	cause   error // what Read and Write return from now on
	beat    *time.Timer
	pingAt  int64 // when the ping that is not yet judged was sent; 0: none
	stopped bool  // no more heartbeats

	closing atomic.Bool
	closed  chan struct{} // closed when Close is done
}

func newWSPipe(ws *websocket.Conn, raw *rawConn, client bool, o PipeOptions) *wsPipe {
	p := &wsPipe{ws: ws, raw: raw, client: client, o: o, frames: framer{client: client}, closed: make(chan struct{})}
	raw.watch(o.WriteTimeout, func() {
		p.fail(&CloseError{Code: CloseStalled, Reason: "the peer took nothing for " + o.WriteTimeout.String()})
	})
	ws.SetReadLimit(int64(o.MaxMessageBytes))
	p.schedule(o.PingInterval)
	return p
}

// Read implements Pipe.
func (p *wsPipe) Read(ctx context.Context) ([]byte, error) {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { p.fail(&CloseError{Code: CloseGoingAway, Err: context.Cause(ctx)}) })
		defer stop()
	}
	for {
		for len(p.rest) > 0 {
			var line []byte
			line, p.rest, _ = bytes.Cut(p.rest, []byte{'\n'})
			if line = trim(line); len(line) > 0 {
				return line, nil
			}
		}
		p.readingFrom.Store(p.raw.now())
		frame, err := p.readFrame()
		p.readingFrom.Store(0)
		if err != nil {
			return nil, p.fail(readError(err))
		}
		p.rest = frame
	}
}

// readFrame returns the next data frame, in a buffer that is as long as it is.
func (p *wsPipe) readFrame() ([]byte, error) {
	_, r, err := p.ws.Reader(context.Background()) // a context here would cost a timer a frame; fail unblocks it
	if err != nil {
		return nil, err
	}
	buf := chunks.Get().(*[]byte)
	defer chunks.Put(buf)
	scratch, n := (*buf)[:chunkSize], 0
	for n < len(scratch) {
		m, err := r.Read(scratch[n:])
		if n += m; errors.Is(err, io.EOF) {
			return bytes.Clone(scratch[:n]), nil
		}
		if err != nil {
			return nil, err
		}
	}
	rest, err := io.ReadAll(r)
	return slices.Concat(scratch, rest), err
}

// Write implements Pipe.
func (p *wsPipe) Write(ctx context.Context, texts ...[]byte) error {
	if err := p.err(); err != nil {
		return err
	}
	err := p.raw.out.writeUnits(ctx, func(b *batch) {
		for _, t := range texts {
			if p.closing.Load() { // nothing may follow the close frame
				b.err = net.ErrClosed
				return
			}
			p.frames.text(b, oneLine(t))
		}
	})
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return p.fail(&CloseError{Code: CloseAbnormal, Err: err})
}

// Close implements Pipe.
func (p *wsPipe) Close(code CloseCode, reason string) error {
	if p.closing.Swap(true) {
		<-p.closed // not a sync.Once: a testing/synctest bubble cannot tell that who waits for a lock is idle
		return nil
	}
	defer close(p.closed)
	sayable := p.setCause(&CloseError{Code: code, Reason: reason})
	p.stopHeart()
	if sayable {
		// The library waits up to 5 s for its own write and 5 s for the peer's frame.
		limit := time.AfterFunc(p.o.CloseTimeout, func() { p.raw.Close() })
		p.ws.Close(websocket.StatusCode(code), clipReason(reason))
		limit.Stop()
	} else {
		p.ws.CloseNow()
	}
	p.raw.Close()
	p.heart.Wait()
	p.raw.out.join()
	return nil
}

// fail ends the connection at once and returns why it ended: err, or what came first.
func (p *wsPipe) fail(err error) error {
	p.setCause(err)
	p.raw.Close()
	return p.err()
}

// setCause stores err if it is the first, and reports whether it is.
func (p *wsPipe) setCause(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil {
		return false
	}
	p.cause = err
	return true
}

func (p *wsPipe) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

// schedule makes the next heartbeat due after d. There is no goroutine between two of them.
func (p *wsPipe) schedule(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || p.o.PingInterval < 0 {
		return
	}
	p.heart.Add(1)
	p.beat = time.AfterFunc(d, p.heartbeat)
}

func (p *wsPipe) stopHeart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.beat != nil && p.beat.Stop() {
		p.heart.Done()
	}
}

// heartbeat sends a ping, or judges the one before: it is answered by any byte, since a pong can stand behind a long message. A time in
// which we did not read says nothing about the peer.
func (p *wsPipe) heartbeat() {
	defer p.heart.Done()
	if p.pingAt != 0 {
		from := p.readingFrom.Load()
		if reading := from != 0 && from <= p.pingAt; reading && p.raw.lastByte.Load() < p.pingAt {
			p.fail(&CloseError{Code: CloseDead, Reason: "the peer did not answer a ping within " + p.o.PongTimeout.String()})
			return
		}
		if rest := p.o.PingInterval - p.o.PongTimeout; rest > 0 {
			p.pingAt = 0
			p.schedule(rest)
			return
		}
	}
	p.pingAt = p.raw.now()
	p.schedule(p.o.PongTimeout)          // first: the write may wait for the peer
	p.raw.out.leave(pingFrame(p.client)) // an error shows in Read
}

// readError says in our terms why the library ended a read.
func readError(err error) error {
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		return &CloseError{Code: CloseCode(e.Code), Reason: e.Reason}
	}
	if errors.Is(err, websocket.ErrMessageTooBig) {
		return &CloseError{Code: CloseTooBig, Reason: "a message over the limit came"}
	}
	return &CloseError{Code: CloseAbnormal, Err: err}
}

// clipReason cuts a close reason to what fits a control frame.
func clipReason(s string) string {
	const limit = 123
	if len(s) <= limit {
		return s
	}
	for s = s[:limit]; !utf8.ValidString(s); {
		s = s[:len(s)-1]
	}
	return s
}

// A rawConn stands between the library and the network. It notes when a byte came, and lets the library's control frames and our data frames
// share one outlet: the library flushes once a frame, so that each of its writes is a whole control frame.
type rawConn struct {
	io.ReadWriteCloser
	out      *outlet
	start    time.Time
	lastByte atomic.Int64 // ns since start
	once     sync.Once
	done     chan struct{}
}

func newRawConn(c io.ReadWriteCloser) *rawConn {
	r := &rawConn{ReadWriteCloser: c, start: time.Now(), done: make(chan struct{})}
	r.watch(DefaultWriteTimeout, func() { r.Close() })
	return r
}

// watch sets the write timeout. It must come before the first write.
func (r *rawConn) watch(timeout time.Duration, stalled func()) {
	r.out = newOutlet(r.ReadWriteCloser, timeout, r.done, stalled)
}

// now is never 0.
func (r *rawConn) now() int64 { return int64(time.Since(r.start)) + 1 }

func (r *rawConn) Read(p []byte) (int, error) {
	n, err := r.ReadWriteCloser.Read(p)
	if n > 0 {
		r.lastByte.Store(r.now())
	}
	return n, err
}

func (r *rawConn) Write(p []byte) (int, error) {
	if err := r.out.leave(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (r *rawConn) Close() error {
	var err error
	r.once.Do(func() {
		close(r.done)
		err = r.ReadWriteCloser.Close()
	})
	return err
}

// A rawNetConn is a rawConn that http.Hijacker may return.
type rawNetConn struct {
	*rawConn
	net.Conn
}

func (c rawNetConn) Read(p []byte) (int, error)  { return c.rawConn.Read(p) }
func (c rawNetConn) Write(p []byte) (int, error) { return c.rawConn.Write(p) }
func (c rawNetConn) Close() error                { return c.rawConn.Close() }
