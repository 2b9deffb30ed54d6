package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"agentserver/protocol"
)

// Call makes any request: params are encoded as JSON (nil sends none), the result is decoded into result (nil drops it). It is for methods that
// this package has no name for.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	if name, err := json.Marshal(method); err != nil || string(name) != `"`+method+`"` {
		return fmt.Errorf("client: %q cannot be the name of a method", method)
	}
	data, err := marshalParams(params)
	if err != nil {
		return fmt.Errorf("client: %s: %w", method, err)
	}
	m, err := c.core.request(ctx, &call{method: method, params: data})
	if err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(m.result, result); err != nil {
		return fmt.Errorf("client: the server's answer to %s: %w", method, err)
	}
	return nil
}

func do[R any](ctx context.Context, c *Client, method string, params any) (R, error) {
	var result R
	err := c.Call(ctx, method, params, &result)
	return result, err
}

// CancelTurn cancels a turn; without a turn id, whatever turn of the session is active.
func (c *Client) CancelTurn(ctx context.Context, p protocol.TurnCancelParams) (protocol.TurnCancelResult, error) {
	return do[protocol.TurnCancelResult](ctx, c, protocol.MethodTurnCancel, p)
}

// SteerTurn adds a user message to a running turn. False says that the agent declined.
func (c *Client) SteerTurn(ctx context.Context, p protocol.TurnSteerParams) (accepted bool, err error) {
	r, err := do[protocol.AcceptedResult](ctx, c, protocol.MethodTurnSteer, p)
	return r.Accepted, err
}

// Respond answers a permission request. False says that it had been settled before.
func (c *Client) Respond(ctx context.Context, p protocol.PermissionRespondParams) (accepted bool, err error) {
	r, err := do[protocol.AcceptedResult](ctx, c, protocol.MethodPermissionRespond, p)
	return r.Accepted, err
}

// CloseSession ends a session and drops its log. False says that there was none. It fails with turnActive while a turn runs.
func (c *Client) CloseSession(ctx context.Context, id protocol.SessionID) (closed bool, err error) {
	r, err := do[protocol.SessionCloseResult](ctx, c, protocol.MethodSessionClose, protocol.SessionParams{SessionID: id})
	return r.Closed, err
}

// Sessions lists the sessions that the server has logs for, oldest first.
func (c *Client) Sessions(ctx context.Context) ([]protocol.SessionInfo, error) {
	r, err := do[protocol.SessionListResult](ctx, c, protocol.MethodSessionList, struct{}{})
	return r.Sessions, err
}

// Snapshot returns a session's conversation as it stands at a number of its log; [Client.Follow] goes on from there.
func (c *Client) Snapshot(ctx context.Context, id protocol.SessionID) (protocol.SessionSnapshotResult, error) {
	return do[protocol.SessionSnapshotResult](ctx, c, protocol.MethodSessionSnapshot, protocol.SessionParams{SessionID: id})
}

// Shutdown asks the server to end: no new turns, active ones interrupted, connections closed. It returns when the server has taken the request.
func (c *Client) Shutdown(ctx context.Context) error {
	return c.Call(ctx, protocol.MethodShutdown, struct{}{}, nil)
}

// Replay fetches one page of a session's log. It has no effect on what handlers get. An event that cannot be decoded makes it fail.
func (c *Client) Replay(ctx context.Context, p protocol.EventsReplayParams) (protocol.EventsReplayResult, error) {
	return do[protocol.EventsReplayResult](ctx, c, protocol.MethodEventsReplay, p)
}

// History yields a session's log from number from (at least 1) to its end as of now, page by page, so that a long log is never one message. When
// the beginning was evicted, it yields a [*GapError] first, and goes on when the caller does. Any other error is the last element. It has no
// effect on what handlers get.
func (c *Client) History(ctx context.Context, id protocol.SessionID, from uint64) iter.Seq2[protocol.Envelope, error] {
	return func(yield func(protocol.Envelope, error) bool) {
		for from = max(from, 1); ; {
			p, err := c.historyPage(ctx, id, from)
			if err != nil {
				yield(protocol.Envelope{}, err)
				return
			}
			if p.first > from {
				gap := &GapError{SessionID: id, First: from, Last: p.first - 1}
				if from = p.first; !yield(protocol.Envelope{}, gap) {
					return
				}
			}
			for _, r := range p.rows {
				if r.bad != nil {
					yield(protocol.Envelope{}, r.bad)
					return
				}
				if from = r.env.Seq + 1; !yield(r.env, nil) {
					return
				}
			}
			if len(p.rows) == 0 || from > p.latest {
				return
			}
		}
	}
}

