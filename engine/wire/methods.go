package wire

import (
	"context"
	"encoding/json"
	"strconv"

	"agentserver/internal/transport"
	"agentserver/protocol"
)

// methods is the one table that adding a method touches. A row is inline when it answers at once, and so keeps its place in the order of the
// connection's requests; async when it may wait for an agent, or works for long.
var methods = map[string]func(*conn, *transport.Request) (any, error){
	protocol.MethodInitialize:        inline((*conn).initialize),
	protocol.MethodTurnStart:         inline((*conn).startTurn),
	protocol.MethodTurnCancel:        async((*conn).cancelTurn),
	protocol.MethodTurnSteer:         async((*conn).steerTurn),
	protocol.MethodPermissionRespond: inline((*conn).respond),
	protocol.MethodSessionClose:      async((*conn).closeSession),
	protocol.MethodSessionList:       inline((*conn).list),
	protocol.MethodSessionSnapshot:   async((*conn).snapshot),
	protocol.MethodEventsReplay:      inline((*conn).replay),
	protocol.MethodEventsSubscribe:   inline((*conn).subscribe),
	protocol.MethodShutdown:          inline((*conn).shutdown),
}

// A handler answers a request whose params are decoded and checked.
type handler[P any] func(c *conn, ctx context.Context, r *transport.Request, params *P) (any, error)

func inline[P any](h handler[P]) func(*conn, *transport.Request) (any, error) {
	return func(c *conn, r *transport.Request) (any, error) {
		params, err := decodeParams[P](r.Params)
		if err != nil {
			return nil, err
		}
		return h(c, c.ctx, r, params)
	}
}

func async[P any](h handler[P]) func(*conn, *transport.Request) (any, error) {
	return func(c *conn, r *transport.Request) (any, error) {
		params, err := decodeParams[P](r.Params)
		if err != nil {
			return nil, err
		}
		return r.Go(func(ctx context.Context, r *transport.Request) (any, error) { return h(c, ctx, r, params) })
	}
}

// noParams are the params of the methods that have none; whatever is given is passed over.
type noParams struct{}

func (c *conn) initialize(_ context.Context, _ *transport.Request, p *protocol.InitializeParams) (any, error) {
	result, err := c.server.rt.Initialize(*p)
	if err == nil && p.Client != nil {
		c.log.Debug("client initialized", "client", p.Client.Name, "version", p.Client.Version)
	}
	return result, err
}

// startTurn queues the answer before it lets the turn begin, so that no event of the turn can overtake it.
func (c *conn) startTurn(ctx context.Context, r *transport.Request, p *protocol.TurnStartParams) (any, error) {
	admission, err := c.server.rt.Admit(ctx, *p)
	if err != nil {
		return nil, err
	}
	r.Reply(admission.Result, nil) // when the connection is gone, the turn runs nevertheless
	admission.Begin()
	return r.Later()
}

func (c *conn) cancelTurn(ctx context.Context, _ *transport.Request, p *protocol.TurnCancelParams) (any, error) {
	return c.server.rt.Cancel(ctx, *p)
}

func (c *conn) steerTurn(ctx context.Context, _ *transport.Request, p *protocol.TurnSteerParams) (any, error) {
	return c.server.rt.Steer(ctx, *p)
}

func (c *conn) respond(ctx context.Context, _ *transport.Request, p *protocol.PermissionRespondParams) (any, error) {
	return c.server.rt.Respond(ctx, *p)
}

func (c *conn) closeSession(ctx context.Context, _ *transport.Request, p *protocol.SessionParams) (any, error) {
	return c.server.rt.CloseSession(ctx, *p)
}

func (c *conn) list(ctx context.Context, _ *transport.Request, _ *noParams) (any, error) {
	return c.server.rt.List(ctx)
}

// snapshot makes one state at a time, and only when there is room for it: a client that asks for many and reads none must not have them all pile up.
func (c *conn) snapshot(ctx context.Context, r *transport.Request, p *protocol.SessionParams) (any, error) {
	select {
	case c.snapshots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-c.snapshots }()
	if err := c.rpc.Room(ctx); err != nil {
		return nil, err
	}
	result, err := c.server.rt.Snapshot(ctx, *p)
	r.Reply(result, err) // here, so that the next one sees it in the queue
	return r.Later()
}

// pageBytes bounds an answer to a replay that gave a limit, so that a page of large events stays a message that any client takes. Who gave no
// limit gets everything at once, as version 2 says.
const pageBytes = 4 << 20

func (c *conn) replay(_ context.Context, _ *transport.Request, p *protocol.EventsReplayParams) (any, error) {
	page, err := c.server.rt.ReplayEntries(*p)
	if err != nil {
		return nil, err
	}
	envs := make([][]byte, 0, len(page.Entries))
	size := 128 // what stands around them
	for i, e := range page.Entries {
		env := e.EnvelopeJSON()
		if p.Limit > 0 && i > 0 && size+len(env) > pageBytes {
			break
		}
		envs = append(envs, env)
		size += len(env) + 1
	}
	b := append(make([]byte, 0, size), `{"events":[`...)
	for i, env := range envs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, env...)
	}
	b = append(append(b, `],"firstAvailableSeq":`...), seqOrNull(page.First)...)
	b = append(append(b, `,"latestSeq":`...), seqOrNull(page.Latest)...)
	return json.RawMessage(append(b, '}')), nil
}

func seqOrNull(seq uint64) string {
	if seq == 0 {
		return "null"
	}
	return strconv.FormatUint(seq, 10)
}

func (c *conn) subscribe(_ context.Context, _ *transport.Request, p *protocol.EventsSubscribeParams) (any, error) {
	if p.SessionIDs == nil {
		c.follower.FollowAll()
	} else {
		c.follower.FollowOnly(p.SessionIDs)
	}
	return struct{}{}, nil
}

func (c *conn) shutdown(_ context.Context, r *transport.Request, _ *noParams) (any, error) {
	r.Reply(struct{}{}, nil)
	c.server.requestShutdown()
	return r.Later()
}
