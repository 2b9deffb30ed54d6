package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"agentserver/engine/eventlog"
	"agentserver/harness"
	"agentserver/protocol"
)

// A Runtime runs sessions. Its methods are safe for concurrent use. Their errors are [*protocol.Error], but for a context that ended, which only
// ends the wait: a turn runs on. Create one with [New], end it with [Runtime.Shutdown].
type Runtime struct {
	opts  Options
	log   *slog.Logger
	store *eventlog.Store

	mu       sync.Mutex // guards what follows
	sessions map[protocol.SessionID]*session
	serial   int // the sessions opened so far
	down     bool

	turns atomic.Int64 // admitted turns that have not ended

	stateBytes atomic.Int64 // of all folders

	// work counts the sessions' actors and every goroutine that calls a driver.
	work     sync.WaitGroup
	shutdown sync.Once
	ended    chan struct{} // closed when Shutdown is through
	endErr   error         // set before ended is closed
}

// New returns a runtime that has no session. It starts nothing.
func New(opts Options) (*Runtime, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Runtime{
		opts:     opts,
		log:      opts.Logger,
		store:    eventlog.NewStore(opts.Log),
		sessions: make(map[protocol.SessionID]*session),
		ended:    make(chan struct{}),
	}, nil
}

// Initialize answers `initialize`. The error is protocolVersionMismatch.
func (r *Runtime) Initialize(p protocol.InitializeParams) (protocol.InitializeResult, error) {
	if errs := p.Check(); errs != nil {
		return protocol.InitializeResult{}, protocol.InvalidParams(errs...)
	}
	if p.ProtocolVersion != protocol.Version {
		return protocol.InitializeResult{}, protocol.VersionMismatch(p.ProtocolVersion)
	}
	return protocol.InitializeResult{
		ProtocolVersion: protocol.Version,
		InstanceID:      r.opts.InstanceID,
		Server:          r.opts.Server,
		Harnesses:       r.opts.Registry.Capabilities(),
	}, nil
}

// InstanceID names this runtime's set of logs.
func (r *Runtime) InstanceID() string { return r.opts.InstanceID }

// Harnesses returns the capabilities of every harness on offer.
func (r *Runtime) Harnesses() map[protocol.HarnessID]protocol.Capabilities {
	return r.opts.Registry.Capabilities()
}

// StartTurn admits a turn and begins it: [Runtime.Admit] for callers that have nothing to do in between.
func (r *Runtime) StartTurn(ctx context.Context, p protocol.TurnStartParams) (protocol.TurnStartResult, error) {
	a, err := r.Admit(ctx, p)
	if err != nil {
		return protocol.TurnStartResult{}, err
	}
	a.Begin()
	return a.Result, nil
}

