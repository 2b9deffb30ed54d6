package transporttest

import (
	"io"
	"net"
	"sync"
	"time"
)

// A Direction is one way of a link.
type Direction int

// The two ways.
const (
	ToClient Direction = iota
	ToServer
)

// DefaultBuffer is how many bytes a direction holds that were written and not yet read, as a socket's buffers do.
const DefaultBuffer = 64 << 10

// A Link is one connection, with faults. Its methods may be called at any time, from anywhere.
type Link struct {
	client, server *end

	mu     sync.Mutex
	ways   [2]way
	cut    bool
	change chan struct{} // closed at the next change of anything here
}

// A way is what is under way in one direction.
type way struct {
	buf     []byte
	room    int
	stalled bool
	delay   time.Duration
	passed  int64
	limit   int64 // of passed, at which the link is cut; negative: none
}

func newLink() *Link {
	l := &Link{change: make(chan struct{})}
	for d := range l.ways {
		l.ways[d] = way{room: DefaultBuffer, limit: -1}
	}
	l.client, l.server = &end{l: l, out: ToServer, in: ToClient}, &end{l: l, out: ToClient, in: ToServer}
	return l
}

// Cut breaks the link at once, for both ends: writes fail, and reads end after what has passed. It ends a Stall too.
func (l *Link) Cut() {
	l.set(func() {
		l.cut = true
		l.ways[ToClient].stalled, l.ways[ToServer].stalled = false, false
	})
}

// CutAfter breaks the link once n more bytes have passed in a direction, in the middle of a write if need be.
func (l *Link) CutAfter(d Direction, n int64) {
	l.set(func() { l.ways[d].limit = l.ways[d].passed + n })
}

// Stall lets nothing pass in a direction until Resume: the reader sees nothing, not even an end, and the writer waits once the buffer is full.
func (l *Link) Stall(d Direction) { l.set(func() { l.ways[d].stalled = true }) }

// Resume ends a Stall.
func (l *Link) Resume(d Direction) { l.set(func() { l.ways[d].stalled = false }) }

// Delay makes each write in a direction take that much longer.
func (l *Link) Delay(d Direction, by time.Duration) { l.set(func() { l.ways[d].delay = by }) }

// Buffer sets how many bytes a direction holds; at least 1.
func (l *Link) Buffer(d Direction, bytes int) { l.set(func() { l.ways[d].room = max(bytes, 1) }) }

// Passed returns how many bytes have been written in a direction.
func (l *Link) Passed(d Direction) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ways[d].passed
}

func (l *Link) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.changed()
}

// changed wakes who waits. The caller holds the lock.
func (l *Link) changed() {
	close(l.change)
	l.change = make(chan struct{})
}

// wait calls try under the lock, again after every change, until it says that it is done.
func (l *Link) wait(try func() (done bool)) {
	for {
		l.mu.Lock()
		done, change := try(), l.change
		l.mu.Unlock()
		if done {
			return
		}
		<-change
	}
}

// An end is one end of a link. Deadlines are not supported.
type end struct {
	l       *Link
	in, out Direction
	closed  bool // under l.mu
}

// Read implements net.Conn.
func (e *end) Read(p []byte) (n int, err error) {
	e.l.wait(func() bool {
		w := &e.l.ways[e.in]
		switch {
		case e.closed:
			err = net.ErrClosed
		case w.stalled:
			return false
		case len(w.buf) > 0:
			n = copy(p, w.buf)
			w.buf = w.buf[n:]
			e.l.changed()
		case e.l.cut:
			err = io.EOF
		default:
			return false
		}
		return true
	})
	return n, err
}

// Write implements net.Conn.
func (e *end) Write(p []byte) (n int, err error) {
	if err := e.delay(); err != nil {
		return 0, err
	}
	for n < len(p) && err == nil {
		e.l.wait(func() bool {
			w := &e.l.ways[e.out]
			if e.closed || e.l.cut {
				err = net.ErrClosed
				return true
			}
			take := min(len(p)-n, w.room-len(w.buf))
			if w.limit >= 0 {
				take = min(take, int(w.limit-w.passed))
			}
			if take > 0 {
				w.buf = append(w.buf, p[n:n+take]...)
				w.passed += int64(take)
				n += take
			}
			if e.l.cut = w.passed == w.limit; take > 0 || e.l.cut {
				e.l.changed()
				return true
			}
			return false
		})
	}
	return n, err
}

// delay waits as long as a write must take longer.
func (e *end) delay() error {
	e.l.mu.Lock()
	by := e.l.ways[e.out].delay
	e.l.mu.Unlock()
	if by == 0 {
		return nil
	}
	timer := time.AfterFunc(by, func() { e.l.set(func() {}) })
	defer timer.Stop()
	var err error
	until := time.Now().Add(by)
	e.l.wait(func() bool {
		if e.closed || e.l.cut {
			err = net.ErrClosed
		}
		return err != nil || !time.Now().Before(until)
	})
	return err
}

// Close implements net.Conn. The other end reads what has passed and then the end, unless its direction is stalled: then nobody tells it.
func (e *end) Close() error {
	e.l.set(func() {
		e.closed = true
		e.l.cut = e.l.cut || !e.l.ways[e.out].stalled
	})
	return nil
}

type addr struct{}

func (addr) Network() string { return "memory" }
func (addr) String() string  { return "memory" }

// LocalAddr implements net.Conn.
func (e *end) LocalAddr() net.Addr { return addr{} }

// RemoteAddr implements net.Conn.
func (e *end) RemoteAddr() net.Addr { return addr{} }

// SetDeadline implements net.Conn. It does nothing.
func (e *end) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn. It does nothing.
func (e *end) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn. It does nothing.
func (e *end) SetWriteDeadline(time.Time) error { return nil }

var _ net.Conn = (*end)(nil)
