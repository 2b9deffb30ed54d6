package acp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"agentserver/harness"
	"agentserver/harness/internal/inbox"
	"agentserver/harness/internal/process"
	"agentserver/harness/internal/redact"
	"agentserver/internal/transport"
	"agentserver/protocol"
)

// A session is one agent's process, its connection and its translator.
type session struct {
	driver *driver
	proc   *process.Process
	conn   *transport.Conn
	log    *slog.Logger
	redact redact.Redactor

	inbox   *inbox.Inbox
	closing chan struct{} // closed by Close
	ended   chan struct{} // closed when the agent has ended: the inbox gets nothing more
	wg      sync.WaitGroup

	applying sync.Mutex // held by Apply: one at a time

	mu      sync.Mutex // guards all that follows; never held while writing to the agent
	t       *translator
	spec    harness.Spec // as last applied
	agent   initializeResult
	told    map[string]bool // failures that were reported
	junk    []string        // the last of what the agent printed that is no message
	waiters int             // calls that wait for an answer: reading goes on whatever is queued
	gone    bool
	killed  bool // by Kill
	joining bool // no goroutine may be started any more
	breach  error
	timer   *time.Timer // settle, or quiet

	closeOnce sync.Once
}

// start runs the agent and makes a session in it. On error nothing is left running.
func (d *driver) start(ctx context.Context, spec harness.Spec, exe harness.Executable) (harness.Session, error) {
	hidden := secrets(spec, d.opts.APIKeyVars)
	log := spec.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	proc, err := process.Start(ctx, process.Spec{
		Path: exe.Path, Args: exe.Args, Dir: spec.Config.Cwd, Env: environment(spec, &d.opts),
		Marker: string(spec.SessionID), Secrets: hidden, Logger: log, NoReaper: d.opts.NoReaper,
	})
	if err != nil {
		return nil, &harness.Error{Category: protocol.CategoryProcessExit, Message: "the ACP agent could not be started: " + err.Error(), Err: err}
	}
	s := newSession(d, spec, proc, redact.New(hidden), log)
	s.wg.Go(s.watch)
	if err := s.handshake(ctx); err != nil {
		s.closeAtOnce()
		return nil, err
	}
	return s, nil
}

func newSession(d *driver, spec harness.Spec, proc *process.Process, hide redact.Redactor, log *slog.Logger) *session {
	s := &session{
		driver: d, proc: proc, log: log, redact: hide, spec: spec, told: map[string]bool{},
		inbox: inbox.New(), closing: make(chan struct{}), ended: make(chan struct{}),
		t: newTranslator(),
	}
	t := s.t
	t.name = string(d.opts.ID)
	t.asks, t.mode, t.raw = spec.Config.AsksPermission(), spec.Config.PermissionMode, spec.Config.IncludeRaw
	t.redact, t.log, t.decide, t.stderr = hide, log, s.decide, s.stderr
	t.sessionCancel = s.sendCancel
	s.timer = time.AfterFunc(time.Hour, s.tick)
	s.timer.Stop()
	ready := make(chan struct{}) // the hooks use conn
	s.conn = transport.NewConn(context.Background(), &pipe{proc: proc, seen: s.seen, broken: s.broken}, transport.Options{
		Tolerant: true, Logger: log,
		Handle: func(ctx context.Context, r *transport.Request) (any, error) { <-ready; return s.request(ctx, r) },
		Notify: func(n *transport.Notification) { <-ready; s.notification(n) },
		Junk:   func(why string, text []byte) { <-ready; s.noteJunk(why, text) },
	})
	close(ready)
	return s
}

// seen accounts for a line, and yields it as it is when that is wanted.
func (s *session) seen(line []byte) {
	s.inbox.Add(len(line))
	s.mu.Lock()
	if s.t.raw && s.t.phase == live && json.Valid(line) {
		s.t.emit(harness.Raw{Data: s.redact.Bytes(line)})
	}
	s.mu.Unlock()
	s.inbox.HoldBack(s.closing, s.mustRead)
}

// noteJunk remembers the last of what was no message, for the case that the start fails.
func (s *session) noteJunk(why string, text []byte) {
	line := s.redact.Text(string(text[:min(len(text), 200)]))
	s.log.Debug("acp: junk on the agent's output", "why", why)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.junk = append(s.junk, line); len(s.junk) > 5 {
		s.junk = s.junk[1:]
	}
}

// do runs f on the translator, and does what it wants.
func (s *session) do(f func(t *translator)) {
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		return
	}
	f(s.t)
	out := s.collect()
	s.mu.Unlock()
	for _, send := range out {
		send()
	}
}

