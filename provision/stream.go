package provision

import (
	"context"
	"crypto/sha512"
	"io"
	"sync"
)

// fetched is what came of reading a download.
type fetched struct {
	n         int64
	integrity string // of the n bytes
	err       error
}

// streamBlock and streamBlocks bound how far the download may run ahead of the extractor, in bytes and blocks.
const (
	streamBlock  = 256 << 10
	streamBlocks = 64
)

// A stream reads and hashes a download in its own goroutine, so that the network, the hash and the decompression overlap. It is the
// extractor's reader; finish joins the goroutine.
type stream struct {
	blocks chan []byte // closed when the download has ended
	free   chan []byte // blocks that can be filled again
	cancel context.CancelFunc
	ctx    context.Context // ends when nobody wants blocks any more
	wg     sync.WaitGroup
	result fetched // the goroutine's, until wg is done
	full   []byte  // the block being read
	rest   []byte  // what is left of it
}

func startStream(d *download, m *meter) *stream {
	s := &stream{blocks: make(chan []byte, streamBlocks), free: make(chan []byte, streamBlocks)}
	s.ctx, s.cancel = context.WithCancel(d.ctx)
	d.ctx = s.ctx
	s.wg.Go(func() { s.pump(d, m) })
	return s
}

func (s *stream) pump(d *download, m *meter) {
	defer close(s.blocks)
	hash := sha512.New()
	for {
		block, n, err := s.read(d)
		hash.Write(block[:n])
		m.done(d.off)
		if n > 0 {
			select {
			case s.blocks <- block[:n]:
			case <-s.ctx.Done():
				err = context.Cause(s.ctx)
			}
		}
		if err != nil {
			s.result = fetched{n: d.off, integrity: integrityOf(hash.Sum(nil))}
			if err != io.EOF {
				s.result.err = err
			}
			return
		}
	}
}

// read reads until a block is full, so that the channel is not the cost.
func (s *stream) read(d *download) (block []byte, n int, err error) {
	select {
	case block = <-s.free:
		block = block[:streamBlock]
	default:
		block = make([]byte, streamBlock)
	}
	n, err = fill(d, block)
	return block, n, err
}

// Read serves the extractor.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 && !s.next() {
		return 0, io.ErrUnexpectedEOF // an archive that is complete is never read to here
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stream) next() bool {
	if s.full != nil {
		select {
		case s.free <- s.full:
		default: // the collector takes it
		}
		s.full = nil
	}
	block, ok := <-s.blocks
	s.full, s.rest = block, block
	return ok
}

// finish reads the download to its end, unless abort says that its end does not matter, and returns what it was.
func (s *stream) finish(abort error) fetched {
	if abort == nil {
		for s.next() {
		}
	}
	s.cancel()
	s.wg.Wait()
	return s.result
}
