package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxLinger bounds how long after the exit a grandchild that keeps writing can keep the stream open.
const maxLinger = 2 * time.Second

// errDiscarded ends a stream that nobody read while Close waited for the child.
var errDiscarded = errors.New("process: the rest of the output was discarded, for nobody read it while the process was being closed; keep reading until io.EOF")

// An output is our end of one of the child's output pipes. The end of the file alone cannot end the stream, for a grandchild may hold the
// other end open for ever. So after the child's exit the stream goes on for as long as there is something that the child can have written, and
// then until a silence of grace.
type output struct {
	file    *os.File
	raw     syscall.RawConn
	grace   time.Duration // 0: only the end of the file, or finish, ends the stream
	flushed chan struct{} // closed when all that the child wrote has been taken by a reader who has come back for more

	state    sync.Mutex // guards the next two, and the file's deadline
	exited   bool
	finished bool

	mu       sync.Mutex // held by a Read from begin to end; guards the rest
	counted  bool       // owed and lingerTo are set
	owed     int        // bytes that were in the pipe after the exit: the child's last ones are among them
	lingerTo time.Time
	isFlush  bool
	lastRead time.Time
	kept     []byte // what was in the pipe when finish closed it
	err      error  // ends the stream, after kept
	shut     bool
}

func newOutput(file *os.File, grace time.Duration) *output {
	o := &output{file: file, grace: grace, flushed: make(chan struct{}), lastRead: time.Now()}
	o.raw, _ = file.SyscallConn() // fails for a nil file only
	return o
}

// Read returns what is there, or waits. It ends with io.EOF.
func (o *output) Read(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		if !o.arm() {
			return o.fromKept(b)
		}
		n, err := o.file.Read(b)
		if n > 0 {
			o.owed -= min(n, o.owed)
			o.lastRead = time.Now()
			return n, nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !o.silent() {
			continue // poked: the child has exited, or finish has come
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
			o.end(err)
			continue
		}
		o.end(io.EOF)
	}
}

// arm prepares for one read of the file: it sets the deadline that the state asks for. It returns false if the file is not to be read any more.
func (o *output) arm() bool {
	o.state.Lock()
	defer o.state.Unlock()
	if o.finished {
		o.close()
	}
	if o.err != nil {
		return false
	}
	if !o.exited {
		return true
	}
	if !o.counted {
		o.counted, o.owed, o.lingerTo = true, o.waiting(), time.Now().Add(maxLinger)
	}
	if o.owed > 0 {
		_ = o.file.SetReadDeadline(time.Time{}) // it is there: no read can block
		return true
	}
	o.flush()
	switch {
	case o.grace == 0:
		_ = o.file.SetReadDeadline(time.Time{})
	case time.Now().After(o.lingerTo):
		o.err = io.EOF
		return false
	default:
		_ = o.file.SetReadDeadline(time.Now().Add(o.grace))
	}
	return true
}

// silent reports whether a deadline that has passed was the one that arm set for the silence after the exit.
func (o *output) silent() bool {
	o.state.Lock()
	defer o.state.Unlock()
	return o.counted && !o.finished
}

func (o *output) end(err error) {
	o.err = err
	o.flush()
}

func (o *output) flush() {
	if !o.isFlush {
		o.isFlush = true
		close(o.flushed)
	}
}

func (o *output) fromKept(b []byte) (int, error) {
	if len(o.kept) == 0 {
		o.kept = nil
		return 0, o.err
	}
	n := copy(b, o.kept)
	o.kept = o.kept[n:]
	return n, nil
}

// childExited tells that the child writes no more. A reader that waits is woken to take that in.
func (o *output) childExited() {
	o.state.Lock()
	defer o.state.Unlock()
	o.exited = true
	_ = o.file.SetReadDeadline(time.Unix(1, 0))
}

// finish closes the pipe. What is in it is kept for the reader. A reader that waits gets that and the end.
func (o *output) finish() {
	o.state.Lock()
	o.finished = true
	_ = o.file.SetReadDeadline(time.Unix(1, 0))
	o.state.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.close()
}

// close takes what is in the pipe, which is bounded by the pipe's capacity, and closes it. mu is held.
func (o *output) close() {
	if o.shut {
		return
	}
	o.shut = true
	if o.err == nil {
		o.kept = o.take(o.waiting())
		o.err = io.EOF
	}
	o.flush()
	_ = o.file.Close()
}

// discardIfAbandoned empties the pipe if there is something in it that nobody has read for quiet: a child that is to end must not
// be kept from it by a full pipe. The stream is over then, and it returns true.
func (o *output) discardIfAbandoned(quiet time.Duration) bool {
	if !o.mu.TryLock() {
		return false // somebody is reading
	}
	defer o.mu.Unlock()
	if o.shut || o.err != errDiscarded && (o.err != nil || time.Since(o.lastRead) < quiet) {
		return false
	}
	n := o.waiting()
	if n > 0 {
		o.end(errDiscarded)
		o.take(n)
	}
	return o.err == errDiscarded
}

// waiting returns how many bytes are in the pipe.
func (o *output) waiting() int {
	n := 0
	_ = o.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), ioctlInQueue) })
	return max(n, 0)
}

// take reads up to n bytes without waiting.
func (o *output) take(n int) []byte {
	b := make([]byte, n)
	got := 0
	_ = o.raw.Control(func(fd uintptr) {
		for got < n {
			m, err := unix.Read(int(fd), b[got:])
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || m <= 0 {
				return
			}
			got += m
		}
	})
	return b[:got]
}
