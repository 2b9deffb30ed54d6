package provision

import (
	"io"
	"sync"
)

// writerBlock and writerBlocks bound what an aheadWriter holds: 4 MiB.
const (
	writerBlock  = 1 << 20
	writerBlocks = 4
)

// An aheadWriter writes a file in a goroutine of its own, so that decompressing goes on while the disk is busy. Close joins the goroutine and
// returns the first error. It is for one goroutine and one file.
type aheadWriter struct {
	f      io.WriteCloser
	full   chan []byte // blocks to write; closed by Close
	free   chan []byte
	wg     sync.WaitGroup
	failed chan struct{} // closed when err is set
	err    error
}

func newAheadWriter(f io.WriteCloser) *aheadWriter {
	w := &aheadWriter{f: f, full: make(chan []byte, writerBlocks), free: make(chan []byte, writerBlocks), failed: make(chan struct{})}
	for range writerBlocks {
		w.free <- nil
	}
	w.wg.Go(w.drain)
	return w
}

func (w *aheadWriter) drain() {
	started := newWriteback(w.f)
	for block := range w.full {
		if w.err == nil {
			if _, err := w.f.Write(block); err != nil {
				w.err = err
				close(w.failed)
			}
			started.wrote(len(block))
		}
		w.free <- block
	}
}

// ReadFrom copies r to the file, block by block.
func (w *aheadWriter) ReadFrom(r io.Reader) (int64, error) {
	var total int64
	for {
		block := <-w.free
		select {
		case <-w.failed:
			w.free <- block
			return total, w.err
		default:
		}
		if block == nil {
			block = make([]byte, writerBlock)
		}
		n, err := fill(r, block[:writerBlock])
		total += int64(n)
		w.full <- block[:n]
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// fill reads until p is full or r has no more, and returns r's own error.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var got int
		got, err = r.Read(p[n:])
		n += got
	}
	return n, err
}

// Close waits until everything is written, and closes the file.
func (w *aheadWriter) Close() error {
	close(w.full)
	w.wg.Wait()
	if err := w.f.Close(); w.err == nil {
		return err
	}
	return w.err
}
