package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"agentserver/harness"
	"agentserver/harness/internal/inbox"
	"agentserver/harness/internal/process"
	"agentserver/harness/internal/redact"
	"agentserver/protocol"
)

// A session is one CLI process and its translator.
type session struct {
	driver *driver
	proc   *process.Process
	log    *slog.Logger
	redact redact.Redactor

	inbox   *inbox.Inbox
	closing chan struct{} // closed by Close
	ended   chan struct{} // closed when the reader has ended: the inbox gets nothing more
	wg      sync.WaitGroup

	applying sync.Mutex // held by Apply: one at a time

	mu      sync.Mutex // guards all that follows; never held while writing to the CLI
	t       *translator
	spec    harness.Spec // as last applied
	waiters map[string]chan response
	gone    bool // ended is closed, or about to be
	killed  bool // by Kill
	joining bool // no goroutine may be started any more
	quiet   *time.Timer

	closeOnce sync.Once
}

// start runs the CLI and shakes hands with it. On error nothing is left running.
//
// A session that only the engine wants to resume may not be there: the CLI was killed before it had stored anything. Then a new one is begun, and
// reported as not resumed. What a client asks for by its id is never replaced so.
func (d *driver) start(ctx context.Context, spec harness.Spec, exe harness.Executable) (harness.Session, error) {
	s, err := d.launch(ctx, spec, exe)
	if !errors.Is(err, errNoConversation) || spec.Resume == spec.Config.ResumeSessionID {
		return s, err
	}
	lost := spec.Resume
	spec.Resume, spec.ResumeAt = "", ""
	fresh, err := d.launch(ctx, spec, exe)
	if err != nil {
		return nil, err
	}
	fresh.(*session).notResumed(lost)
	return fresh, nil
}

func (d *driver) launch(ctx context.Context, spec harness.Spec, exe harness.Executable) (harness.Session, error) {
	hidden := secrets(spec)
	log := spec.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	args := append(slices.Clone(exe.Args), arguments(spec, protocol.NewID())...)
	proc, err := process.Start(ctx, process.Spec{
		Path: exe.Path, Args: args, Dir: spec.Config.Cwd, Env: environment(spec, d.opts.Entrypoint),
		Marker: string(spec.SessionID), Secrets: hidden, MaxLine: d.opts.MaxLine, Logger: log, NoReaper: d.opts.NoReaper,
	})
	if err != nil {
		return nil, &harness.Error{Category: protocol.CategoryProcessExit, Message: "claude could not be started: " + err.Error(), Err: err}
	}
	s := newSession(d, spec, proc, redact.New(hidden), log)
	s.reportMissing()
	s.wg.Go(s.read)
	if err := s.handshake(ctx); err != nil {
		s.closeAtOnce()
		return nil, err
	}
	return s, nil
}

// notResumed makes the session say that the one before it is lost.
func (s *session) notResumed(lost string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.resumed = new(false)
	s.t.emit(harness.Notice{Kind: protocol.NoticeWarning, Message: "claude has no conversation " + lost + " any more, and begins a new one"})
	s.collect()
}

func newSession(d *driver, spec harness.Spec, proc *process.Process, hide redact.Redactor, log *slog.Logger) *session {
	s := &session{
		driver: d, proc: proc, log: log, redact: hide, spec: spec,
		inbox: inbox.New(), closing: make(chan struct{}), ended: make(chan struct{}),
		t: newTranslator(), waiters: map[string]chan response{},
	}
	s.t.resume, s.t.asks, s.t.raw = spec.Resume, spec.Config.AsksPermission(), spec.Config.IncludeRaw
	s.t.redact, s.t.log, s.t.decide = hide, log, s.decide
	s.quiet = time.AfterFunc(time.Hour, s.quietOver)
	s.quiet.Stop()
	return s
}

