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

// A Link is one connection, with faults. Its methods may be called at any time, from anywhere.
type Link struct {
	client, server net.Conn

	mu     sync.Mutex
	ways   [2]way
	cut    chan struct{} // closed by Cut
	isCut  bool
	change chan struct{} // closed at the next change of a fault
}

type way struct {
	stalled bool
	delay   time.Duration
	passed  int64
	limit   int64 // bytes that pass before the link is cut; negative: no limit
}

func newLink() *Link {
	c, s := net.Pipe()
	l := &Link{cut: make(chan struct{}), change: make(chan struct{})}
	l.ways[ToClient].limit, l.ways[ToServer].limit = -1, -1
	l.client, l.server = newEnd(c, l, ToServer), newEnd(s, l, ToClient)
	return l
}

// Cut breaks the link at once: reads end with an unexpected end of the stream, writes fail.
func (l *Link) Cut() {
	l.mu.Lock()
	if l.isCut {
		l.mu.Unlock()
		return
	}
	l.isCut = true
	close(l.cut)
	l.mu.Unlock()
	l.client.(*end).Conn.Close()
	l.server.(*end).Conn.Close()
}

// CutAfter breaks the link once n more bytes have passed in a direction, in the middle of a write if need be.
func (l *Link) CutAfter(d Direction, n int64) {
	l.set(func() { l.ways[d].limit = l.ways[d].passed + n })
}

// Stall lets nothing pass in a direction until Resume: the writer waits, the reader sees nothing, and nobody is told.
func (l *Link) Stall(d Direction) { l.set(func() { l.ways[d].stalled = true }) }

// Resume ends a Stall.
func (l *Link) Resume(d Direction) { l.set(func() { l.ways[d].stalled = false }) }

// Delay makes each write in a direction take that much longer.
func (l *Link) Delay(d Direction, by time.Duration) { l.set(func() { l.ways[d].delay = by }) }

// Passed returns how many bytes have passed in a direction.
func (l *Link) Passed(d Direction) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ways[d].passed
}

func (l *Link) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.change)
	l.change = make(chan struct{})
}

// state returns the faults of a direction, and a channel that tells when they change.
func (l *Link) state(d Direction) (way, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ways[d], l.change
}

// An end is one end of a link, which writes in one direction.
type end struct {
	net.Conn
	l      *Link
	dir    Direction
	once   sync.Once
	closed chan struct{}
}

func newEnd(c net.Conn, l *Link, d Direction) *end {
	return &end{Conn: c, l: l, dir: d, closed: make(chan struct{})}
}

// Write implements io.Writer.
func (e *end) Write(p []byte) (int, error) {
	w, err := e.gate()
	if err != nil {
		return 0, err
	}
	rest := w.limit - w.passed
	cut := w.limit >= 0 && int64(len(p)) >= rest
	if cut {
		p = p[:max(rest, 0)]
	}
	n, err := e.Conn.Write(p)
	e.l.mu.Lock()
	e.l.ways[e.dir].passed += int64(n)
	e.l.mu.Unlock()
	if cut {
		e.l.Cut()
		return n, io.ErrClosedPipe
	}
	return n, err
}

// gate waits until bytes may pass.
func (e *end) gate() (way, error) {
	w, change := e.l.state(e.dir)
	if w.delay > 0 {
		timer := time.NewTimer(w.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-e.l.cut:
			return w, io.ErrClosedPipe
		case <-e.closed:
			return w, io.ErrClosedPipe
		}
		w, change = e.l.state(e.dir)
	}
	for w.stalled {
		select {
		case <-change:
		case <-e.l.cut:
			return w, io.ErrClosedPipe
		case <-e.closed:
			return w, io.ErrClosedPipe
		}
		w, change = e.l.state(e.dir)
	}
	return w, nil
}

// Close implements io.Closer. It closes the link for the other end too, unless bytes to it are stalled: then nobody tells it.
func (e *end) Close() error {
	e.once.Do(func() { close(e.closed) })
	if w, _ := e.l.state(e.dir); w.stalled {
		return e.SetDeadline(time.Unix(1, 0)) // for this end it is over
	}
	e.l.Cut()
	return nil
}
