package codex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"agentserver/harness"
	"agentserver/harness/internal/inbox"
	"agentserver/harness/internal/process"
	"agentserver/harness/internal/redact"
	"agentserver/protocol"
)

// A session is one app-server process, its thread and its translator.
type session struct {
	opts   *Options
	memory *memory
	proc   *process.Process
	log    *slog.Logger

	inbox   *inbox.Inbox
	closing chan struct{} // closed by Close
	ended   chan struct{} // closed when the reader has ended: the inbox gets nothing more
	wg      sync.WaitGroup

	unsent chan struct{} // has one token when there are lines to write

	mu      sync.Mutex // guards all that follows; never held while writing to codex
	out     [][]byte   // lines to write, in order
	t       *translator
	spec    harness.Spec // as last applied
	model   string       // of the thread, when the config names none
	mode    bool         // codex must be told its collaboration mode
	waiters map[int64]chan answer
	gone    bool // ended is closed, or about to be
	killed  bool // by Kill
	joining bool // no goroutine may be started any more
	stall   *time.Timer
	stalled bool // stall runs

	closeOnce sync.Once
}

// start runs the app-server and opens the thread. On error nothing is left running.
func (d *appServer) start(ctx context.Context, spec harness.Spec, exe harness.Executable) (harness.Session, error) {
	hidden := secrets(spec)
	log := spec.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	args := slices.Concat(exe.Args, []string{"app-server"}, keptFromCommands, d.opts.Args)
	proc, err := process.Start(ctx, process.Spec{
		Path: exe.Path, Args: args, Dir: spec.Config.Cwd, Env: environment(&d.opts, spec, exe, nil),
		Marker: string(spec.SessionID), Secrets: hidden, MaxLine: d.opts.MaxLine, Logger: log, NoReaper: d.opts.NoReaper,
	})
	if err != nil {
		return nil, &harness.Error{Category: protocol.CategoryProcessExit, Message: "codex could not be started: " + err.Error(), Err: err}
	}
	s := newSession(d, spec, proc, redact.New(hidden), log)
	s.wg.Go(s.read)
	s.wg.Go(s.write)
	if err := s.handshake(ctx); err != nil {
		s.closeAtOnce()
		return nil, err
	}
	return s, nil
}

func newSession(d *appServer, spec harness.Spec, proc *process.Process, hide redact.Redactor, log *slog.Logger) *session {
	s := &session{
		opts: &d.opts, memory: &d.memory, proc: proc, log: log, spec: spec,
		inbox: inbox.New(), unsent: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
		t: newTranslator(), waiters: map[int64]chan answer{},
	}
	s.t.asks, s.t.raw = spec.Config.AsksPermission(), spec.Config.IncludeRaw
	s.t.redact, s.t.log, s.t.decide = hide, log, s.decide
	s.stall = time.AfterFunc(time.Hour, s.networkOver)
	s.stall.Stop()
	return s
}

// read feeds the translator until codex has ended.
func (s *session) read() {
	err := s.readLines()
	s.finish(err)
}

// readLines returns the error that ended the reading; nil at the end of the output.
func (s *session) readLines() error {
	for {
		line, err := s.proc.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.do(func() {
			s.t.line(line)
			s.inbox.Add(len(line))
		})
		s.inbox.HoldBack(s.closing, s.mustRead)
	}
}

// do lets the translator work under the lock, and hands on what it wants.
func (s *session) do(work func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	work()
	s.collect()
}

// write writes lines until codex is gone. It is apart from the reader, which must go on while codex does not read.
func (s *session) write() {
	for {
		select {
		case <-s.unsent:
		case <-s.closing:
			return
		case <-s.ended:
			return
		}
		s.mu.Lock()
		lines := s.out
		s.out = nil
		s.mu.Unlock()
		for _, line := range lines {
			if err := s.proc.WriteLine(context.Background(), line); err != nil {
				s.log.Debug("codex: line not sent", "error", err) // it is on its way out, which the reader sees
				return
			}
		}
	}
}