// reportMissing tells of directories that the CLI would pass over in silence.
func (s *session) reportMissing() {
	for _, dir := range s.spec.Config.AdditionalDirectories {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			s.inbox.Add(0, harness.Failure{Category: protocol.CategoryInvalidRequest,
				Message: "config.additionalDirectories: " + dir + " is not a directory, and is left out: create it, or name another"})
		}
	}
}

// read feeds the translator until the CLI has ended.
func (s *session) read() {
	exit := s.readLines()
	s.finish(exit)
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
		s.handle(line)
		s.inbox.HoldBack(s.closing, s.mustRead)
	}
}

// handle takes one line through the translator, and does what it wants.
func (s *session) handle(line []byte) {
	s.mu.Lock()
	s.t.line(line)
	if len(s.t.events) > 0 {
		s.inbox.Add(len(line))
	}
	out := s.collect()
	s.mu.Unlock()
	s.write(out)
}

// mustRead reports whether somebody waits for an answer that is still to be read.
func (s *session) mustRead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiters) > 0
}

// Recv implements [harness.Session].
func (s *session) Recv(ctx context.Context) (harness.Event, error) { return s.inbox.Recv(ctx) }

// collect moves what the translator has produced to where it belongs, and returns the lines to write. mu is held.
func (s *session) collect() [][]byte {
	t := s.t
	if len(t.events) > 0 {
		s.inbox.Add(0, t.events...)
		clear(t.events)
		t.events = t.events[:0]
	}
	for _, r := range t.responses {
		if ch := s.waiters[r.id]; ch != nil {
			delete(s.waiters, r.id)
			ch <- r // has room
		}
	}
	t.responses = t.responses[:0]
	if t.quiet() && !s.gone {
		s.quiet.Reset(s.driver.opts.Quiet)
	} else {
		s.quiet.Stop()
	}
	out := t.out
	t.out = nil
	return out
}

// write sends lines that nobody waits for. A CLI that no longer reads is on its way out, which the reader sees.
func (s *session) write(lines [][]byte) {
	for _, line := range lines {
		if err := s.proc.WriteLine(context.Background(), line); err != nil {
			s.log.Debug("claude: line not sent", "error", err)
			return
		}
	}
}

// quietOver ends a turn that work in the background had opened, after a silence.
func (s *session) quietOver() {
	s.mu.Lock()
	if !s.gone {
		s.t.endQuiet()
	}
	out := s.collect()
	s.mu.Unlock()
	s.write(out)
}

// handshakeRequest asks for what sub-agents say, too.
func handshakeRequest(spec harness.Spec) object {
	r := object{"subtype": "initialize", "forwardSubagentText": true}
	if spec.Config.SystemPromptAppend != "" {
		r["appendSystemPrompt"] = spec.Config.SystemPromptAppend
	}
	return r
}

// handshake races the CLI's first answer against its end and the clock. Then it connects the MCP servers.
func (s *session) handshake(ctx context.Context) error {
	timeout := s.driver.opts.HandshakeTimeout
	hctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := s.request(hctx, handshakeRequest(s.spec)); err != nil {
		switch {
		case errors.Is(err, errGone):
			return s.startFailure()
		case ctx.Err() == nil && hctx.Err() != nil:
			return &harness.Error{Category: protocol.CategoryProcessExit, Err: err, Message: fmt.Sprintf(
				"claude did not answer within %s of its start%s: check that it runs on this machine (claude --version)", timeout, s.stderr())}
		}
		return err
	}
	s.seedUsage(ctx)
	return s.setServers(ctx, s.spec.Config, false)
}

// seedWait bounds the question for the totals. The CLI answers in milliseconds; for a subscription it may ask the network first.
const seedWait = 2 * time.Second

