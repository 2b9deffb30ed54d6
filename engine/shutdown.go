package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"agentserver/protocol"
)

// ErrWedged is returned by [Runtime.Shutdown] when a driver did not let go of its agent in time.
var ErrWedged = errors.New("engine: a driver did not return; its goroutines, and maybe its agent, are left behind")

// joinTimeout is how long Shutdown waits for drivers to return once every turn and session has ended.
const joinTimeout = 2 * time.Second

// Shutdown ends the runtime: no new turns are taken, active turns are interrupted and end, every agent goes, and each session gets its
// session.ended. Then followers read what is left and get [eventlog.ErrClosed]. It is bounded by DrainTimeout, after which agents are killed, and
// may be called several times and concurrently; a ctx that ends first only ends the wait. It returns [ErrWedged] when a driver hangs.
func (r *Runtime) Shutdown(ctx context.Context) error {
	r.shutdown.Do(func() { go r.end() })
	select {
	case <-r.ended:
		return r.endErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Ended is closed when a Shutdown is through.
func (r *Runtime) Ended() <-chan struct{} { return r.ended }

// end is what Shutdown does. Sessions have most of DrainTimeout to go by themselves; then agents are killed; then nothing is waited for.
func (r *Runtime) end() {
	defer close(r.ended)
	defer r.store.Close()
	r.mu.Lock()
	r.down = true
	all := slices.Collect(maps.Values(r.sessions))
	r.mu.Unlock()

	drain := r.opts.DrainTimeout
	r.tell(all, (*session).shut)
	if !waitSessions(all, drain*7/10) {
		r.tell(all, (*session).force)
	}
	if !waitSessions(all, drain*3/10) {
		r.tell(all, (*session).giveUp)
		waitSessions(all, joinTimeout)
	}
	joined := make(chan struct{})
	go func() { r.work.Wait(); close(joined) }()
	select {
	case <-joined:
	case <-time.After(joinTimeout):
		r.log.Error("a driver does not return from a call; it is left behind")
		r.endErr = ErrWedged
	}
}

func (r *Runtime) tell(all []*session, f func(*session)) {
	for _, s := range all {
		s.post(func() { f(s) })
	}
}

func waitSessions(all []*session, d time.Duration) bool {
	gone := make([]<-chan struct{}, len(all))
	for i, s := range all {
		gone[i] = s.gone
	}
	return waitAll(context.Background(), gone, d)
}

// shut begins the end of a session.
func (s *session) shut() {
	if s.closing != "" {
		return // a close is in flight
	}
	s.closing = protocol.EndShutdown
	t := s.turn
	if t == nil {
		s.leave()
		return
	}
	if t.cancel == nil {
		t.cancel = &cancelling{}
		if t.phase != admitted {
			s.stopTurn(t)
		}
	}
	s.begin(t) // where nobody has, so that the turn gets its end
}

// force ends a session that did not go by itself: its agent is killed, its turn ends.
func (s *session) force() {
	if l := s.link; l != nil {
		s.kill(l)
		s.detach()
	}
	for _, v := range s.leaving {
		if v.kill != nil {
			v.kill()
		}
	}
	if t := s.turn; t != nil {
		s.endTurn(t, cancelled())
	}
}

// giveUp ends a session whose agent does not go.
func (s *session) giveUp() {
	if s.turn != nil {
		s.endTurn(s.turn, cancelled())
	}
	s.finish()
}