// collect moves what the translator has produced to where it belongs. mu is held.
func (s *session) collect() {
	t := s.t
	if len(t.events) > 0 {
		s.inbox.Add(0, t.events...)
		clear(t.events)
		t.events = t.events[:0]
	}
	for _, a := range t.answers {
		if ch := s.waiters[a.id]; ch != nil {
			delete(s.waiters, a.id)
			ch <- a // has room
		}
	}
	t.answers = nil
	if t.waiting != s.stalled && !s.gone {
		if s.stalled = t.waiting; s.stalled {
			s.stall.Reset(s.opts.NetworkWait)
		} else {
			s.stall.Stop()
		}
	}
	if len(t.out) > 0 {
		s.out = append(s.out, t.out...)
		t.out = nil
		signal(s.unsent)
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// networkOver ends a turn that waits for the network for too long.
func (s *session) networkOver() {
	s.do(func() {
		if !s.gone {
			s.t.giveUp()
		}
	})
}

// mustRead reports whether somebody waits for an answer that is still to be read.
func (s *session) mustRead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiters) > 0 || s.t.turn.confirmed != nil
}

// Recv implements [harness.Session].
func (s *session) Recv(ctx context.Context) (harness.Event, error) { return s.inbox.Recv(ctx) }

// Send implements [harness.Session]: it returns when codex has taken the turn.
func (s *session) Send(ctx context.Context, turn harness.Turn) error {
	input, err := userInput(turn.Input)
	if err != nil {
		return err
	}
	_, err = s.callWith(ctx, func() int64 {
		s.inbox.DropTurnEnds()
		if asksToCompact(turn.Input) {
			s.t.manual = true
			return s.t.begin("thread/compact/start", object{"threadId": s.t.native})
		}
		s.t.model = s.modelOf(&s.spec.Config)
		if policyOf(&s.spec.Config).plan {
			s.mode = true
		}
		params := turnParams(s.t.native, s.t.model, &s.spec.Config, input)
		if !s.mode {
			delete(params, "collaborationMode")
		}
		for _, e := range unsupportedServers(&s.spec.Config) {
			s.t.emit(e)
		}
		return s.t.begin("turn/start", params)
	})
	if err == nil {
		return nil
	}
	s.do(func() { s.t.takeBack() })
	if e, ok := errors.AsType[*callError](err); ok {
		return &harness.Error{Category: protocol.CategoryInvalidRequest, Message: "codex did not take the turn: " + e.Message, Err: err}
	}
	s.Kill() // it may have the turn all the same, and must not run it
	return s.callFailed("turn/start", err)
}

func (s *session) modelOf(c *protocol.RunConfig) string {
	if c.Model != "" {
		return c.Model
	}
	return s.model
}

// Apply implements [harness.Session]. Model, thinking level, permission mode, directories and includeRaw go with each turn; the rest belongs to
// the thread or the process.
func (s *session) Apply(_ context.Context, spec harness.Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, next := &s.spec.Config, &spec.Config
	resumesOther := next.ResumeSessionID != old.ResumeSessionID && next.ResumeSessionID != s.t.native
	if s.gone || resumesOther || next.Cwd != old.Cwd || next.APIKey != old.APIKey || next.SystemPromptAppend != old.SystemPromptAppend ||
		!maps.Equal(next.Env, old.Env) || !reflect.DeepEqual(next.MCPServers, old.MCPServers) ||
		next.Model == "" && old.Model != "" || effort(next.ThinkingLevel) == "" && effort(old.ThinkingLevel) != "" { // codex cannot unset these
		return harness.ErrRestart
	}
	s.spec = spec
	s.t.raw, s.t.asks = next.IncludeRaw, next.AsksPermission()
	return nil
}

