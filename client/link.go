package client

import (
	"context"
	"errors"
	"io"
	"sync"

	"agentserver/internal/transport"
)

// A link is one connection: a reader that decodes, a writer, and nothing that anybody else needs to lock. The loop (or, before it, the
// handshake) reads from in and sends to out; stop ends the link, and join waits for its goroutines.
type link struct {
	pipe transport.Pipe
	in   chan message // closed when the reader has ended
	out  chan []byte  // unbuffered: what the writer has not taken is still the sender's

	ctx    context.Context // ends with the link; its cause is why
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	replays sync.Map // ids (int64) of replays whose answers the reader decodes
}

// inBuffer is how many messages may wait between a link's reader and the loop, so that decoding goes on while the loop delivers.
const inBuffer = 512

func newLink(p transport.Pipe) *link {
	ctx, cancel := context.WithCancelCause(context.Background())
	l := &link{pipe: p, in: make(chan message, inBuffer), out: make(chan []byte), ctx: ctx, cancel: cancel}
	l.wg.Go(l.read)
	l.wg.Go(l.write)
	l.wg.Go(func() {
		<-ctx.Done()
		l.pipe.Close(closeCode(l.err())) // unblocks the other two
	})
	return l
}

// stop ends the link because of err. Only the first call counts.
func (l *link) stop(err error) { l.cancel(err) }

// join waits until the link's goroutines have ended, after stop.
func (l *link) join() {
	for range l.in { // the reader may be waiting to hand over
	}
	l.wg.Wait()
}

// err is why the link ended, once it has.
func (l *link) err() error { return context.Cause(l.ctx) }

// closeCode says to the server why the link ends.
func closeCode(err error) (transport.CloseCode, string) {
	if errors.Is(err, ErrClosed) {
		return transport.CloseNormal, "done"
	}
	return transport.CloseDead, "the client gave the connection up"
}

func (l *link) read() {
	defer close(l.in)
	for {
		m, err := l.next()
		if err != nil {
			l.stop(err)
			return
		}
		if m.kind == ignored {
			continue
		}
		select {
		case l.in <- m:
		case <-l.ctx.Done():
			return
		}
	}
}

func (l *link) next() (message, error) {
	data, err := l.pipe.Read(context.Background()) // a context here would cost a registration a message; Close unblocks it
	switch {
	case err == nil:
		return decodeMessage(data, l.isReplay)
	case errors.Is(err, io.EOF):
		return message{}, errors.New("the server closed the connection")
	}
	if big, ok := errors.AsType[*transport.TooLargeError](err); ok {
		return decodeTooLarge(big, l.isReplay)
	}
	return message{}, err
}

func (l *link) isReplay(id int64) bool {
	_, ok := l.replays.LoadAndDelete(id)
	return ok
}

func (l *link) write() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case msg := <-l.out:
			if err := l.pipe.Write(l.ctx, msg); err != nil {
				l.stop(err)
				return
			}
		}
	}
}
