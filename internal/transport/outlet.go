package transport

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// chunkSize is how much one write hands to the operating system at most.
const chunkSize = 64 << 10

// maxSide bounds what may wait beside a write that is under way: some hundred control frames.
const maxSide = 32 << 10

// sidePatience is how long leave waits for its unit to be written.
const sidePatience = 4 * time.Second

var errSideFull = errors.New("too many control frames wait for a peer that does not read")

var chunks = sync.Pool{New: func() any { b := make([]byte, 0, chunkSize); return &b }}

// An outlet writes whole units (frames, lines) to w, one goroutine at a time. A goroutine that must not wait leaves its unit beside the
// write under way, and whoever writes takes it along at the next boundary.
type outlet struct {
	w       io.Writer
	timeout time.Duration
	done    <-chan struct{} // closed when the pipe is
	watch   *time.Timer     // runs while a write does
	turn    chan struct{}   // one place: held by the goroutine that writes

	mu     sync.Mutex
	side   []byte // units that wait
	joined bool
	tasks  sync.WaitGroup
}

// newOutlet returns an outlet that calls stalled when one write of up to chunkSize takes longer than timeout; stalled must make it return.
func newOutlet(w io.Writer, timeout time.Duration, done <-chan struct{}, stalled func()) *outlet {
	o := &outlet{w: w, timeout: timeout, done: done, turn: make(chan struct{}, 1)}
	o.watch = time.AfterFunc(time.Hour, stalled)
	o.watch.Stop()
	return o
}

// writeUnits calls fill with a batch to put units into, and writes them.
func (o *outlet) writeUnits(ctx context.Context, fill func(*batch)) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	select {
	case o.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-o.done:
		return io.ErrClosedPipe
	}
	buf := chunks.Get().(*[]byte)
	b := batch{out: o, buf: (*buf)[:0]}
	fill(&b)
	b.flush()
	*buf = b.buf
	chunks.Put(buf)
	<-o.turn
	if b.err != nil {
		return b.err
	}
	return o.writeSide()
}

// leave writes one small unit, or leaves it to the goroutine that writes. It waits for that no longer than sidePatience: the library gives a
// control frame 5 s and then breaks the connection, but how long a peer may take nothing is for us to say.
func (o *outlet) leave(unit []byte) error {
	o.mu.Lock()
	if len(o.side)+len(unit) > maxSide {
		o.mu.Unlock()
		return errSideFull
	}
	o.side = append(o.side, unit...)
	o.mu.Unlock()
	patience := time.NewTimer(sidePatience)
	defer patience.Stop()
	select {
	case o.turn <- struct{}{}:
	case <-patience.C:
		return nil
	case <-o.done:
		return io.ErrClosedPipe
	}
	written := make(chan error, 1)
	if !o.spawn(func() {
		err := o.put(o.takeSide())
		<-o.turn
		if err == nil {
			err = o.writeSide()
		}
		written <- err
	}) {
		<-o.turn
		return io.ErrClosedPipe
	}
	select {
	case err := <-written:
		return err
	case <-patience.C:
		return nil
	}
}

// spawn runs f in a goroutine that join waits for, unless join was called.
func (o *outlet) spawn(f func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.joined {
		return false
	}
	o.tasks.Go(f)
	return true
}

// join waits for the goroutines of leave. What they write to must be closed.
func (o *outlet) join() {
	o.mu.Lock()
	o.joined = true
	o.mu.Unlock()
	o.tasks.Wait()
}

// writeSide writes what waits, unless another goroutine writes: that one comes here when it is done.
func (o *outlet) writeSide() error {
	for o.hasSide() {
		select {
		case o.turn <- struct{}{}:
		default:
			return nil
		}
		err := o.put(o.takeSide())
		<-o.turn
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *outlet) hasSide() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.side) > 0
}

func (o *outlet) takeSide() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.side
	o.side = nil
	return s
}

// put makes one write, watched.
func (o *outlet) put(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	o.watch.Reset(o.timeout)
	_, err := o.w.Write(p)
	o.watch.Stop()
	return err
}

// A batch gathers units into chunks. Its error is final.
type batch struct {
	out *outlet
	buf []byte
	err error
}

// boundary says that a unit is complete, or about to begin. If the chunk could not take another small one, it is written, and with it what
// waits beside.
func (b *batch) boundary() {
	if len(b.buf) > chunkSize*3/4 {
		b.flush()
		if b.err == nil {
			b.err = b.out.put(b.out.takeSide())
		}
	}
}

// room returns a part of the chunk to fill, of at least one byte, for the caller to append to.
func (b *batch) room() int {
	if len(b.buf) >= chunkSize {
		b.flush()
	}
	return chunkSize - len(b.buf)
}

func (b *batch) append(p []byte) {
	for len(p) > 0 && b.err == nil {
		n := min(b.room(), len(p))
		b.buf = append(b.buf, p[:n]...)
		p = p[n:]
	}
}

func (b *batch) flush() {
	if b.err == nil {
		b.err = b.out.put(b.buf)
	}
	b.buf = b.buf[:0]
}
