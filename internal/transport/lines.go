package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"
)

// readBuffer is how much a line pipe reads at once.
const readBuffer = 32 << 10

// maxPart is the size that the parts of a long line grow to.
const maxPart = 4 << 20

// A linePipe is a Pipe of NDJSON over a byte stream.
type linePipe struct {
	rwc  io.ReadWriteCloser
	r    *bufio.Reader
	out  *outlet
	o    PipeOptions
	done chan struct{}

	mu    sync.Mutex
	cause error

	closing sync.Once
}

// NewLines returns a pipe of NDJSON over a byte stream: a child's stdio, our own, a socket. Closing rwc must unblock its Read and Write; see
// [Stdio] for files that do not. Lines may have any length up to MaxMessageBytes; a longer one is skipped and reported as a
// [*TooLargeError]. The ping and close options have no meaning here.
func NewLines(rwc io.ReadWriteCloser, o PipeOptions) Pipe {
	p := &linePipe{rwc: rwc, r: bufio.NewReaderSize(rwc, readBuffer), o: o.withDefaults(), done: make(chan struct{})}
	p.out = newOutlet(rwc, p.o.WriteTimeout, p.done, func() {
		p.end(&CloseError{Code: CloseStalled, Reason: "the peer took nothing for " + p.o.WriteTimeout.String()})
	})
	return p
}

// Read implements Pipe.
func (p *linePipe) Read(ctx context.Context) ([]byte, error) {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { p.end(&CloseError{Code: CloseGoingAway, Err: context.Cause(ctx)}) })
		defer stop()
	}
	for {
		line, err := p.line()
		if _, tooLarge := errors.AsType[*TooLargeError](err); tooLarge {
			return nil, err
		}
		if line = trim(line); len(line) > 0 {
			return line, nil
		}
		if err != nil {
			return nil, p.readError(err)
		}
	}
}

// line reads up to the next line break or the end of the stream, in a buffer of its own.
func (p *linePipe) line() ([]byte, error) {
	frag, err := p.r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		if len(frag) > p.o.MaxMessageBytes+1 {
			return nil, &TooLargeError{len(frag), p.o.MaxMessageBytes, head(frag)}
		}
		return append([]byte(nil), frag...), err
	}
	var long longLine
	for errors.Is(err, bufio.ErrBufferFull) {
		long.add(frag, p.o.MaxMessageBytes)
		frag, err = p.r.ReadSlice('\n')
	}
	long.add(frag, p.o.MaxMessageBytes)
	if long.size > p.o.MaxMessageBytes+1 { // the line break does not count
		return nil, &TooLargeError{long.size, p.o.MaxMessageBytes, long.head}
	}
	return long.join(), err
}

func (p *linePipe) readError(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == nil {
		p.cause = err
		if !errors.Is(err, io.EOF) {
			p.cause = &CloseError{Code: CloseAbnormal, Err: err}
		}
	}
	return p.cause
}

// Write implements Pipe.
func (p *linePipe) Write(ctx context.Context, texts ...[]byte) error {
	if err := p.err(); err != nil && !errors.Is(err, io.EOF) { // the peer may have closed one direction only
		return err
	}
	err := p.out.writeUnits(ctx, func(b *batch) {
		for _, t := range texts {
			b.append(oneLine(t))
			b.append([]byte{'\n'})
		}
	})
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return p.end(&CloseError{Code: CloseAbnormal, Err: err})
}

// Close implements Pipe.
func (p *linePipe) Close(code CloseCode, reason string) error {
	p.end(&CloseError{Code: code, Reason: reason})
	return nil
}

// end closes the stream and returns why it ended: err, or what came first.
func (p *linePipe) end(err error) error {
	p.mu.Lock()
	if p.cause == nil {
		p.cause = err
	}
	p.mu.Unlock()
	p.closing.Do(func() {
		close(p.done)
		p.rwc.Close()
	})
	return p.err()
}

func (p *linePipe) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

// A longLine gathers a line that does not fit the read buffer, in parts of growing size, so that it is copied once and not at each growth.
type longLine struct {
	parts [][]byte
	size  int
	head  []byte // set when the line is too long and its parts are dropped
}

func (l *longLine) add(frag []byte, limit int) {
	l.size += len(frag)
	if l.size > limit+1 {
		if l.head == nil {
			l.head = head(firstPart(l.parts, frag))
		}
		l.parts = nil
		return
	}
	for len(frag) > 0 {
		last := len(l.parts) - 1
		if last < 0 || len(l.parts[last]) == cap(l.parts[last]) {
			size := 2 * readBuffer
			if last >= 0 {
				size = min(2*cap(l.parts[last]), maxPart)
			}
			l.parts = append(l.parts, make([]byte, 0, size))
			last++
		}
		part := l.parts[last]
		n := min(cap(part)-len(part), len(frag))
		l.parts[last] = append(part, frag[:n]...)
		frag = frag[n:]
	}
}

func (l *longLine) join() []byte {
	out := make([]byte, 0, l.size)
	for _, p := range l.parts {
		out = append(out, p...)
	}
	return out
}

func head(text []byte) []byte { return append([]byte(nil), text[:min(len(text), 256)]...) }

func firstPart(parts [][]byte, frag []byte) []byte {
	if len(parts) > 0 {
		return parts[0]
	}
	return frag
}