// Interrupt implements [harness.Session]. It returns when the turn has been stopped and its commands have been killed.
func (s *session) Interrupt(ctx context.Context) error {
	var confirmed <-chan struct{}
	s.do(func() {
		if !s.gone && s.t.busy() {
			confirmed = s.t.interrupt()
			s.inbox.Nudge() // the reader must go on
		}
	})
	if confirmed == nil {
		return nil
	}
	select {
	case <-confirmed:
		s.sweepSandboxes()
		return nil
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sandboxHelpers are the programs through which codex runs commands on Linux, one starting the other.
var sandboxHelpers = []string{"codex-linux-sandbox", "bwrap"}

// sweepSandboxes kills commands that codex has lost: told to kill one whose sandbox is still being set up, it kills the outer helper only, forgets the
// command, and the inner helper goes on to run it. It looks again for a while, since that takes its time on a busy machine.
func (s *session) sweepSandboxes() {
	sweep := func() {
		if err := s.proc.KillOrphans(sandboxHelpers...); err != nil {
			s.log.Warn("codex: interrupted commands may go on", "error", err)
		}
	}
	sweep()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joining {
		return
	}
	s.wg.Go(func() {
		for _, pause := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second, 5 * time.Second} {
			select {
			case <-time.After(pause):
				sweep()
			case <-s.closing:
				return
			case <-s.ended:
				return
			}
		}
	})
}

// decide hands the engine's answer to codex.
func (s *session) decide(key string, d harness.Decision) error {
	s.do(func() { s.t.answer(key, d) })
	return nil
}

// Steer implements [harness.Steerer]. While text streams codex cuts the reply short; while a command runs it hears of it afterwards.
func (s *session) Steer(ctx context.Context, input protocol.Input) (bool, error) {
	items, err := userInput(input)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	active, started := s.t.turn.active && !s.t.turn.interrupted && !s.gone, s.t.turn.started
	s.mu.Unlock()
	if !active {
		return false, nil
	}
	select {
	case <-started:
	case <-s.ended:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	_, err = s.callWith(ctx, func() int64 {
		return s.t.request("turn/steer", object{"threadId": s.t.native, "expectedTurnId": s.t.turn.id, "input": items})
	})
	if _, declined := errors.AsType[*callError](err); declined || errors.Is(err, errGone) {
		return false, nil // nothing runs any more, or it is nothing that can be steered
	}
	return err == nil, err
}

// handshake greets codex, then starts or resumes the thread.
func (s *session) handshake(ctx context.Context) error {
	_, err := s.call(ctx, "initialize", object{
		"clientInfo": object{"name": "agent_server", "title": "agent-server", "version": "1"},
		"capabilities": object{"experimentalApi": true, "requestAttestation": false, "optOutNotificationMethods": []string{
			"account/rateLimits/updated", "remoteControl/status/changed", "thread/started", "turn/diff/updated"}},
	})
	if err != nil {
		return s.callFailed("initialize", err)
	}
	s.do(func() { s.t.send(encode(object{"method": "initialized"})) })
	prov, err := s.provider(ctx)
	if err != nil {
		return err
	}
	return s.openThread(ctx, threadParams(s.spec, prov))
}

// openThread resumes the thread that was asked for, and starts a new one where there is none to resume.
func (s *session) openThread(ctx context.Context, params object) error {
	if s.spec.Resume != "" {
		again := maps.Clone(params)
		again["threadId"], again["excludeTurns"] = s.spec.Resume, true
		raw, err := s.resume(ctx, again)
		if err == nil {
			if err := s.threadBegun(raw, false); err != nil {
				return err
			}
			return s.instruct(ctx)
		}
		e, ok := errors.AsType[*callError](err)
		if !ok {
			return s.callFailed("thread/resume", err)
		}
		if !lost(e.Message) {
			return &harness.Error{Category: protocol.CategoryInvalidRequest, Message: "codex could not resume the session: " + e.Message + "; check config.resumeSessionId", Err: err}
		}
		s.do(func() {
			s.t.emit(harness.Notice{Kind: protocol.NoticeWarning, Message: fmt.Sprintf("codex has no session %s to resume, so a new one was started", s.spec.Resume)})
		})
	}
	raw, err := s.call(ctx, "thread/start", params)
	if err == nil {
		err := s.threadBegun(raw, true)
		s.memory.instruct(s.t.native, s.spec.Config.SystemPromptAppend)
		return err
	}
	if e, ok := errors.AsType[*callError](err); ok {
		return &harness.Error{Category: protocol.CategoryInvalidRequest, Message: "codex did not start a session: " + e.Message, Err: err}
	}
	return s.callFailed("thread/start", err)
}
