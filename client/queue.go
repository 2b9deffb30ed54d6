package client

import "sync"

// A queue stands between the loop and one consumer. Pushing never blocks: what waits is bounded by a limit, above which the queue ends with a
// [*LagError]. A consumer takes everything at once, so that a burst costs few wake-ups.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	err   error // set once ended; nil with ended is a proper end
	ended bool

	wake  chan struct{} // holds a token while items or ended may have news
	limit int           // negative: none
}

func newQueue[T any](limit int) *queue[T] {
	return &queue[T]{wake: make(chan struct{}, 1), limit: limit}
}

// push adds v and reports false when that ended the queue. After the end it does nothing.
func (q *queue[T]) push(v T) bool {
	q.mu.Lock()
	ok := true
	switch {
	case q.ended:
	case q.limit >= 0 && len(q.items) >= q.limit:
		q.ended, q.err, ok = true, &LagError{q.limit}, false
	default:
		q.items = append(q.items, v)
	}
	first := len(q.items) == 1 || !ok
	q.mu.Unlock()
	if first {
		q.signal()
	}
	return ok
}

// end ends the queue after what it holds. Only the first end counts.
func (q *queue[T]) end(err error) {
	q.mu.Lock()
	if !q.ended {
		q.ended, q.err = true, err
	}
	q.mu.Unlock()
	q.signal()
}

func (q *queue[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns everything that waits. When nothing does, it reports whether the queue has ended, and with what.
func (q *queue[T]) take() (items []T, ended bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, q.items = q.items, nil
	if len(items) > 0 {
		return items, false, nil
	}
	return nil, q.ended, q.err
}

// untake gives back what a consumer took and did not use.
func (q *queue[T]) untake(items []T) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	q.items = append(items[:len(items):len(items)], q.items...)
	q.mu.Unlock()
	q.signal()
}
