package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"agentserver/internal/transport"
)

// DialOutOptions configure [Server.DialOut]. Nil means the defaults.
type DialOutOptions struct {
	// Token is sent as a bearer token. Header goes with the handshake too. Both are secrets.
	Token  string
	Header http.Header
	// HTTPClient replaces the default client.
	HTTPClient *http.Client
	// MinBackoff and MaxBackoff bound the wait before the next attempt; defaults 250 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
}

const (
	// dialTimeout bounds one attempt.
	dialTimeout = 15 * time.Second
	// stableAfter is how long a connection must have lived for the back-off to start anew: a relay that takes and drops connections is not
	// to be hammered.
	stableAfter = 10 * time.Second
)

// DialOut connects to a WebSocket address and serves whoever is there as a client, for a server that nobody can connect to. It connects again
// when the connection ends, until ctx ends (its cause is returned), the server is closed (nil), or the address refuses with 401 or 403.
func (s *Server) DialOut(ctx context.Context, url string, opts *DialOutOptions) error {
	o := opts.withDefaults()
	if !s.begin() {
		return ErrServerClosed
	}
	defer s.serving.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() {
		select {
		case <-s.closing:
			cancel(ErrServerClosed)
		case <-ctx.Done():
		}
	})
	for failures := 0; ; failures++ {
		began := time.Now()
		err := s.dialOnce(ctx, url, &o)
		if refusal, ok := errors.AsType[*transport.HandshakeError](err); ok && (refusal.Status == 401 || refusal.Status == 403) {
			return err
		}
		if time.Since(began) >= stableAfter {
			failures = 0
		}
		s.log.Info("the connection to the relay ended", "error", err)
		select {
		case <-time.After(backoff(o.MinBackoff, o.MaxBackoff, failures)):
		case <-ctx.Done():
		}
		if err := context.Cause(ctx); errors.Is(err, ErrServerClosed) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (s *Server) dialOnce(ctx context.Context, url string, o *DialOutOptions) error {
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	p, err := transport.Dial(dialing, url, transport.DialOptions{PipeOptions: s.opts.pipe(), Header: o.Header, HTTPClient: o.HTTPClient})
	cancel()
	if err != nil {
		return err
	}
	return s.serve(ctx, p, s.log.With("relay", true))
}

// begin counts something that Close waits for.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.serving.Add(1)
	return true
}

func (o *DialOutOptions) withDefaults() DialOutOptions {
	var out DialOutOptions
	if o != nil {
		out = *o
	}
	out.Header = out.Header.Clone()
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	if out.Token != "" {
		out.Header.Set("Authorization", "Bearer "+out.Token)
	}
	if out.MinBackoff <= 0 {
		out.MinBackoff = 250 * time.Millisecond
	}
	if out.MaxBackoff <= 0 {
		out.MaxBackoff = 30 * time.Second
	}
	return out
}

// backoff doubles with every failure, capped; the lower half is certain and the upper half by chance.
func backoff(least, most time.Duration, failures int) time.Duration {
	d := most
	if failures < 20 {
		d = min(least<<failures, most)
	}
	return d/2 + rand.N(d/2+1)
}
