package wire

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"agentserver/internal/transport"
	"agentserver/protocol"
)

// Handler returns the WebSocket endpoint, to be mounted in a ServeMux. A request that is no WebSocket handshake is answered 426, one without the
// token 401. [http.Server.Shutdown] neither ends its connections nor waits for them: that is what [Server.Close] does.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveWebSocket) }

func (s *Server) serveWebSocket(w http.ResponseWriter, r *http.Request) {
	if !s.authorized(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="agent-server"`)
		http.Error(w, "send the server's token as: Authorization: Bearer TOKEN", http.StatusUnauthorized)
		return
	}
	if err := s.roomForOne(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	p, err := transport.Accept(w, r, transport.AcceptOptions{PipeOptions: s.opts.pipe(), OriginPatterns: s.opts.OriginPatterns})
	if err != nil {
		s.log.Debug("no WebSocket", "remote", r.RemoteAddr, "error", err)
		return
	}
	// The request's context is the HTTP server's affair; a connection lives until it ends or the server is closed.
	if err := s.serve(context.WithoutCancel(r.Context()), p, s.log.With("remote", r.RemoteAddr)); err != nil {
		s.log.Info("a connection ended", "remote", r.RemoteAddr, "error", err)
	}
}

// authorized compares in constant time, whatever the length of what was sent.
func (s *Server) authorized(r *http.Request) bool {
	if s.opts.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(s.opts.Token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// roomForOne refuses early, before the upgrade, what register would refuse.
func (s *Server) roomForOne() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrServerClosed
	case s.opts.MaxConnections >= 0 && len(s.conns) >= s.opts.MaxConnections:
		return ErrTooManyConnections
	}
	return nil
}

// serveHealth answers 200 while turns are taken, and 503 once the server is on its way down. It asks for no token and tells nothing.
func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	s.mu.Lock()
	down := s.draining || s.closed
	s.mu.Unlock()
	if down {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, `{"status":"shutting_down"}`)
		return
	}
	fmt.Fprintf(w, "{\"status\":\"ok\",\"protocolVersion\":%d}\n", protocol.Version)
}

// Mux returns the whole HTTP surface: /healthz, and the WebSocket endpoint everywhere else.
func (s *Server) Mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.serveHealth)
	mux.Handle("/", s.Handler())
	return mux
}

// Listen opens a TCP listener on [host:]port. A bare port means 127.0.0.1, so that nobody else on the network gets in by default; ":port" means
// every interface, as everywhere in Go. Port 0 takes a free one.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if !strings.Contains(address, ":") {
		address = net.JoinHostPort("127.0.0.1", address)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("wire: cannot listen on %s: %w; is another server running there? give another port, or 0 for a free one", address, err)
	}
	return l, nil
}

// ServeListener serves [Server.Mux] on l, which it owns, until the server is closed (then it returns nil), ctx ends, or l fails. Connections live
// on when ctx ends; Close ends them.
func (s *Server) ServeListener(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler:           s.Mux(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          nil,
	}
	if !s.addHTTP(h) {
		l.Close()
		return ErrServerClosed
	}
	defer s.serving.Done()
	stop := context.AfterFunc(ctx, func() { h.Close() })
	defer stop()
	err := h.Serve(l)
	s.mu.Lock()
	delete(s.https, h)
	s.mu.Unlock()
	if errors.Is(err, http.ErrServerClosed) {
		return context.Cause(ctx)
	}
	return fmt.Errorf("wire: the listener on %s failed: %w", l.Addr(), err)
}

func (s *Server) addHTTP(h *http.Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.https[h] = struct{}{}
	s.serving.Add(1)
	return true
}
