package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"agentserver/engine/eventlog"
	"agentserver/protocol"
	"agentserver/protocol/conversation"
)

// A folder keeps a session's state for `session/snapshot`. A short session that nobody asks about has none. The state is made when somebody asks,
// or before the log could lose what is not in it; from then on it follows every event, so that it outlives the log's oldest ones.
type folder struct {
	id   protocol.SessionID
	kept atomic.Bool // there is a state

	mu    sync.Mutex
	state *conversation.State
	size  int64 // an estimate of what the state takes
	over  bool  // the session has ended: there will be no state any more

	waiting int // events since the session began, while there is no state; the actor's
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
	if err := r.catchUpLocked(f); err != nil {
		return nil, err
	}
	return f.state.Snapshot(), nil
}

// catchUpLocked folds what the log holds beyond the state.
func (r *Runtime) catchUpLocked(f *folder) error {
	if f.over {
		return eventlog.ErrUnknown // the log is another session's of the same id
	}
	state := f.state
	if state == nil {
		state = conversation.New(f.id)
	}
	page, err := r.store.Replay(f.id, state.Seq()+1, 0)
	if err != nil {
		return err
	}
	f.state = state
	f.kept.Store(true)
	for _, e := range page.Entries {
		r.apply(f, e.Envelope())
	}
	return nil
}

// apply folds one event in. A fold that panics costs the state, and nothing else.
func (r *Runtime) apply(f *folder, env protocol.Envelope) {
	defer func() {
		if v := recover(); v != nil {
			r.log.Error("folding an event panicked", "session", string(f.id), "seq", env.Seq, "panic", fmt.Sprint(v))
			f.state = conversation.New(f.id)
		}
	}()
	f.state.Apply(env)
	size := int64(eventlog.Estimate(env.Event))
	if _, ok := env.Event.(*protocol.MessagePartDelta); ok {
		size -= eventlog.EstimateBase // it becomes part of another
	}
	f.size += size
	r.stateBytes.Add(size)
}

// drop lets the state go.
func (r *Runtime) drop(f *folder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.stateBytes.Add(-f.size)
	f.state, f.size = nil, 0
	f.kept.Store(false)
}

// retire lets the state of a session that has ended go for good: nobody would find it to drop it later.
func (r *Runtime) retire(f *folder) {
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
	r.drop(f)
}

// dropLargestState makes room for the others.
func (r *Runtime) dropLargestState() {
	r.mu.Lock()
	folders := make([]*folder, 0, len(r.sessions))
	for _, s := range r.sessions {
		folders = append(folders, s.folder)
	}
	r.mu.Unlock()
	var largest *folder
	var most int64
	for _, f := range folders {
		f.mu.Lock()
		if f.size > most {
			largest, most = f, f.size
		}
		f.mu.Unlock()
	}
	if largest != nil {
		r.drop(largest)
	}
}

// follow has the state follow an event that was just appended. The actor never waits for a snapshot that is being made: the next event catches up.
func (s *session) follow(env protocol.Envelope) {
	f, r := s.folder, s.rt
	if !f.kept.Load() {
		if f.waiting++; f.waiting >= max(r.opts.Log.SessionEvents/2, 1) {
			f.waiting = 0
			r.work.Go(func() { r.fold(f) })
		}
		return
	}
	if !f.mu.TryLock() {
		return
	}
	switch {
	case f.state == nil: // dropped just now
	case env.Seq == f.state.Seq()+1:
		r.apply(f, env)
	default:
		r.catchUpLocked(f)
	}
	f.mu.Unlock()
	if r.stateBytes.Load() > r.opts.StateBytes {
		r.dropLargestState()
	}
}
