package fakemodel

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// errDrop makes the server cut the connection.
var errDrop = errors.New("fakemodel: connection dropped as scripted")

// A stream writes a reply in one dialect. Calls come from one goroutine in the order begin, {open, delta…, close}, end.
type stream interface {
	// begin sends the head of the reply.
	begin(u Usage)
	// open starts a block.
	open(st step)
	// delta adds text to the open block, partBreak starts the next part of a thinking block.
	delta(text string)
	partBreak()
	// close ends the open block.
	close()
	// end sends the tail of the reply.
	end(st stop, u Usage)
	// fail sends an error as the last event.
	fail(f failure)
}

// A sink carries the bytes of a reply. After the first failed write it swallows the rest.
type sink struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	streaming bool
	header    http.Header
	call      int
	err       error
}

// start sends the header of an event stream; without streaming it waits for finish.
func (s *sink) start() {
	for k, v := range s.header {
		s.w.Header()[http.CanonicalHeaderKey(k)] = v
	}
	if s.streaming {
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache")
		s.w.WriteHeader(http.StatusOK)
	}
}

// event writes one server-sent event; name may be "".
func (s *sink) event(name string, data any) {
	if name != "" {
		s.write("event: " + name + "\n")
	}
	s.write("data: " + toJSON(data) + "\n\n")
	s.flush()
}

// write writes raw stream text.
func (s *sink) write(text string) {
	if s.err == nil && s.streaming {
		_, s.err = s.w.Write([]byte(text))
	}
}

func (s *sink) flush() {
	if s.err == nil && s.streaming {
		s.err = s.rc.Flush()
	}
}

// finish writes the whole reply of a request that did not ask for a stream.
func (s *sink) finish(body any) {
	if s.err == nil && !s.streaming {
		s.err = writeJSON(s.w, http.StatusOK, body)
	}
}

// A player plays a planned reply on a stream: it owns delays, gates and the token count.
type player struct {
	server   *Server
	sink     *sink
	out      stream
	delay    time.Duration
	usage    Usage
	complete bool
	streamed int // tokens so far
}

// play plays rep and returns nil when all of it was sent.
func (p *player) play(ctx context.Context, rep reply) error {
	p.usage = rep.usage
	p.sink.start()
	p.out.begin(rep.usage)
	if rep.fail != nil {
		p.out.fail(*rep.fail)
		return p.sink.err
	}
	for _, st := range rep.steps {
		if err := p.step(ctx, st); err != nil {
			return err
		}
	}
	return p.ending(ctx, rep)
}

// ending plays how the reply stops.
func (p *player) ending(ctx context.Context, rep reply) error {
	switch rep.stop {
	case stopHang:
		<-ctx.Done()
		return ctx.Err()
	case stopDrop:
		return errDrop
	case stopStreamError:
		p.out.fail(namedFailures["overloaded"])
		return p.sink.err
	}
	if p.usage.Output == 0 {
		p.usage.Output = max(p.streamed, 1)
	}
	p.out.end(rep.stop, p.usage)
	p.complete = p.sink.err == nil
	return p.sink.err
}

// step plays one block.
func (p *player) step(ctx context.Context, st step) error {
	p.out.open(st)
	size := 0
	for _, pc := range st.pieces {
		size += len(pc.text)
		if err := p.piece(ctx, pc); err != nil {
			return err
		}
	}
	p.streamed += (size + 3) / 4
	p.out.close()
	return p.sink.err
}

// piece plays one piece of a block.
func (p *player) piece(ctx context.Context, pc piece) error {
	switch {
	case pc.gate != "":
		return p.server.hold(ctx, pc.gate)
	case pc.hang:
		<-ctx.Done()
		return ctx.Err()
	case pc.part:
		p.out.partBreak()
		return nil
	}
	for chunk := range chunks(pc.text, pc.chunk) {
		p.out.delta(chunk)
		if err := p.pause(ctx, pc.delay); err != nil {
			return err
		}
	}
	return nil
}

// pause waits between deltas, and notices that the client is gone.
func (p *player) pause(ctx context.Context, d time.Duration) error {
	if p.sink.err != nil {
		return p.sink.err
	}
	d = max(d, p.delay)
	if d == 0 || !p.sink.streaming {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