// seedUsage asks a resumed CLI what the session has used before: 2.1.332 counts on from there, 2.1.197 from nothing.
func (s *session) seedUsage(ctx context.Context) {
	if s.spec.Resume == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, seedWait)
	defer cancel()
	body, err := s.request(ctx, object{"subtype": "get_usage"})
	var r struct {
		Session struct {
			Cost       float64               `json:"total_cost_usd"`
			ModelUsage map[string]modelUsage `json:"model_usage"`
		} `json:"session"`
	}
	known := err == nil && json.Unmarshal(body, &r) == nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.acct.seed(r.Session.ModelUsage, r.Session.Cost, known)
}

// request sends a control request and waits for the answer. The error is ctx's, errGone, or the CLI's.
func (s *session) request(ctx context.Context, r object) (json.RawMessage, error) {
	ch := make(chan response, 1)
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		return nil, errGone
	}
	id := s.t.nextRequestID()
	s.waiters[id] = ch
	s.mu.Unlock()
	s.inbox.Nudge() // the reader must go on
	if err := s.proc.WriteLine(ctx, requestLine(id, r)); err != nil {
		if !errors.Is(err, process.ErrStdinClosed) {
			s.forget(id)
			return nil, err
		}
		// It has exited: the reader will find out why, and close ended.
	}
	select {
	case resp := <-ch:
		return resp.body, resp.err
	case <-ctx.Done():
		s.forget(id)
		return nil, context.Cause(ctx)
	case <-s.ended:
		select {
		case resp := <-ch:
			return resp.body, resp.err
		default:
			return nil, errGone
		}
	}
}

func (s *session) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiters, id)
}

// Send implements [harness.Session]. While the CLI works on a turn of its own, the message is held until that has ended.
func (s *session) Send(ctx context.Context, turn harness.Turn) error {
	id := protocol.NewID()
	line, err := userLine(id, turn.Input)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		return s.goneError()
	}
	s.inbox.DropTurnEnds()
	s.t.begin(id, line)
	out := s.collect()
	s.mu.Unlock()
	for _, line := range out {
		if err := s.proc.WriteLine(ctx, line); err != nil {
			s.takeBack()
			return s.sendError(err)
		}
	}
	return nil
}

// takeBack forgets a turn whose message could not be sent.
func (s *session) takeBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.turn = turn{}
}

// Interrupt implements [harness.Session].
func (s *session) Interrupt(ctx context.Context) error {
	s.mu.Lock()
	if s.gone || !s.t.busy() {
		s.mu.Unlock()
		return nil
	}
	confirmed := s.t.interrupt()
	out := s.collect()
	s.mu.Unlock()
	for _, line := range out {
		if err := s.proc.WriteLine(ctx, line); err != nil && !errors.Is(err, process.ErrStdinClosed) {
			return err
		}
	}
	select {
	case <-confirmed:
		return nil
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// decide hands the engine's answer to the CLI.
func (s *session) decide(key string, d harness.Decision) error {
	s.mu.Lock()
	line := s.t.answer(key, d)
	out := s.collect()
	s.mu.Unlock()
	s.write(out)
	if line == nil {
		return nil // withdrawn meanwhile
	}
	return s.proc.WriteLine(context.Background(), line)
}

// Steer implements [harness.Steerer]. While text streams it waits until a tool runs, or the turn ends.
func (s *session) Steer(ctx context.Context, input protocol.Input) (bool, error) {
	w := &steer{uuid: protocol.NewID(), done: make(chan bool, 1)}
	var err error
	if w.line, err = userLine(w.uuid, input); err != nil {
		return false, err
	}
	s.mu.Lock()
	if s.gone || !s.t.steer(w) {
		s.mu.Unlock()
		return false, nil
	}
	out := s.collect()
	s.mu.Unlock()
	s.write(out)
	select {
	case sent := <-w.done:
		return sent, nil
	case <-s.ended:
		return false, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	held := s.t.forgetSteer(w)
	s.mu.Unlock()
	if held {
		return false, context.Cause(ctx)
	}
	return <-w.done, nil // decided meanwhile
}
