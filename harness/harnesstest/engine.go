package harnesstest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"agentserver/engine"
	"agentserver/engine/eventlog"
	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/streamcheck"
)

// runEngine tests the driver through the engine.
func runEngine(t *testing.T, s *Suite) {
	s.test(t, "Turns", s.engineTurns)
	s.test(t, "Permissions", s.enginePermissions)
	s.test(t, "Cancel", s.engineCancel)
	s.test(t, "Kill", s.engineKill)
	s.test(t, "Close", s.engineClose)
	s.test(t, "Shutdown", s.engineShutdown)
	s.test(t, "Background", s.engineBackground)
	s.test(t, "Sessions", s.engineSessions)
}

// A tap is the harness under test, and remembers the sessions that it opened.
type tap struct {
	harness.Harness
	mu     sync.Mutex
	opened harness.Session // the last one
}

func (h *tap) Open(ctx context.Context, spec harness.Spec) (harness.Session, error) {
	session, err := h.Harness.Open(ctx, spec)
	if err == nil {
		h.mu.Lock()
		h.opened = session
		h.mu.Unlock()
	}
	return session, err
}

func (h *tap) last() harness.Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.opened
}

// A server is a runtime with the harness under test.
type server struct {
	*engine.Runtime
	t     *testing.T
	suite *Suite
	tap   *tap
}

