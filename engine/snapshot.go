package engine

import (
	"context"
	"encoding/json"
	"sync"

	"agentserver/engine/eventlog"
	"agentserver/protocol"
)

// A folder keeps a session's fold. It folds when it is asked to, and before the log could lose what was not folded yet.
type folder struct {
	mu   sync.Mutex
	fold Fold
	seq  uint64 // the last number folded
}

// Snapshot returns the fold of a session's log up to now. It holds the whole conversation, also what the log itself no longer has; only what the
// bounds of all logs together took away before it could be folded is missing.
func (r *Runtime) Snapshot(_ context.Context, p protocol.SessionParams) (protocol.SessionSnapshotResult, error) {
	var none protocol.SessionSnapshotResult
	if errs := p.Check(); errs != nil {
		return none, protocol.InvalidParams(errs...)
	}
	if r.opts.NewFold == nil {
		return none, protocol.Errorf(protocol.CodeMethodNotFound, "session/snapshot is not available here")
	}
	var f *folder
	if err := r.on(p.SessionID, func(s *session) { f = s.fold }); err != nil {
		return none, err
	}
	state, seq, err := f.snapshot(r.store, p.SessionID)
	if err != nil {
		return none, protocol.AsError(err)
	}
	return protocol.SessionSnapshotResult{SessionID: p.SessionID, Seq: seq, State: state}, nil
}

func (f *folder) snapshot(store *eventlog.Store, id protocol.SessionID) (json.RawMessage, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.catchUp(store, id); err != nil {
		return nil, 0, protocol.UnknownSession(id)
	}
	state, err := f.fold.JSON()
	return state, f.seq, err
}

// catchUp folds what the log holds beyond the last number folded.
func (f *folder) catchUp(store *eventlog.Store, id protocol.SessionID) error {
	page, err := store.Replay(id, f.seq+1, 0)
	if err != nil {
		return err
	}
	for _, e := range page.Entries {
		f.fold.Apply(e.Envelope())
		f.seq = e.Seq()
	}
	return nil
}

// foldAhead counts an appended event, and has the log folded when half of what it can hold is new.
func (s *session) foldAhead() {
	limit := s.rt.opts.Log.SessionEvents
	if limit <= 0 {
		limit = eventlog.DefaultSessionEvents
	}
	if s.pending++; s.pending < limit/2 {
		return
	}
	s.pending = 0
	s.rt.work.Go(func() {
		s.fold.mu.Lock()
		defer s.fold.mu.Unlock()
		s.fold.catchUp(s.rt.store, s.id)
	})
}
