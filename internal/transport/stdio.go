package transport

import (
	"io"
	"sync"
)

// Stdio returns a process's own standard input and output as one stream for [NewLines]. A read of a terminal, or of a pipe that was inherited
// in blocking mode, cannot be interrupted by closing it: so both directions are served by a goroutine each, which Close leaves behind when it
// is stuck. There is one standard input in a process, and it is read to its end or until the process ends. Close does not close the files.
func Stdio(in io.Reader, out io.Writer) io.ReadWriteCloser {
	s := &stdio{closed: make(chan struct{}), reads: make(chan ioResult), want: make(chan struct{}), writes: make(chan []byte), wrote: make(chan ioResult)}
	go s.readLoop(in)
	go s.writeLoop(out)
	return s
}

type stdio struct {
	closed chan struct{}
	once   sync.Once

	want  chan struct{} // Read asks
	reads chan ioResult // readLoop answers
	rest  ioResult

	writes chan []byte
	wrote  chan ioResult
}

type ioResult struct {
	data []byte
	n    int
	err  error
}

// Read implements io.Reader.
func (s *stdio) Read(p []byte) (int, error) {
	if len(s.rest.data) == 0 && s.rest.err == nil {
		select {
		case s.want <- struct{}{}:
		case <-s.closed:
			return 0, io.ErrClosedPipe
		}
		select {
		case s.rest = <-s.reads:
		case <-s.closed:
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(p, s.rest.data)
	s.rest.data = s.rest.data[n:]
	if len(s.rest.data) > 0 || n > 0 {
		return n, nil
	}
	return 0, s.rest.err
}

// readLoop reads only when somebody asks, so that nothing is lost to a stream that is closed.
func (s *stdio) readLoop(in io.Reader) {
	buf := make([]byte, readBuffer)
	for {
		select {
		case <-s.want:
		case <-s.closed:
			return
		}
		n, err := in.Read(buf)
		select {
		case s.reads <- ioResult{data: buf[:n], err: err}:
		case <-s.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// Write implements io.Writer. When the stream is closed meanwhile, the bytes may still be written.
func (s *stdio) Write(p []byte) (int, error) {
	select {
	case s.writes <- append([]byte(nil), p...): // a write that is left behind keeps its bytes
	case <-s.closed:
		return 0, io.ErrClosedPipe
	}
	select {
	case r := <-s.wrote:
		return r.n, r.err
	case <-s.closed:
		return 0, io.ErrClosedPipe
	}
}

func (s *stdio) writeLoop(out io.Writer) {
	for {
		select {
		case p := <-s.writes:
			n, err := out.Write(p)
			select {
			case s.wrote <- ioResult{n: n, err: err}:
			case <-s.closed:
				return
			}
		case <-s.closed:
			return
		}
	}
}

// Close implements io.Closer.
func (s *stdio) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}