func (s *Suite) server(t *testing.T) *server {
	t.Helper()
	h := &tap{Harness: s.Harness}
	registry, err := harness.NewRegistry(h)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := engine.New(engine.Options{Registry: registry, BaseEnv: s.Env, Log: eventlog.Limits{SessionEvents: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	v := &server{Runtime: rt, t: t, suite: s, tap: h}
	t.Cleanup(v.shutdown)
	return v
}

func (v *server) shutdown() {
	v.t.Helper()
	ctx, cancel := v.suite.within()
	defer cancel()
	if err := v.Shutdown(ctx); err != nil {
		v.t.Errorf("Shutdown: %v", err)
	}
}

// A watch is a session that is followed.
type watch struct {
	*server
	id     protocol.SessionID
	follow *eventlog.Follower
	answer string // the option with which requests are answered; "" leaves them unanswered
	stream []protocol.Envelope
	next   int // the first event of stream that no turn has looked at
}

func (v *server) watch() *watch {
	id := protocol.SessionID(protocol.NewID())
	return &watch{server: v, id: id, follow: v.Follow(id), answer: protocol.OptionIDAllow}
}

// end checks the whole stream.
func (w *watch) end() {
	w.t.Helper()
	w.follow.Close()
	for _, found := range streamcheck.Check(func(yield func(protocol.Envelope, error) bool) {
		for _, env := range w.stream {
			data, err := protocol.AppendEnvelope(nil, env)
			if err == nil {
				env, err = protocol.DecodeEnvelope(data)
			}
			if !yield(env, err) {
				return
			}
		}
	}) {
		w.t.Errorf("the stream breaks the contract: %v", found)
	}
}

// read waits for the next event; ok is false when none comes in time.
func (w *watch) read(ctx context.Context) (env protocol.Envelope, ok bool) {
	for w.next == len(w.stream) {
		batch, err := w.follow.Next(ctx)
		if err != nil {
			return env, false
		}
		for _, e := range batch.Entries {
			w.stream = append(w.stream, e.Envelope())
		}
	}
	w.next++
	return w.stream[w.next-1], true
}

func (w *watch) start(prompt string) protocol.TurnID {
	w.t.Helper()
	ctx, cancel := w.suite.within()
	defer cancel()
	for {
		ack, err := w.StartTurn(ctx, protocol.TurnStartParams{SessionID: w.id, Input: protocol.Text(prompt), Config: w.suite.Config})
		if err == nil {
			return ack.TurnID
		}
		// A turn of the agent's own may run.
		if e, ok := errors.AsType[*protocol.Error](err); !ok || e.Code != protocol.CodeTurnActive || ctx.Err() != nil {
			w.t.Fatalf("turn/start: %v", err)
		}
		poll(time.Millisecond, func() bool { return false })
	}
}

// turn runs a turn to its end. After the k-th event, or when no more comes, act is called with the turn's id, and again after each event that follows;
// it may be nil.
func (w *watch) turn(prompt string, k int, act func(protocol.TurnID)) (end *protocol.TurnEnded, o outcome) {
	w.t.Helper()
	id := w.start(prompt)
	deadline := time.Now().Add(w.suite.Wait)
	for n := 0; ; n++ {
		if act != nil && (n >= k || o.acted) {
			o.acted = true
			act(id)
		}
		env, ok := w.wait()
		for !ok {
			if time.Now().After(deadline) {
				w.t.Fatalf("the turn has not ended after %d events", n)
			}
			if act != nil {
				o.quiet = o.quiet || !o.acted
				o.acted = true
				act(id)
			}
			env, ok = w.wait()
		}
		switch e := env.Event.(type) {
		case *protocol.PermissionRequested:
			w.respond(e.RequestID)
		case *protocol.TurnEnded:
			if e.TurnID == id {
				return e, o
			}
		}
	}
}

// wait waits for the next event, as long as a turn needs to come to rest.
func (w *watch) wait() (protocol.Envelope, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), w.suite.Quiet)
	defer cancel()
	return w.read(ctx)
}

func (w *watch) respond(id protocol.RequestID) {
	if w.answer != "" {
		w.Respond(context.Background(), protocol.PermissionRespondParams{SessionID: w.id, RequestID: id, Outcome: protocol.Selected(w.answer)})
	}
}

// ends runs a turn that must end by itself, and well.
func (w *watch) ends(prompt string) {
	w.t.Helper()
	if end, _ := w.turn(prompt, 0, nil); end.StopReason != protocol.StopEndTurn {
		w.t.Errorf("the turn ended with %s (%v), want %s", end.StopReason, end.Error, protocol.StopEndTurn)
	}
}

func (s *Suite) engineTurns(t *testing.T) {
	w := s.server(t).watch()
	for range 3 {
		w.ends(s.Prompts.Text)
	}
	if s.Prompts.Failure != "" {
		if end, _ := w.turn(s.Prompts.Failure, 0, nil); end.Error == nil {
			t.Errorf("the turn ended with %s, want an error", end.StopReason)
		}
		w.ends(s.Prompts.Text)
	}
	if s.Prompts.Exit != "" {
		if end, _ := w.turn(s.Prompts.Exit, 0, nil); end.Error == nil || end.Error.Category != protocol.CategoryProcessExit {
			t.Errorf("the turn ended with %s (%v), want %s", end.StopReason, end.Error, protocol.CategoryProcessExit)
		}
		w.ends(s.Prompts.Text)
	}
	w.end()
}

func (s *Suite) enginePermissions(t *testing.T) {
	needs(t, s.Prompts.Permission, "Permission")
	v := s.server(t)
	for _, option := range protocol.Options() {
		w := v.watch()
		w.answer = option.OptionID
		w.turn(s.Prompts.Permission, 0, nil)
		w.turn(s.Prompts.Permission, 0, nil) // an "always" answers this one
		w.ends(s.Prompts.Text)
		w.end()
	}
}

// engineCancel cancels each prompt at each step.
func (s *Suite) engineCancel(t *testing.T) {
	prompts := append(s.interruptible(), stoppable{"UnansweredPermission", s.Prompts.Permission, true})
	for _, p := range prompts {
		if p.prompt == "" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			w := s.server(t).watch()
			s.eachStep(func(k int) (more bool) {
				w.answer = protocol.OptionIDAllow
				if p.name == "UnansweredPermission" {
					w.answer = ""
				}
				asked := false
				end, o := w.turn(p.prompt, k, func(id protocol.TurnID) {
					if asked {
						return
					}
					asked = true
					ctx, cancel := s.within()
					defer cancel()
					result, err := w.Cancel(ctx, protocol.TurnCancelParams{SessionID: w.id, TurnID: id})
					if err != nil {
						t.Errorf("at step %d: turn/cancel: %v", k, err)
					} else if p.endless && result.Outcome != protocol.CancelConfirmed {
						t.Errorf("at step %d: turn/cancel: %s, want %s", k, result.Outcome, protocol.CancelConfirmed)
					}
				})
				if p.endless && end.StopReason != protocol.StopCancelled {
					t.Errorf("at step %d: the turn ended with %s (%v), want %s", k, end.StopReason, end.Error, protocol.StopCancelled)
				}
				w.ends(s.Prompts.Text)
				return o.acted && !o.quiet && !t.Failed()
			})
			w.end()
		})
	}
}