func (c *Client) historyPage(ctx context.Context, id protocol.SessionID, from uint64) (*page, error) {
	params, err := marshalParams(protocol.EventsReplayParams{SessionID: id, FromSeq: from, Limit: c.core.opts.ReplayPage})
	if err != nil {
		return nil, err
	}
	m, err := c.core.request(ctx, &call{method: protocol.MethodEventsReplay, params: params, replay: true})
	if err == nil && m.page == nil {
		err = fmt.Errorf("client: the server's answer to events/replay holds no events")
	}
	return m.page, err
}

// Follow makes the client track a session from behind number after: events up to it are taken as seen, what the log holds beyond it is fetched,
// and what comes is delivered to the handlers. It returns once the log has been caught up with. For a late joiner, after is the Seq of a
// [Client.Snapshot]; 0 delivers the whole log. It never goes back: a session that was tracked further already stays there.
func (c *Client) Follow(ctx context.Context, id protocol.SessionID, after uint64) error {
	caughtUp := make(chan error, 1)
	ok := c.core.do(func() {
		s := c.core.session(id)
		c.core.allow(s)
		if c.core.cursor.Last(id) < after {
			c.core.cursor.Seek(id, after)
			s.highest = max(s.highest, after)
			c.core.drain(s)
		}
		c.core.afterSync(s, func(err error) { caughtUp <- err })
	})
	if !ok {
		return c.core.err
	}
	select {
	case err := <-caughtUp:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Subscribe limits the events of this client to the given sessions, whose logs are fetched as far as they were not seen; nil restores the events
// of all. It survives reconnects. A session in which this client starts or follows a turn is added by itself.
func (c *Client) Subscribe(ctx context.Context, ids []protocol.SessionID) error {
	params, err := marshalParams(protocol.EventsSubscribeParams{SessionIDs: ids})
	if err != nil {
		return err
	}
	answer := make(chan error, 1)
	cl := &call{method: protocol.MethodEventsSubscribe, params: params, done: func(m message) {
		if m.err == nil {
			c.core.setFilter(slices.Clone(ids))
		}
		answer <- m.err
	}}
	if !c.core.do(func() { c.core.send(cl) }) {
		return c.core.err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx) // the loop still takes the answer, so that both sides agree
	}
}

// setFilter takes over a subscription that the server has confirmed.
func (c *core) setFilter(ids []protocol.SessionID) {
	c.filter, c.allowed = ids, nil
	if ids == nil {
		c.syncAll()
		return
	}
	c.allowed = make(map[protocol.SessionID]bool)
	for _, id := range ids {
		c.allowed[id] = true
		s := c.session(id)
		s.dormant = false
		c.startSync(s)
	}
	for _, id := range sortedKeys(c.sessions) {
		if s := c.sessions[id]; len(s.turns) > 0 {
			c.allow(s) // it began before, or while the request was under way
		}
	}
}

// allow adds a session to the subscription, if there is one.
func (c *core) allow(s *session) {
	if c.filter == nil || c.allowed[s.id] {
		return
	}
	c.filter = append(c.filter, s.id)
	c.allowed[s.id] = true
	if c.link != nil {
		c.sendFilter()
	}
}

// sendFilter tells the server the subscription; a server that knows of none sends everything, and the rest is dropped here.
func (c *core) sendFilter() {
	params, err := marshalParams(protocol.EventsSubscribeParams{SessionIDs: c.filter})
	if err != nil {
		return // a list of strings
	}
	c.send(&call{method: protocol.MethodEventsSubscribe, params: params, internal: true, done: func(message) {}})
}
