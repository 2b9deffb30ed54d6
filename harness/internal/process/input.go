package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// writeChunk is how much is offered to the pipe at once. A child that takes a chunk within the stall time is alive.
const writeChunk = 64 << 10

var (
	// ErrStdinClosed means that the child's stdin is closed, by us or because the child has exited or closed it. Read the output to its end
	// and see ExitState.
	ErrStdinClosed = errors.New("the process takes no more input: it has exited or its stdin was closed; read its output to the end and see its exit state")
	// ErrStdinStalled means that the child has not taken a byte for the stall time. It hangs: close it.
	ErrStdinStalled = errors.New("the process does not read its stdin: it hangs or is stopped; interrupt it, or close it and start it again")
)

// WriteError is a line that was not, or not wholly, handed to the child.
type WriteError struct {
	// Begun tells that the child was given the beginning of the line. The rest goes out before the next line, so the child may still get it.
	Begun bool
	// Err is the cause: a context's, [ErrStdinClosed], [ErrStdinStalled], or the system's.
	Err error
}

// Error includes the cause.
func (e *WriteError) Error() string {
	if e.Begun {
		return fmt.Sprintf("process: a line was sent in part only: %v", e.Err)
	}
	return fmt.Sprintf("process: a line was not sent: %v", e.Err)
}

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// An input is our end of the child's stdin.
type input struct {
	file      *os.File
	stall     time.Duration
	closed    chan struct{}
	closeOnce sync.Once

	turn chan struct{} // holds one token: the right to write, and to use what follows
	rest []byte        // of a line that was begun
	buf  []byte        // for short lines and their newline
}

func newInput(file *os.File, stall time.Duration) *input {
	in := &input{file: file, stall: stall, closed: make(chan struct{}), turn: make(chan struct{}, 1)}
	in.turn <- struct{}{}
	return in
}

func (in *input) close() {
	in.closeOnce.Do(func() {
		close(in.closed)
		_ = in.file.Close() // ends a write that is under way
	})
}

func (in *input) writeLine(ctx context.Context, line []byte) error {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if bytes.IndexByte(line, '\n') >= 0 {
		return &WriteError{Err: errors.New("it holds a newline, which would make it two lines; encode it as one JSON value")}
	}
	select { // first, for the next one picks at random
	case <-in.closed:
		return &WriteError{Err: ErrStdinClosed}
	default:
	}
	select {
	case <-in.closed:
		return &WriteError{Err: ErrStdinClosed}
	case <-ctx.Done():
		return &WriteError{Err: context.Cause(ctx)}
	case <-in.turn:
		defer func() { in.turn <- struct{}{} }()
	}
	stop := context.AfterFunc(ctx, func() { _ = in.file.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := in.writeRest(ctx); err != nil {
		return err
	}
	return in.writeFresh(ctx, line)
}

// writeRest completes the line that an earlier call began.
func (in *input) writeRest(ctx context.Context) error {
	n, err := in.write(ctx, in.rest)
	in.rest = in.rest[n:]
	if err != nil {
		return &WriteError{Err: err}
	}
	in.rest = nil
	return nil
}

func (in *input) writeFresh(ctx context.Context, line []byte) error {
	head := line[:max(0, len(line)-writeChunk)] // offered as it is; the rest goes with its newline
	in.buf = append(append(in.buf[:0], line[len(head):]...), '\n')
	n, err := in.write(ctx, head)
	if err == nil {
		var m int
		m, err = in.write(ctx, in.buf)
		n += m
	}
	if err == nil {
		return nil
	}
	if n > 0 {
		in.rest = append(bytes.Clone(line[min(n, len(line)):]), '\n')
	}
	return &WriteError{Begun: n > 0, Err: err}
}

// write writes b, chunk by chunk, for as long as the child takes them.
func (in *input) write(ctx context.Context, b []byte) (written int, err error) {
	progress := time.Now()
	for written < len(b) {
		_ = in.file.SetWriteDeadline(progress.Add(in.stall))
		if ctx.Err() != nil { // after the deadline: the one that the end of ctx sets must not be overwritten unseen
			return written, context.Cause(ctx)
		}
		n, err := in.file.Write(b[written:min(len(b), written+writeChunk)])
		written += n
		if n > 0 {
			progress = time.Now()
		}
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return written, ErrStdinClosed // EPIPE, or closed by us
		case ctx.Err() != nil:
			return written, context.Cause(ctx)
		case time.Since(progress) >= in.stall:
			return written, ErrStdinStalled
		default: // the late deadline of an earlier caller's context: go on
		}
	}
	return written, nil
}
