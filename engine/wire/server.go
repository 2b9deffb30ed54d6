package wire

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"agentserver/engine"
	"agentserver/internal/transport"
)

// ErrServerClosed is returned when a server that was closed is asked to serve.
var ErrServerClosed = errors.New("wire: the server is closed")

// ErrTooManyConnections is returned when [Options.MaxConnections] is reached.
var ErrTooManyConnections = errors.New("wire: too many connections; close one, or raise the server's limit")

// A Server serves one runtime to any number of connections. Its methods are safe for concurrent use. It must be ended with [Server.Shutdown] or
// [Server.Close].
type Server struct {
	rt   *engine.Runtime
	opts Options
	log  *slog.Logger

	mu       sync.Mutex // guards what follows
	conns    map[*conn]struct{}
	https    map[*http.Server]struct{}
	closed   bool
	asked    bool // a client asked for the shutdown
	draining bool
	serving  sync.WaitGroup // what Serve and its like run; added to under mu while not closed

	closing chan struct{} // closed when Close begins
	done    chan struct{} // closed when Close is through
	once    sync.Once
}

// New returns a server of rt. It starts nothing. The runtime stays its owner's, but [Server.Shutdown] ends it.
func New(rt *engine.Runtime, opts Options) *Server {
	opts = opts.withDefaults()
	return &Server{
		rt: rt, opts: opts, log: opts.Logger,
		conns: make(map[*conn]struct{}), https: make(map[*http.Server]struct{}),
		closing: make(chan struct{}), done: make(chan struct{}),
	}
}

// Serve serves one connection over p, which it owns from now on, and returns when that has ended: nil when somebody ended it in good order.
// When ctx ends the connection is closed as going away; turns run on.
func (s *Server) Serve(ctx context.Context, p transport.Pipe) error {
	return s.serve(ctx, p, s.log)
}

// ServeStream is [Server.Serve] for any stream that is open already, with one message a line. Close of rwc must unblock its Read and Write.
func (s *Server) ServeStream(ctx context.Context, rwc io.ReadWriteCloser) error {
	return s.Serve(ctx, transport.NewLines(rwc, s.opts.pipe()))
}

func (s *Server) serve(ctx context.Context, p transport.Pipe, log *slog.Logger) error {
	c, err := s.register(ctx, p, log)
	if err != nil {
		code := transport.CloseGoingAway
		if errors.Is(err, ErrTooManyConnections) {
			code = transport.ClosePolicy
		}
		p.Close(code, err.Error())
		return err
	}
	defer s.serving.Done()
	defer s.unregister(c)
	log.Debug("connected")
	err = c.serve()
	log.Debug("disconnected", "error", err)
	return err
}

func (s *Server) register(ctx context.Context, p transport.Pipe, log *slog.Logger) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrServerClosed
	case s.opts.MaxConnections >= 0 && len(s.conns) >= s.opts.MaxConnections:
		return nil, ErrTooManyConnections
	}
	c := s.newConn(ctx, p, log)
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	return c, nil
}

func (s *Server) unregister(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Connections returns the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// requestShutdown is what a client's `shutdown` does, once.
func (s *Server) requestShutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked || s.closed {
		return
	}
	s.asked = true
	s.log.Info("a client asked for the shutdown")
	go func() { // ends with Shutdown, which closes done and so cannot be waited for by it
		if s.opts.OnShutdown != nil {
			s.opts.OnShutdown()
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), s.opts.DrainTimeout)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			s.log.Error("shutdown", "error", err)
		}
	}()
}

// Shutdown ends the runtime and then the server: no new turns, active ones interrupted, agents gone, every event delivered that its connection
// takes in time, connections closed with 1001. When ctx ends first, the runtime drains on by itself and everything else is closed at once. It
// returns the runtime's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	err := s.rt.Shutdown(ctx)
	s.waitIdle(ctx)
	s.Close()
	return err
}

// waitIdle waits until every connection has sent its last event and closed, for a while.
func (s *Server) waitIdle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	s.mu.Lock()
	var open []*conn
	for c := range s.conns {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		select {
		case <-c.rpc.Done():
		case <-ctx.Done():
			return
		}
	}
}

// Close ends the server and leaves the runtime alone: listeners are closed, connections end with 1001, and everything that the server started is
// gone when it returns. It is idempotent.
func (s *Server) Close() error {
	s.once.Do(func() {
		close(s.closing)
		s.mu.Lock()
		s.closed = true
		for c := range s.conns {
			close(c.kick)
		}
		for h := range s.https {
			h.Close()
		}
		s.mu.Unlock()
		s.serving.Wait()
		close(s.done)
	})
	<-s.done
	return nil
}

// Done is closed when the server has been shut down or closed, also by a client's `shutdown`.
func (s *Server) Done() <-chan struct{} { return s.done }