// Cancel stops a turn, and returns when the agent confirmed it or InterruptTimeout is over. Whatever the outcome, the turn ends within
// CancelGrace.
func (r *Runtime) Cancel(ctx context.Context, p protocol.TurnCancelParams) (protocol.TurnCancelResult, error) {
	var none protocol.TurnCancelResult
	if errs := p.Check(); errs != nil {
		return none, protocol.InvalidParams(errs...)
	}
	outcome := make(chan protocol.TurnCancelResult, 1)
	if err := r.on(p.SessionID, func(s *session) { s.cancel(p.TurnID, outcome) }); err != nil {
		return none, err
	}
	select {
	case result := <-outcome:
		return result, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// Steer adds a user message to the turn that runs. It is not accepted when that turn does not run, or its harness takes no steering.
func (r *Runtime) Steer(ctx context.Context, p protocol.TurnSteerParams) (protocol.AcceptedResult, error) {
	var none protocol.AcceptedResult
	if errs := p.Check(); errs != nil {
		return none, protocol.InvalidParams(errs...)
	}
	answer := make(chan steered, 1)
	if err := r.on(p.SessionID, func(s *session) { s.steer(p, answer) }); err != nil {
		return none, err
	}
	select {
	case a := <-answer:
		return protocol.AcceptedResult{Accepted: a.accepted}, a.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// Respond answers a permission request. It is not accepted when the request was settled before. An option that was not offered is
// invalidParams and settles nothing.
func (r *Runtime) Respond(_ context.Context, p protocol.PermissionRespondParams) (protocol.AcceptedResult, error) {
	var result protocol.AcceptedResult
	if errs := append(p.Check(), checkOutcome(p.Outcome)...); len(errs) > 0 {
		return result, protocol.InvalidParams(errs...)
	}
	err := r.on(p.SessionID, func(s *session) { result.Accepted = s.respond(p.RequestID, p.Outcome) })
	return result, err
}

// CloseSession ends a session that runs no turn: its agent is gone, session.ended is appended and the log dropped when it returns. Closed is false
// for a session that is not known.
func (r *Runtime) CloseSession(ctx context.Context, p protocol.SessionParams) (protocol.SessionCloseResult, error) {
	var none protocol.SessionCloseResult
	if errs := p.Check(); errs != nil {
		return none, protocol.InvalidParams(errs...)
	}
	closed := make(chan struct{})
	var refused error
	err := r.on(p.SessionID, func(s *session) { refused = s.close(protocol.EndReleased, closed) })
	switch {
	case errors.Is(err, protocol.ErrUnknownSession):
		return none, nil
	case err != nil:
		return none, err
	case refused != nil:
		return none, refused
	}
	select {
	case <-closed:
		return protocol.SessionCloseResult{Closed: true}, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// Replay returns a session's events from a number on.
func (r *Runtime) Replay(p protocol.EventsReplayParams) (protocol.EventsReplayResult, error) {
	page, err := r.ReplayEntries(p)
	if err != nil {
		return protocol.EventsReplayResult{}, err
	}
	result := protocol.EventsReplayResult{Events: make([]protocol.Envelope, len(page.Entries))}
	for i, e := range page.Entries {
		result.Events[i] = e.Envelope()
	}
	if page.Latest > 0 {
		result.FirstAvailableSeq, result.LatestSeq = &page.First, &page.Latest
	}
	return result, nil
}

// ReplayEntries is [Runtime.Replay] for those who want the events' JSON, which the log has already ([eventlog.Entry.EnvelopeJSON]).
func (r *Runtime) ReplayEntries(p protocol.EventsReplayParams) (eventlog.Page, error) {
	if errs := p.Check(); errs != nil {
		return eventlog.Page{}, protocol.InvalidParams(errs...)
	}
	page, err := r.store.Replay(p.SessionID, p.FromSeq, p.Limit)
	if err != nil {
		return eventlog.Page{}, protocol.UnknownSession(p.SessionID)
	}
	return page, nil
}

// List returns the open sessions, oldest first.
func (r *Runtime) List(context.Context) (protocol.SessionListResult, error) {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.sessions))
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b *session) int { return a.serial - b.serial })
	var result protocol.SessionListResult
	for _, s := range all {
		s.do(func() { result.Sessions = append(result.Sessions, s.info()) })
	}
	return result, nil
}

// Follow returns a follower of what is appended from now on, of the given sessions or, with no argument, of all. Close it when done. Embedded
// callers range over [eventlog.Follower.All].
func (r *Runtime) Follow(only ...protocol.SessionID) *eventlog.Follower {
	return r.store.Follow(only...)
}

// LogStats says what the session logs hold.
func (r *Runtime) LogStats() eventlog.Stats { return r.store.Stats() }

// on runs f on a session's actor and waits for it; f must not block. The error is unknownSession.
func (r *Runtime) on(id protocol.SessionID, f func(*session)) error {
	r.mu.Lock()
	s := r.sessions[id]
	r.mu.Unlock()
	if s == nil || !s.do(func() { f(s) }) {
		return protocol.UnknownSession(id)
	}
	return nil
}

// acquire counts an admitted turn, if there is room for it.
func (r *Runtime) acquire() bool {
	if n := r.turns.Add(1); r.opts.MaxTurns > 0 && n > int64(r.opts.MaxTurns) {
		r.turns.Add(-1)
		return false
	}
	return true
}

func (r *Runtime) release() { r.turns.Add(-1) }

// obtain returns the session called id, opening it with h if there is none.
func (r *Runtime) obtain(id protocol.SessionID, h harness.Harness) (*session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, errShuttingDown
	}
	if s := r.sessions[id]; s != nil {
		return s, nil
	}
	if r.opts.MaxSessions > 0 && len(r.sessions) >= r.opts.MaxSessions {
		return nil, protocol.Overloaded("open sessions", r.opts.MaxSessions)
	}
	s := newSession(r, id, h)
	r.sessions[id] = s
	r.store.Open(id)
	r.work.Go(s.run)
	return s, nil
}

// forget takes a session out whose actor is about to end.
func (r *Runtime) forget(s *session) {
	r.mu.Lock()
	if r.sessions[s.id] == s {
		delete(r.sessions, s.id)
	}
	r.mu.Unlock()
	r.retire(s.folder)
}

var errShuttingDown = protocol.Errorf(protocol.CodeShuttingDown, "the server is shutting down; connect to another one or try again later")

func errSessionClosing(id protocol.SessionID) error {
	return protocol.Errorf(protocol.CodeSessionClosing, "session %q is being closed; use another session id, or this one once the close is answered", id)
}

// panicError is what a panic in a driver becomes. The stack goes to the log only.
func panicError(what string) error {
	return &harness.Error{Category: protocol.CategoryInternal, Message: fmt.Sprintf("the driver failed in %s; this is a bug, see the server's log", what)}
}
