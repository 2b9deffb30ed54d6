package transport

import (
	"bytes"
	"context"
	"sync"
)

// memoryQueue is how many texts a memory pipe holds each way before Write waits.
const memoryQueue = 64

// Memory returns the two ends of a pipe inside one process. Closing either closes both; what was written before can still be read. It starts
// no goroutine and works inside a testing/synctest bubble. A Write waits for room as long as it takes.
func Memory() (a, b Pipe) {
	l := &memoryLink{done: make(chan struct{})}
	ab, ba := make(chan []byte, memoryQueue), make(chan []byte, memoryQueue)
	return &memoryPipe{l, ba, ab}, &memoryPipe{l, ab, ba}
}

// A memoryLink is what the two ends share.
type memoryLink struct {
	once  sync.Once
	done  chan struct{}
	cause error // readable once done is closed
}

func (l *memoryLink) end(err error) {
	l.once.Do(func() {
		l.cause = err
		close(l.done)
	})
}

type memoryPipe struct {
	*memoryLink
	in  <-chan []byte
	out chan<- []byte
}

// Read implements Pipe.
func (p *memoryPipe) Read(ctx context.Context) ([]byte, error) {
	for {
		select {
		case text := <-p.in:
			if text = trim(text); len(text) > 0 {
				return text, nil
			}
			continue
		default:
		}
		select {
		case text := <-p.in:
			if text = trim(text); len(text) > 0 {
				return text, nil
			}
		case <-p.done:
			if len(p.in) == 0 {
				return nil, p.cause
			}
		case <-ctx.Done():
			p.end(&CloseError{Code: CloseGoingAway, Err: context.Cause(ctx)})
			return nil, p.cause
		}
	}
}

// Write implements Pipe.
func (p *memoryPipe) Write(ctx context.Context, texts ...[]byte) error {
	for _, t := range texts {
		select {
		case <-p.done:
			return p.cause
		default:
		}
		select {
		case p.out <- bytes.Clone(oneLine(t)):
		case <-p.done:
			return p.cause
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Close implements Pipe.
func (p *memoryPipe) Close(code CloseCode, reason string) error {
	p.end(&CloseError{Code: code, Reason: reason})
	return nil
}
