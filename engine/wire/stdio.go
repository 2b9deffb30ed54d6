package wire

import (
	"context"
	"errors"
	"io"
	"sync"

	"agentserver/internal/transport"
)

// ServeStdio serves the one connection of a child process: one message a line, requests from in, the wire and nothing else to out. It returns when
// the connection has ended.
//
// The end of in says that the parent is done: the server shuts down, runtime and all, and what is still to be said (the ends of the turns that
// ran) goes to out. Set keepOnEOF when the server has other connections, which shall not end with this one.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, keepOnEOF bool) error {
	lines := transport.NewLines(transport.Stdio(in, out), s.opts.pipe())
	if keepOnEOF {
		return s.Serve(ctx, lines)
	}
	p := &lastingPipe{Pipe: lines, eof: make(chan struct{}), closed: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-p.eof:
			s.log.Debug("stdin ended; shutting down")
			ctx, cancel := context.WithTimeout(ctx, s.opts.DrainTimeout)
			defer cancel()
			if err := s.Shutdown(ctx); err != nil {
				s.log.Error("shutdown", "error", err)
			}
		case <-p.closed:
		}
	})
	err := s.Serve(ctx, p)
	wg.Wait()
	return err
}

// A lastingPipe outlives the end of its input: Read tells eof of it and then waits for Close, so that what is left to write gets out.
type lastingPipe struct {
	transport.Pipe
	eof, closed chan struct{}
	ending      sync.Once
	closing     sync.Once
}

// Read implements [transport.Pipe].
func (p *lastingPipe) Read(ctx context.Context) ([]byte, error) {
	text, err := p.Pipe.Read(ctx)
	if !errors.Is(err, io.EOF) {
		return text, err
	}
	p.ending.Do(func() { close(p.eof) })
	select {
	case <-p.closed:
	case <-ctx.Done():
	}
	return nil, &transport.CloseError{Code: transport.CloseNormal, Reason: "the input ended"}
}

// Close implements [transport.Pipe].
func (p *lastingPipe) Close(code transport.CloseCode, reason string) error {
	err := p.Pipe.Close(code, reason)
	p.closing.Do(func() { close(p.closed) })
	return err
}