// engineKill kills the agent at each step; the next turn goes on.
func (s *Suite) engineKill(t *testing.T) {
	s.needsKill(t)
	for _, p := range s.interruptible() {
		if p.prompt == "" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			v := s.server(t)
			w := v.watch()
			s.eachStep(func(k int) (more bool) {
				// An agent that dies before it has the input is replaced, and that one is killed too.
				var killed harness.Session
				end, o := w.turn(p.prompt, k, func(protocol.TurnID) {
					if session := v.tap.last(); session != nil && session != killed {
						killed = session
						s.kill(session)
					}
				})
				if p.endless && end.StopReason != protocol.StopError {
					t.Errorf("at step %d: the turn ended with %s, want %s", k, end.StopReason, protocol.StopError)
				}
				w.ends(s.Prompts.Text)
				return o.acted && !o.quiet && !t.Failed()
			})
			w.end()
		})
	}
}

// engineBackground has turns of the agent's own come after, and in the way of, the client's.
func (s *Suite) engineBackground(t *testing.T) {
	needs(t, s.Prompts.Background, "Background")
	w := s.server(t).watch()
	w.ends(s.Prompts.Background)
	for own := protocol.TurnID(""); ; {
		ctx, cancel := s.within()
		env, ok := w.read(ctx)
		cancel()
		if !ok {
			t.Fatal("the agent began no turn by itself")
		}
		if e, ok := env.Event.(*protocol.TurnStarted); ok && e.Meta.GetString(protocol.MetaOrigin) == "agent" {
			own = e.TurnID
		}
		if e, ok := env.Event.(*protocol.TurnEnded); ok && e.TurnID == own {
			break
		}
	}
	for range s.Steps {
		w.ends(s.Prompts.Background)
		w.ends(s.Prompts.Text) // now, whatever the agent is about to do
	}
	w.end()
}

func (s *Suite) engineClose(t *testing.T) {
	v := s.server(t)
	w := v.watch()
	w.ends(s.Prompts.Text)
	w.end()
	ctx, cancel := s.within()
	defer cancel()
	if result, err := v.CloseSession(ctx, protocol.SessionParams{SessionID: w.id}); err != nil || !result.Closed {
		t.Errorf("session/close: %+v, %v", result, err)
	}
}

// engineShutdown shuts the runtime down in a turn.
func (s *Suite) engineShutdown(t *testing.T) {
	needs(t, s.Prompts.LongText, "LongText")
	for _, k := range []int{0, 1, 4, 8} {
		v := s.server(t)
		w := v.watch()
		var down sync.WaitGroup
		var once sync.Once
		end, _ := w.turn(s.Prompts.LongText, k, func(protocol.TurnID) { once.Do(func() { down.Go(v.shutdown) }) })
		if end.StopReason != protocol.StopCancelled {
			t.Errorf("after %d events: the turn ended with %s (%v), want %s", k, end.StopReason, end.Error, protocol.StopCancelled)
		}
		down.Wait()
		w.end()
	}
}

// engineSessions runs several sessions at the same time.
func (s *Suite) engineSessions(t *testing.T) {
	v := s.server(t)
	all := make([]*watch, 3)
	for i := range all {
		all[i] = v.watch()
		all[i].start(s.Prompts.Text)
	}
	for _, w := range all {
		for ended := false; !ended; {
			ctx, cancel := s.within()
			env, ok := w.read(ctx)
			cancel()
			if !ok {
				t.Fatal("a turn has not ended")
			}
			_, ended = env.Event.(*protocol.TurnEnded)
		}
		w.end()
	}
}
