package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A Turn is a handle on one turn. It gets every event that names the turn, and those events of the session that name no turn and come between
// the turn's start and its end. Its methods are safe for concurrent use.
type Turn struct {
	// SessionID and ID are the session's and the turn's, minted by [Client.StartTurn] where its caller gave none.
	SessionID protocol.SessionID
	ID        protocol.TurnID
	// Deduplicated says that the server had admitted this turn before and ran nothing. The handle shows that earlier turn from its start.
	Deduplicated bool

	client *Client
	queue  *queue[protocol.Event]
	done   chan struct{} // closed when ended or err is set
	ended  *protocol.TurnEnded
	err    error

	// The loop's own.
	call    *call // turn/start, while it is not answered
	sent    bool  // turn/start has been sent at least once
	acked   bool  // the server has admitted the turn
	started bool  // its turn.started has come
	over    bool
	// filling: it is not known yet whether the handle has the turn from its start. What comes waits in pending; before is the cursor when the
	// handle was registered, up to which it has seen nothing, and earlier is what was fetched of that.
	filling          bool
	before           uint64
	earlier, pending []protocol.Envelope
}

// Events yields the turn's events in order, `turn.ended` last. A non-nil error is the last element: the handle failed ([*GapError],
// [ErrInstanceChanged], …), this consumer fell behind ([*LagError]), or ctx ended. Each event is yielded once: a second call goes on where the
// first stopped. Events that nobody consumes wait in memory, up to [Options.QueueLimit].
func (t *Turn) Events(ctx context.Context) iter.Seq2[protocol.Event, error] {
	return func(yield func(protocol.Event, error) bool) {
		for {
			items, ended, err := t.queue.take()
			for i, e := range items {
				if !yield(e, nil) {
					t.queue.untake(items[i+1:])
					return
				}
			}
			switch {
			case len(items) > 0:
				continue
			case ended:
				t.queue.signal() // for another consumer, should there be one
				if err != nil {
					yield(nil, err)
				}
				return
			}
			select {
			case <-t.queue.wake:
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

// Result waits for the turn's end and returns it. A turn that ended badly is no error here: look at StopReason and Error. An error says that the
// end is not known: the handle failed, the client was closed, or ctx ended. It need not be combined with [Turn.Events].
func (t *Turn) Result(ctx context.Context) (*protocol.TurnEnded, error) {
	select {
	case <-t.done:
		return t.ended, t.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Done is closed when the turn has ended or the handle has failed.
func (t *Turn) Done() <-chan struct{} { return t.done }

// Cancel asks the server to cancel the turn. The turn's end still comes as an event.
func (t *Turn) Cancel(ctx context.Context) (protocol.TurnCancelResult, error) {
	return t.client.CancelTurn(ctx, protocol.TurnCancelParams{SessionID: t.SessionID, TurnID: t.ID})
}

// Steer adds a user message to the running turn. False says that the agent declined.
func (t *Turn) Steer(ctx context.Context, input protocol.Input) (accepted bool, err error) {
	return t.client.SteerTurn(ctx, protocol.TurnSteerParams{SessionID: t.SessionID, TurnID: t.ID, Input: input})
}

// Respond answers a permission request of the turn's session. False says that it had been settled before.
func (t *Turn) Respond(ctx context.Context, request protocol.RequestID, outcome protocol.PermissionOutcome) (accepted bool, err error) {
	return t.client.Respond(ctx, protocol.PermissionRespondParams{SessionID: t.SessionID, RequestID: request, Outcome: outcome})
}

// StartTurn starts a turn and returns its handle once the server has admitted it. Missing ids are minted here, so that a turn/start whose answer
// was lost with its connection can be sent again without running twice. When ctx ends before the answer, the turn may run nevertheless.
//
// In a session that this client has not seen and that p names, the session's history is fetched first and goes to the event handlers; see
// [Client.Follow] for how to pass it over.
func (c *Client) StartTurn(ctx context.Context, p protocol.TurnStartParams) (*Turn, error) {
	known := p.SessionID != ""
	if !known {
		p.SessionID = protocol.SessionID(protocol.NewID())
	}
	if p.TurnID == "" {
		p.TurnID = protocol.TurnID(protocol.NewID())
	}
	params, err := marshalParams(p)
	if err != nil {
		return nil, fmt.Errorf("client: turn/start: %w", err)
	}
	t := c.newTurn(p.SessionID, p.TurnID)
	answer := make(chan error, 1)
	t.call = &call{
		method: protocol.MethodTurnStart, params: params, idempotent: true,
		onSend: func() { t.sent = true },
		done:   func(m message) { answer <- c.core.admitted(t, m) },
	}
	if !c.core.do(func() { c.core.startTurn(t, known) }) {
		return nil, c.core.err
	}
	select {
	case err := <-answer:
		if err != nil {
			return nil, err
		}
		return t, nil
	case <-ctx.Done():
		c.core.do(func() {
			c.core.abandon(t.call)
			c.core.failTurn(t, context.Cause(ctx))
		})
		return nil, context.Cause(ctx)
	}
}

// FollowTurn returns a handle on a turn that runs or has run already, from its start: one that another client, an earlier run of this program or
// the agent itself began. It fails with [ErrTurnNotFound] when the session's log holds nothing of the turn.
func (c *Client) FollowTurn(ctx context.Context, session protocol.SessionID, turn protocol.TurnID) (*Turn, error) {
	t := c.newTurn(session, turn)
	answer := make(chan error, 1)
	ok := c.core.do(func() {
		s := c.core.register(t, true)
		c.core.afterSync(s, func(err error) {
			if err == nil {
				t.acked = true
				c.core.fill(s, t, func(err error) { answer <- err })
				return
			}
			answer <- err
		})
	})
	if !ok {
		return nil, c.core.err
	}
	select {
	case err := <-answer:
		if err != nil {
			return nil, err
		}
		return t, nil
	case <-ctx.Done():
		c.core.do(func() { c.core.failTurn(t, context.Cause(ctx)) })
		return nil, context.Cause(ctx)
	}
}

func (c *Client) newTurn(session protocol.SessionID, turn protocol.TurnID) *Turn {
	return &Turn{
		SessionID: session, ID: turn, client: c,
		queue: newQueue[protocol.Event](c.core.opts.QueueLimit), done: make(chan struct{}),
	}
}

// register adds a handle to its session. It is there before anything is sent, so that it misses nothing from here on.
func (c *core) register(t *Turn, filling bool) *session {
	s := c.session(t.SessionID)
	t.filling, t.before = filling, c.cursor.Last(s.id)
	s.turns = append(s.turns, t)
	c.allow(s)
	return s
}

// startTurn registers a handle and sends its turn/start. known says that the caller named the session.
func (c *core) startTurn(t *Turn, known bool) {
	s := c.register(t, known)
	if !known || c.cursor.Last(s.id) > 0 && s.sync == nil {
		c.send(t.call)
		return
	}
	// What an unknown log has lost already is no loss of this turn's: find out before it begins.
	c.afterSync(s, func(err error) {
		if err != nil {
			t.call.finish(message{err: err})
			return
		}
		c.send(t.call)
	})
}

// admitted handles the answer to turn/start.
func (c *core) admitted(t *Turn, m message) error {
	call := t.call
	t.call = nil
	call.over = true
	if m.err != nil {
		c.failTurn(t, m.err)
		return m.err
	}
	var ack protocol.TurnStartResult
	if err := json.Unmarshal(m.result, &ack); err != nil {
		err = fmt.Errorf("client: the server's answer to turn/start: %w", err)
		c.failTurn(t, err)
		return err
	}
	t.acked, t.Deduplicated = true, ack.Deduplicated
	s := c.session(t.SessionID)
	s.dormant = false
	if !t.Deduplicated {
		c.filled(t, nil, func(error) {})
		return nil
	}
	// It may have begun, or ended, before this connection or this handle was there.
	c.afterSync(s, func(err error) {
		if err == nil {
			c.fill(s, t, func(error) {})
		}
	})
	return nil
}

// fill fetches what the log holds from before handle t was registered, unless the handle has its turn's start already.
func (c *core) fill(s *session, t *Turn, done func(error)) {
	if t.over || !t.filling || c.begins(t) {
		c.filled(t, nil, done)
		return
	}
	c.fillPage(s, t, 1, 0, done)
}

// fillPage fetches the next page; lost is the last number that had been evicted.
func (c *core) fillPage(s *session, t *Turn, from, lost uint64, done func(error)) {
	if from > t.before {
		c.filled(t, c.missing(t, lost), done)
		return
	}
	c.replay(s.id, from, c.opts.ReplayPage, func(p *page, err error) {
		switch {
		case t.over:
			done(t.err)
			return
		case errors.Is(err, ErrConnectionLost) && c.err == nil:
			c.afterSync(s, func(err error) {
				if err == nil {
					c.fillPage(s, t, from, lost, done)
				}
			})
			return
		case err != nil:
			c.filled(t, err, done)
			return
		}
		if p.first > from {
			lost, from = p.first-1, p.first
		}
		for _, r := range p.rows {
			if r.env.Seq >= from && r.env.Seq <= t.before && r.bad == nil {
				t.earlier = append(t.earlier, r.env)
			}
			from = max(from, r.env.Seq+1)
		}
		if len(p.rows) == 0 {
			from = t.before + 1
		}
		c.fillPage(s, t, from, lost, done)
	})
}

// begins reports whether handle t has its turn from the start.
func (c *core) begins(t *Turn) bool {
	isStart := func(env protocol.Envelope) bool {
		e, ok := env.Event.(*protocol.TurnStarted)
		return ok && e.TurnID == t.ID
	}
	return t.started || slices.ContainsFunc(t.earlier, isStart) || slices.ContainsFunc(t.pending, isStart)
}

// missing returns why handle t has no beginning: it was evicted, or there is no such turn. A turn that the server has admitted may still begin.
func (c *core) missing(t *Turn, lost uint64) error {
	switch {
	case c.begins(t):
		return nil
	case lost > 0:
		return &GapError{SessionID: t.SessionID, First: 1, Last: lost}
	case !t.Deduplicated:
		return ErrTurnNotFound
	}
	return nil
}

// filled ends the wait for what came before: the handle gets everything in order, or fails.
func (c *core) filled(t *Turn, err error, done func(error)) {
	if err != nil {
		c.failTurn(t, err)
		done(err)
		return
	}
	all := append(t.earlier, t.pending...)
	t.filling, t.earlier, t.pending = false, nil, nil
	for _, env := range all {
		t.take(env)
	}
	if t.over {
		c.dropTurn(t)
	}
	done(nil)
}

// routeToTurns hands an event to the session's handles and drops those whose turn it ends.
func (c *core) routeToTurns(s *session, env protocol.Envelope) {
	if len(s.turns) == 0 {
		return
	}
	s.turns = slices.DeleteFunc(s.turns, func(t *Turn) bool {
		if t.filling {
			t.pending = append(t.pending, env)
			return false
		}
		t.take(env)
		return t.over
	})
}

// take handles one event, in order.
func (t *Turn) take(env protocol.Envelope) {
	if t.over {
		return
	}
	turn := turnOf(env.Event)
	if turn != t.ID && (turn != "" || !t.started) {
		return
	}
	t.queue.push(env.Event)
	switch e := env.Event.(type) {
	case *protocol.TurnStarted:
		t.started = true
	case *protocol.TurnEnded:
		t.ended = e
		t.finish(nil)
	}
}

func (t *Turn) finish(err error) {
	t.over, t.err = true, err
	t.earlier, t.pending = nil, nil
	t.queue.end(err)
	close(t.done)
}

// failTurn ends a handle that will not see its turn's end.
func (c *core) failTurn(t *Turn, err error) {
	c.dropTurn(t)
	if t.over {
		return
	}
	t.finish(err)
	if t.call != nil {
		t.call.finish(message{err: err})
	}
}

func (c *core) dropTurn(t *Turn) {
	if s := c.sessions[t.SessionID]; s != nil {
		s.turns = slices.DeleteFunc(s.turns, func(x *Turn) bool { return x == t })
	}
}

// failSession fails the handles of a session that miss something because of err. A turn that the server has not been asked for, or that an
// unknown session is about to begin with, misses nothing.
func (c *core) failSession(s *session, err error) {
	for _, t := range slices.Clone(s.turns) {
		if t.acked || t.sent && !errors.Is(err, protocol.ErrUnknownSession) {
			c.failTurn(t, err)
		}
	}
}

// failTurns fails every handle whose turn the server has been asked for; when the client ends, all.
func (c *core) failTurns(err error) {
	for _, id := range sortedKeys(c.sessions) {
		for _, t := range slices.Clone(c.sessions[id].turns) {
			if t.sent || t.acked || c.err != nil {
				c.failTurn(t, err)
			}
		}
	}
}

func hasStartedTurn(s *session) bool {
	return slices.ContainsFunc(s.turns, func(t *Turn) bool { return t.acked })
}

// turnOf returns the id of the turn that an event names, or "".
func turnOf(e protocol.Event) protocol.TurnID {
	switch e := e.(type) {
	case *protocol.MessagePartDelta:
		return e.TurnID
	case *protocol.MessagePart:
		return e.TurnID
	case *protocol.MessageStarted:
		return e.TurnID
	case *protocol.MessageEnded:
		return e.TurnID
	case *protocol.TurnStarted:
		return e.TurnID
	case *protocol.TurnEnded:
		return e.TurnID
	case *protocol.PermissionRequested:
		return e.TurnID
	case *protocol.PermissionResolved:
		return e.TurnID
	case *protocol.SessionUsage:
		return e.TurnID
	case *protocol.SessionCompaction:
		return e.TurnID
	case *protocol.SessionNotice:
		return e.TurnID
	case *protocol.ErrorEvent:
		return e.TurnID
	case *protocol.Raw:
		return e.TurnID
	case *protocol.UnknownEvent:
		return protocol.TurnID(jsonscan.String(jsonscan.Get(e.JSON(), "turnId")))
	}
	return ""
}
