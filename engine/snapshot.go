package engine

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"agentserver/engine/eventlog"
	"agentserver/protocol"
	"agentserver/protocol/conversation"
)

// A folder keeps a session's state for `session/snapshot`. It folds when it is asked to, and before the log could lose what was not folded yet, so
// that the state outlives the log's oldest events. A short session that nobody asks about costs nothing.
type folder struct {
	id protocol.SessionID

	mu    sync.Mutex
	state *conversation.State // nil while there is none
	// size estimates what the state takes. It is written under mu, but for what [Runtime.forget] takes back.
	size atomic.Int64
}

// Snapshot returns the state of a session, folded up to its latest event. It holds the whole conversation, also what the log itself no longer has;
// where it does not (see Options.StateBytes), the state's gaps say what is missing.
func (r *Runtime) Snapshot(_ context.Context, p protocol.SessionParams) (protocol.SessionSnapshotResult, error) {
	var none protocol.SessionSnapshotResult
	if errs := p.Check(); errs != nil {
		return none, protocol.InvalidParams(errs...)
	}
	var f *folder
	if err := r.on(p.SessionID, func(s *session) { f = s.folder }); err != nil {
		return none, err
	}
	shot, err := r.fold(f)
	if err != nil {
		return none, protocol.UnknownSession(p.SessionID)
	}
	state, err := json.Marshal(shot)
	if err != nil {
		return none, protocol.AsError(err)
	}
	return protocol.SessionSnapshotResult{SessionID: p.SessionID, Seq: shot.Seq, State: state}, nil
}

// fold brings the state up to the log.
func (r *Runtime) fold(f *folder) (*conversation.Snapshot, error) {
	shot, err := r.catchUp(f)
	if err == nil && r.stateBytes.Load() > r.opts.StateBytes {
		r.dropLargestState()
	}
	return shot, err
}

func (r *Runtime) catchUp(f *folder) (*conversation.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.state
	if state == nil {
		state = conversation.New(f.id)
	}
	page, err := r.store.Replay(f.id, state.Seq()+1, 0)
	if err != nil {
		return nil, err
	}
	f.state = state
	var size int64
	for _, e := range page.Entries {
		env := e.Envelope()
		state.Apply(env)
		size += int64(eventlog.Estimate(env.Event))
	}
	f.size.Add(size)
	r.stateBytes.Add(size)
	return state.Snapshot(), nil
}

// dropLargestState makes room in the states.
func (r *Runtime) dropLargestState() {
	r.mu.Lock()
	var largest *folder
	for _, s := range r.sessions {
		if largest == nil || s.folder.size.Load() > largest.size.Load() {
			largest = s.folder
		}
	}
	r.mu.Unlock()
	if largest == nil {
		return
	}
	largest.mu.Lock()
	defer largest.mu.Unlock()
	largest.state = nil
	r.stateBytes.Add(-largest.size.Swap(0))
}

// foldAhead counts an appended event, and has the log folded when half of what it can hold is new.
func (s *session) foldAhead() {
	limit := s.rt.opts.Log.SessionEvents
	if limit <= 0 {
		limit = eventlog.DefaultSessionEvents
	}
	if s.pending++; s.pending < max(limit/2, 1) {
		return
	}
	s.pending = 0
	s.rt.work.Go(func() { s.rt.fold(s.folder) })
}
