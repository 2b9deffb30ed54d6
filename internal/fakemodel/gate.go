package fakemodel

import "context"

// A gate holds replies until a test opens it.
type gate struct {
	open chan struct{} // closed by Release
	held int           // replies that wait now
}

// gate returns the gate called name. The caller holds mu.
func (s *Server) gate(name string) *gate {
	g := s.gates[name]
	if g == nil {
		g = &gate{open: make(chan struct{})}
		s.gates[name] = g
	}
	return g
}

// Release opens the gate called name for the replies that wait there and for all that come later. It is idempotent and
// may come before any reply reaches the gate.
func (s *Server) Release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gate(name)
	select {
	case <-g.open:
	default:
		close(g.open)
	}
	s.notify()
}

// WaitGate returns as soon as a reply waits at the gate called name: everything before it has been sent then.
func (s *Server) WaitGate(ctx context.Context, name string) error {
	for {
		changed := s.changes()
		if s.heldAt(name) > 0 {
			return nil
		}
		if err := s.wait(ctx, changed, "a reply at gate "+name); err != nil {
			return err
		}
	}
}

func (s *Server) heldAt(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate(name).held
}

// hold waits at a gate until it is open or ctx ends.
func (s *Server) hold(ctx context.Context, name string) error {
	open := s.arrive(name, 1)
	defer s.arrive(name, -1)
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// arrive counts a reply into a gate or out of it.
func (s *Server) arrive(name string, n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gate(name)
	g.held += n
	s.notify()
	return g.open
}
