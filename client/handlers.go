package client

import (
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentserver/protocol"
)

// handlers delivers events to the firehose handlers, and notices to OnState and OnError. Each consumer has a goroutine and a queue of its own.
type handlers struct {
	mu    sync.Mutex // guards changes of list
	list  atomic.Pointer[[]*handler]
	wg    sync.WaitGroup
	limit int

	notices *queue[any] // State and error values
}

type handler struct {
	queue *queue[protocol.Envelope]
	fn    func(protocol.Envelope)
	gone  chan struct{} // closed when no further call is to begin
	once  sync.Once
}

func (h *handler) stop() { h.once.Do(func() { close(h.gone) }) }

func (c *core) initHandlers() {
	hs := &c.handlers
	hs.limit = c.opts.QueueLimit
	hs.list.Store(new([]*handler))
	hs.notices = newQueue[any](-1) // states and errors are few
	hs.wg.Go(c.dispatchNotices)
	if c.opts.OnEvent != nil {
		c.addHandler(c.opts.OnEvent)
	}
}

// addHandler registers fn from now on and returns how to end that.
func (c *core) addHandler(fn func(protocol.Envelope)) (remove func()) {
	hs := &c.handlers
	h := &handler{queue: newQueue[protocol.Envelope](hs.limit), fn: fn, gone: make(chan struct{})}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	list := *hs.list.Load()
	if hs.ended() {
		return func() {}
	}
	list = append(slices.Clone(list), h)
	hs.list.Store(&list)
	hs.wg.Go(func() { c.runHandler(h) })
	return func() { hs.remove(h) }
}

func (hs *handlers) ended() bool {
	hs.notices.mu.Lock()
	defer hs.notices.mu.Unlock()
	return hs.notices.ended
}

func (hs *handlers) remove(h *handler) {
	h.stop()
	hs.mu.Lock()
	defer hs.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(*hs.list.Load()), func(x *handler) bool { return x == h })
	hs.list.Store(&list)
}

// push hands an event to every handler. It never waits for one.
func (c *core) pushEvent(env protocol.Envelope) {
	for _, h := range *c.handlers.list.Load() {
		if !h.queue.push(env) {
			c.report(&LagError{c.handlers.limit})
			c.handlers.remove(h)
		}
	}
}

// end ends every handler after what has come so far. Notices are still told.
func (hs *handlers) end() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.notices.end(nil)
	for _, h := range *hs.list.Load() {
		h.queue.end(nil)
	}
}

// stop ends every handler, what it has not seen included.
func (hs *handlers) stop() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, h := range *hs.list.Load() {
		h.stop()
	}
}

func (c *core) runHandler(h *handler) {
	for {
		items, ended, _ := h.queue.take()
		for _, env := range items {
			select {
			case <-h.gone:
				return
			default:
				c.guard(func() { h.fn(env) })
			}
		}
		switch {
		case len(items) > 0:
			continue
		case ended:
			return
		}
		select {
		case <-h.queue.wake:
		case <-h.gone:
			return
		}
	}
}

// guard runs a function of the user's and reports a panic.
func (c *core) guard(fn func()) {
	defer func() {
		if v := recover(); v != nil {
			c.report(&PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	fn()
}

// report tells OnError and the log.
func (c *core) report(err error) {
	c.opts.Logger.Warn("client", "error", err)
	if c.opts.OnError != nil {
		c.handlers.notices.push(err)
	}
}

func (c *core) dispatchNotices() {
	q := c.handlers.notices
	for {
		items, ended, _ := q.take()
		for _, n := range items {
			c.notify(n)
		}
		switch {
		case len(items) > 0:
		case ended:
			return
		default:
			<-q.wake
		}
	}
}

func (c *core) notify(n any) {
	defer func() {
		if v := recover(); v != nil { // not reported: that would come here again
			c.opts.Logger.Error("client: OnState or OnError panicked", "panic", v)
		}
	}()
	switch n := n.(type) {
	case State:
		c.opts.OnState(n)
	case error:
		c.opts.OnError(n)
	}
}

// stateBox holds what can be asked at any time, from any goroutine.
type stateBox struct {
	mu    sync.Mutex
	state State
	init  protocol.InitializeResult
}

func (b *stateBox) setInit(r protocol.InitializeResult) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.init = r
}

// setState publishes a state. The order of the calls is the order in which OnState hears of them.
func (c *core) setState(s State) {
	s.Since = time.Now()
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	c.box.state = s
	if c.opts.OnState != nil {
		c.handlers.notices.push(s)
	}
}