// collect moves what the translator has produced to where it belongs, and returns what is to be sent. mu is held.
func (s *session) collect() []func() {
	t := s.t
	if len(t.events) > 0 {
		s.inbox.Add(0, t.events...)
		clear(t.events)
		t.events = t.events[:0]
	}
	opts := &s.driver.opts
	switch {
	case t.rearm:
		t.rearm = false
		d := max(opts.Settle, 0)
		if t.turn.patient {
			d = opts.LateTools
		}
		s.timer.Reset(d)
	case t.turn.answer != nil: // the timer runs
	case t.quiet():
		s.timer.Reset(opts.Quiet)
	default:
		s.timer.Stop()
	}
	out := t.out
	t.out = nil
	return out
}

func (s *session) tick() { s.do((*translator).tick) }

// waiting notes that somebody waits for the agent. The returned func ends that.
func (s *session) waiting() func() {
	s.mu.Lock()
	s.waiters++
	s.mu.Unlock()
	s.inbox.Nudge()
	return func() {
		s.mu.Lock()
		s.waiters--
		s.mu.Unlock()
	}
}

// call sends a request and waits for the answer, for at most timeout. The error is a [*transport.Error] of the agent, errGone, a deadline's or ctx's.
func (s *session) call(ctx context.Context, timeout time.Duration, method string, params any) (json.RawMessage, error) {
	defer s.waiting()()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	raw, err := s.conn.Call(ctx, method, params)
	if errors.Is(err, transport.ErrClosed) {
		select {
		case <-s.ended:
		case <-ctx.Done():
		}
		return nil, errGone
	}
	return raw, err
}

// mustRead reports whether somebody waits for an answer that is still to be read.
func (s *session) mustRead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiters > 0
}

// Recv implements [harness.Session].
func (s *session) Recv(ctx context.Context) (harness.Event, error) { return s.inbox.Recv(ctx) }

// Send implements [harness.Session].
func (s *session) Send(ctx context.Context, turn harness.Turn) error {
	s.mu.Lock()
	if s.gone || s.killed {
		s.mu.Unlock()
		return s.goneError()
	}
	blocks, failures := promptBlocks(turn.Input, &s.agent.Capabilities)
	s.inbox.DropTurnEnds()
	s.t.begin()
	for _, f := range failures {
		s.t.emit(f)
	}
	number, native := s.t.turn.number, s.t.session
	out := s.collect()
	s.mu.Unlock()
	for _, send := range out {
		send()
	}
	err := s.conn.Start(ctx, "session/prompt", object{"sessionId": native, "prompt": blocks}, func(raw json.RawMessage, err error) {
		s.answered(number, raw, err)
	})
	if err == nil {
		err = s.conn.Flush(ctx) // an agent that has died unnoticed takes nothing
	}
	if err != nil {
		s.do((*translator).takeBack)
		return s.sendError(err)
	}
	return nil
}

// answered takes the response to a prompt, on the read loop.
func (s *session) answered(number int, raw json.RawMessage, err error) {
	failure, _ := errors.AsType[*transport.Error](err)
	if err != nil && failure == nil {
		return // the connection ended, and so does the turn by the exit
	}
	s.do(func(t *translator) {
		if t.turn.number == number {
			t.answered(raw, failure)
		}
	})
}

// cancelAgain is how long a cancel may be without effect before it is sent again: an agent may have lost one that came before its turn had begun.
const cancelAgain = time.Second

// Interrupt implements [harness.Session]. A turn that does not end within [Options.CancelWait] is ended by killing the agent.
func (s *session) Interrupt(ctx context.Context) error {
	s.mu.Lock()
	if s.gone || !s.t.busy() {
		s.mu.Unlock()
		return nil
	}
	confirmed := s.t.interrupt()
	out := s.collect()
	s.mu.Unlock()
	defer s.waiting()()
	for _, send := range out {
		send()
	}
	s.boundCancel(confirmed)
	again := time.NewTicker(cancelAgain)
	defer again.Stop()
	for {
		select {
		case <-confirmed:
			return nil
		case <-s.ended:
			return nil
		case <-again.C:
			s.sendCancel()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// boundCancel kills the agent when the cancel has no effect in time.
func (s *session) boundCancel(confirmed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joining {
		return
	}
	s.wg.Go(func() {
		late := time.NewTimer(s.driver.opts.CancelWait)
		defer late.Stop()
		select {
		case <-late.C:
			s.Kill()
		case <-confirmed:
		case <-s.ended:
		case <-s.closing:
		}
	})
}

func (s *session) sendCancel() {
	s.mu.Lock()
	native := s.t.session
	s.mu.Unlock()
	_ = s.conn.Notify(context.Background(), "session/cancel", object{"sessionId": native}) // an agent that is gone needs none
}

// decide hands the engine's answer to the agent.
func (s *session) decide(key string, d harness.Decision) error {
	s.do(func(t *translator) { t.resolve(key, d) })
	return nil
}
