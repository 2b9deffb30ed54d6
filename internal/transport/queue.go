package transport

import (
	"context"
	"sync"
)

// A sendQueue is the one way out of a Conn: texts in the order in which they are written. Whoever finds nobody writing becomes the writer.
type sendQueue struct {
	maxTexts, maxBytes int

	mu      sync.Mutex
	texts   [][]byte
	bytes   int
	writing bool
	err     error         // once set, nothing is taken any more
	changed chan struct{} // closed at the next change of state; nil when nobody waits for one
}

// push queues texts, whatever the queue holds, and reports whether the caller must write them: start, called under the lock, says so too.
func (q *sendQueue) push(start func(), texts ...[]byte) (mustWrite bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return false, q.err
	}
	q.texts = append(q.texts, texts...)
	for _, t := range texts {
		q.bytes += len(t)
	}
	if q.writing {
		return false, nil
	}
	q.writing = true
	if start != nil {
		start()
	}
	return true, nil
}

// take returns what waits and makes room. When nothing does, the caller is no longer the writer. spare is reused.
func (q *sendQueue) take(spare [][]byte) [][]byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake()
	if len(q.texts) == 0 || q.err != nil {
		q.writing = false
		if cap(q.texts) > 64 { // an idle connection keeps nothing of a burst
			q.texts = nil
		}
		return nil
	}
	texts := q.texts
	clear(spare)
	q.texts, q.bytes = spare[:0], 0
	return texts
}

// waitRoom waits until the queue is below its bounds.
func (q *sendQueue) waitRoom(ctx context.Context) error {
	return q.wait(ctx, func() bool { return len(q.texts) < q.maxTexts && q.bytes < q.maxBytes })
}

// waitIdle waits until everything is written.
func (q *sendQueue) waitIdle(ctx context.Context) error {
	return q.wait(ctx, func() bool { return !q.writing })
}

func (q *sendQueue) wait(ctx context.Context, ready func() bool) error {
	for {
		q.mu.Lock()
		if q.err != nil || ready() {
			err := q.err
			q.mu.Unlock()
			return err
		}
		if q.changed == nil {
			q.changed = make(chan struct{})
		}
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fail drops what waits and refuses everything from now on, with err.
func (q *sendQueue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
		q.texts, q.bytes = nil, 0
	}
	q.wake()
}

// failure returns what fail was given first.
func (q *sendQueue) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

func (q *sendQueue) wake() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}
