package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"agentserver/engine"
	"agentserver/engine/eventlog"
	"agentserver/internal/transport"
	"agentserver/protocol"
)

// version of the protocol.
const version = 1

// goodbye bounds the end of the sessions when the editor has gone.
const goodbye = 15 * time.Second

// A server is one editor's connection.
type server struct {
	rt       *engine.Runtime
	harness  protocol.HarnessID
	caps     protocol.Capabilities
	conn     *transport.Conn
	follower *eventlog.Follower
	ctx      context.Context // ends with the connection
	work     sync.WaitGroup  // what waits for the engine, and the pump

	mu       sync.Mutex // guards what follows
	client   clientCapabilities
	sessions map[protocol.SessionID]*session
	closed   bool
}

// clientCapabilities are what of an editor's capabilities matters here.
type clientCapabilities struct {
	Session struct {
		Notices *struct{} `json:"notices"`
	} `json:"session"`
}

// Serve speaks ACP with the editor at the other end of rwc, until that closes the stream or ctx ends. Every session runs on the given harness of rt. When it
// returns, the connection's turns have been cancelled and its sessions closed; rt goes on. Closing rwc must unblock its Read and Write.
//
// The error is nil when the editor left, ctx's cause, or says why the connection broke.
func Serve(ctx context.Context, rt *engine.Runtime, harness protocol.HarnessID, rwc io.ReadWriteCloser) error {
	caps, ok := rt.Harnesses()[harness]
	if !ok {
		return fmt.Errorf("the harness %q is not on offer: name one of those that the server has", harness)
	}
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{rt: rt, harness: harness, caps: caps, follower: rt.Follow(), ctx: work, sessions: map[protocol.SessionID]*session{}}
	s.follower.FollowOnly(nil)
	ready := make(chan struct{}) // the hooks use conn
	s.conn = transport.NewConn(ctx, transport.NewLines(rwc, transport.PipeOptions{}), transport.Options{
		Handle: func(ctx context.Context, r *transport.Request) (any, error) { <-ready; return s.request(ctx, r) },
		Notify: func(n *transport.Notification) { <-ready; s.notification(n) },
		Errors: wireError, Linger: time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	close(ready)
	s.work.Go(s.pump)
	<-s.conn.Done()
	s.leave()
	cancel()
	s.follower.Close()
	_ = s.conn.Close(transport.CloseNormal, "")
	s.work.Wait()
	switch err := s.conn.Err(); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF), transport.CodeOf(err) == transport.CloseNormal:
		return nil
	default:
		return err
	}
}

// leave ends the sessions.
func (s *server) leave() {
	s.mu.Lock()
	s.closed = true
	var all []*session
	for _, v := range s.sessions {
		all = append(all, v)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), goodbye)
	defer cancel()
	var ends sync.WaitGroup
	for _, v := range all {
		ends.Go(func() { s.endSession(ctx, v.id) })
	}
	ends.Wait()
}

// endSession cancels what runs in a session, and closes it.
func (s *server) endSession(ctx context.Context, id protocol.SessionID) {
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		_, _ = s.rt.Cancel(ctx, protocol.TurnCancelParams{SessionID: id}) // with nothing running it has no effect
		_, err := s.rt.CloseSession(ctx, protocol.SessionParams{SessionID: id})
		if e, ok := errors.AsType[*protocol.Error](err); !ok || e.Code != protocol.CodeTurnActive {
			return
		}
		select {
		case <-retry.C: // the turn is about to end
		case <-ctx.Done():
			return
		}
	}
}

// pump copies what the sessions' logs get to the editor.
func (s *server) pump() {
	for {
		batch, err := s.follower.Next(s.ctx)
		if err != nil {
			return
		}
		for _, e := range batch.Entries {
			if v := s.session(e.SessionID()); v != nil && !s.forward(v, e.Envelope()) {
				return
			}
		}
	}
}

// forward hands one event to the editor. Those that the log had lost before they were read are passed over; what is left of them is replayed. It
// reports whether the connection lives.
func (s *server) forward(v *session, env protocol.Envelope) bool {
	if env.Seq <= v.seq {
		return true
	}
	if env.Seq > v.seq+1 && v.seq > 0 {
		if missed, err := s.rt.Replay(protocol.EventsReplayParams{SessionID: v.id, FromSeq: v.seq + 1}); err == nil {
			for _, old := range missed.Events {
				if old.Seq > v.seq && old.Seq < env.Seq && !s.say(v, old) {
					return false
				}
			}
		}
	}
	return s.say(v, env)
}

func (s *server) say(v *session, env protocol.Envelope) bool {
	v.seq = env.Seq
	for _, u := range v.translate(env.Event, false) {
		if s.notify(v.id, u) != nil {
			return false
		}
	}
	switch e := env.Event.(type) {
	case *protocol.PermissionRequested:
		s.ask(v, e)
	case *protocol.TurnEnded:
		s.turnEnded(v, e)
	}
	return true
}

func (s *server) notify(id protocol.SessionID, update any) error {
	return s.conn.Notify(s.ctx, "session/update", object{"sessionId": id, "update": update})
}

// session returns the connection's session of an id, or nil.
func (s *server) session(id protocol.SessionID) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

// ask asks the editor for a permission. Its answer settles the request, unless something else has.
func (s *server) ask(v *session, e *protocol.PermissionRequested) {
	params := object{"sessionId": v.id, "toolCall": permissionCall(e), "options": e.Options}
	err := s.conn.Start(s.ctx, "session/request_permission", params, func(raw jsonRaw, err error) {
		outcome := protocol.Cancelled()
		var answer struct {
			Outcome protocol.PermissionOutcome `json:"outcome"`
		}
		if err == nil && decode(raw, &answer) && answer.Outcome.Outcome == protocol.OutcomeSelected {
			outcome = protocol.Selected(answer.Outcome.OptionID)
		}
		s.async(func() {
			respond := protocol.PermissionRespondParams{SessionID: v.id, RequestID: e.RequestID, Outcome: outcome}
			if _, err := s.rt.Respond(s.ctx, respond); err != nil { // an option that was not offered is no approval
				respond.Outcome = protocol.Cancelled()
				_, _ = s.rt.Respond(s.ctx, respond)
			}
		})
	})
	_ = err // the connection has ended, and with it the turn
}

// async runs f in a goroutine that Serve waits for.
func (s *server) async(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Go(f)
	}
}
