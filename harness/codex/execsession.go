package codex

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentserver/harness"
	"agentserver/harness/internal/inbox"
	"agentserver/harness/internal/process"
	"agentserver/harness/internal/redact"
	"agentserver/protocol"
)

// An execSession is a thread, and while a turn runs, a process.
type execSession struct {
	d   *execHarness
	exe harness.Executable
	log *slog.Logger

	inbox *inbox.Inbox
	wg    sync.WaitGroup

	mu     sync.Mutex // guards all that follows
	spec   harness.Spec
	native string     // the thread to go on with
	run    *execution // the turn that runs
	closed bool       // no turn may begin: by Close, or because codex was killed
	exited bool       // the inbox has its end
}

// An execution is one turn.
type execution struct {
	prompt string
	prefix string
	images string // folder of the images; "" without
	files  []string

	done chan struct{} // closed when the turn is over and codex is gone

	// Guarded by the session's lock.
	proc        *process.Process
	interrupted bool
	killed      bool
	offline     bool // interrupted by us, for want of a network
}

// Apply implements [harness.Session]: all but the thread is the next run's affair.
func (s *execSession) Apply(_ context.Context, spec harness.Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next := spec.Config.ResumeSessionID; s.closed || next != s.spec.Config.ResumeSessionID && next != s.native {
		return harness.ErrRestart
	}
	s.spec = spec
	return nil
}

// Send implements [harness.Session]: it returns when codex runs.
func (s *execSession) Send(ctx context.Context, turn harness.Turn) error {
	prompt, images, err := execInput(turn.Input)
	if err != nil {
		return err
	}
	x := &execution{prompt: prompt, prefix: string(turn.ID) + "-", done: make(chan struct{})}
	if err := x.saveImages(images); err != nil {
		return err
	}
	s.mu.Lock()
	spec, resume := s.spec, s.native
	s.mu.Unlock()
	proc, err := s.start(ctx, x, spec, resume)
	if err != nil {
		x.removeImages()
		return err
	}
	x.proc = proc
	if !s.begin(x, func() { s.work(x, spec, resume) }) {
		x.removeImages()
		_ = proc.Close(context.Background(), nil)
		return &harness.Error{Category: protocol.CategoryProcessExit, Message: errGone.Error(), Err: errGone}
	}
	return nil
}

// begin makes x the turn that runs, unless the session is closed.
func (s *execSession) begin(x *execution, work func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.run = x
	s.wg.Go(work)
	return true
}

func (s *execSession) start(ctx context.Context, x *execution, spec harness.Spec, resume string) (*process.Process, error) {
	opts := &s.d.opts
	hidden := secrets(spec)
	proc, err := process.Start(ctx, process.Spec{
		Path: s.exe.Path, Args: slices.Concat(s.exe.Args, execArguments(opts, spec, resume, x.files)),
		Dir: spec.Config.Cwd, Env: execEnvironment(opts, spec, s.exe), Marker: string(spec.SessionID), Secrets: hidden,
		MaxLine: opts.MaxLine, Logger: s.log, NoReaper: opts.NoReaper,
	})
	if err != nil {
		return nil, &harness.Error{Category: protocol.CategoryProcessExit, Message: "codex could not be started: " + err.Error(), Err: err}
	}
	return proc, nil
}

// work drives one turn to its end. A thread that codex does not have is given up for a new one.
func (s *execSession) work(x *execution, spec harness.Spec, resume string) {
	defer x.removeImages()
	s.inbox.Add(0, execServersOf(&spec.Config).failures...)
	instructions := spec.Config.SystemPromptAppend
	if known, ok := s.d.memory.instructed(resume); resume != "" && instructions != known && (ok || instructions != "") {
		s.inbox.Add(0, harness.Failure{Category: protocol.CategoryInvalidRequest, Message: "config.systemPromptAppend: codex exec takes it for new sessions only; this one goes on with what it began with. Start a new session, or use codex-app-server"})
	}
	run, readErr := s.attempt(x, spec)
	if run.thread == "" && resume != "" && lost(x.proc.StderrTail(stderrLines)) && !s.stopped(x) {
		_ = x.proc.Close(context.Background(), nil)
		s.inbox.Add(0, harness.Notice{Kind: protocol.NoticeWarning, Message: fmt.Sprintf("codex has no session %s to resume, so a new one was started", resume)})
		proc, err := s.start(context.Background(), x, spec, "")
		if err != nil {
			s.finish(x, run, harness.TurnEnd{StopReason: protocol.StopError, Error: harness.TurnError(err, protocol.CategoryProcessExit)}, "")
			return
		}
		s.mu.Lock()
		x.proc = proc
		stop := x.interrupted || x.killed
		s.mu.Unlock()
		if stop {
			_ = proc.Kill()
		}
		resume = ""
		run, readErr = s.attempt(x, spec)
	}
	_ = x.proc.Close(context.Background(), execLadder) // it has closed its output: it is on its way out
	s.finish(x, run, s.otherwise(x, readErr), resume)
}

// noNetwork ends a run that does nothing but wait for the network. The reader sees the end.
func (s *execSession) noNetwork(x *execution, proc *process.Process) {
	s.mu.Lock()
	x.offline = true
	s.mu.Unlock()
	_ = proc.Interrupt() // it may have ended
}

func (s *execSession) stopped(x *execution) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return x.interrupted || x.killed
}

// attempt runs codex once, up to the end of its output.
func (s *execSession) attempt(x *execution, spec harness.Spec) (*execRun, error) {
	run := newExecRun(x.prefix, spec.Config.Model)
	run.t.raw, run.t.redact, run.t.log = spec.Config.IncludeRaw, redact.New(secrets(spec)), s.log
	run.client = spec.Resume
	proc := x.proc
	network := time.AfterFunc(time.Hour, func() { s.noNetwork(x, proc) })
	defer network.Stop()
	network.Stop()
	for line := range strings.SplitSeq(x.prompt, "\n") {
		if proc.WriteLine(context.Background(), []byte(line)) != nil {
			break // it has given up: its output says why
		}
	}
	proc.CloseStdin() // codex waits for the end of its input
	for {
		line, err := proc.ReadLine()
		if errors.Is(err, io.EOF) {
			<-proc.Done()
			return run, nil
		}
		if err != nil {
			_ = proc.Kill()
			return run, err
		}
		waited := run.t.waiting
		run.line(line)
		if run.t.waiting && !waited {
			network.Reset(s.d.opts.NetworkWait)
		} else if !run.t.waiting {
			network.Stop()
		}
		s.inbox.Add(0, run.t.events...)
		run.t.events = nil
	}
}

// otherwise is how the turn ends when codex did not say: cancelled, or with its exit.
func (s *execSession) otherwise(x *execution, readErr error) harness.TurnEnd {
	s.mu.Lock()
	interrupted, killed, offline := x.interrupted, x.killed, x.offline
	s.mu.Unlock()
	if offline && !interrupted && !killed {
		return harness.TurnEnd{StopReason: protocol.StopError, Error: noNetwork}
	}
	if interrupted && !killed {
		return harness.TurnEnd{StopReason: protocol.StopCancelled, FinishReason: "interrupted"}
	}
	e := exitError(x.proc, readErr, killed, "; the next turn resumes the session")
	for _, known := range execFailures {
		if strings.Contains(e.Message, known.text) {
			e.Category = protocol.CategoryInvalidRequest
			e.Message += " (" + known.advice + ")"
			break
		}
	}
	return harness.TurnEnd{StopReason: protocol.StopError, Error: e}
}

// execFailures are known reasons for an exit without a word on stdout.
var execFailures = append([]struct{ text, advice string }{
	{"archived", "check config.resumeSessionId"},
	{"thread/resume failed", "check config.resumeSessionId, and that no other process uses the session"},
}, startFailures...)

// finish ends the turn, now that codex is gone and the thread is free for the next. Where codex was killed the session ends with it.
func (s *execSession) finish(x *execution, run *execRun, otherwise harness.TurnEnd, resume string) {
	var used *tokenCount
	if run.usage != nil {
		if n, known := s.d.memory.used(run.thread, *run.usage, run.thread != resume); known {
			used = &n
		}
	}
	state, _ := x.proc.ExitState()
	s.mu.Lock()
	killed := x.killed || state.Signal != 0 && !x.interrupted && !x.offline && run.end == nil
	s.mu.Unlock()
	if killed {
		run.t.settleAll()
	} else {
		run.finish(otherwise, used)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if run.thread != "" {
		s.native = run.thread
		if run.thread != resume {
			s.d.memory.instruct(run.thread, s.spec.Config.SystemPromptAppend)
		}
	}
	s.run = nil
	s.inbox.Add(0, run.t.events...)
	if killed && !s.exited {
		s.closed, s.exited = true, true
		s.inbox.End(harness.Exit{Error: otherwise.Error})
	}
	close(x.done)
}

// Recv implements [harness.Session].
func (s *execSession) Recv(ctx context.Context) (harness.Event, error) { return s.inbox.Recv(ctx) }

// Interrupt implements [harness.Session]: SIGINT, upon which codex kills its commands; SIGTERM would orphan them. Where that does not help, it is
// killed with its tree.
func (s *execSession) Interrupt(ctx context.Context) error {
	s.mu.Lock()
	x := s.run
	if x == nil {
		s.mu.Unlock()
		return nil
	}
	x.interrupted = true
	proc := x.proc
	s.mu.Unlock()
	if err := proc.Close(ctx, execLadder); err != nil {
		return err
	}
	select {
	case <-x.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Kill implements [harness.Killer]. It ends the session, also between turns, when there is no process.
func (s *execSession) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch x := s.run; {
	case s.closed:
	case x != nil && !x.killed:
		x.killed = true
		s.wg.Go(func() { _ = x.proc.Kill() })
	case x == nil:
		s.closed, s.exited = true, true
		s.inbox.End(harness.Exit{Error: &protocol.TurnError{
			Category: protocol.CategoryProcessExit, Message: "codex was killed; the next turn resumes the session"}})
	}
}

// Close implements [harness.Session].
func (s *execSession) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var proc *process.Process
	if x := s.run; x != nil {
		x.interrupted = true
		proc = x.proc
	}
	s.mu.Unlock()
	var err error
	if proc != nil {
		err = proc.Close(ctx, execLadder)
	}
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.exited {
		s.exited = true
		s.inbox.End(harness.Exit{})
	}
	return err
}

// saveImages puts the images where codex can read them.
func (x *execution) saveImages(images []protocol.InputItem) error {
	if len(images) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "agent-server-images-")
	if err != nil {
		return &harness.Error{Category: protocol.CategoryInternal, Message: "the images could not be saved for codex: make room in the temporary folder", Err: err}
	}
	x.images = dir
	for i, image := range images {
		data, err := base64.StdEncoding.DecodeString(image.Data)
		if err == nil {
			file := filepath.Join(dir, strconv.Itoa(i)+imageSuffix(image.MimeType))
			err = os.WriteFile(file, data, 0o600)
			x.files = append(x.files, file)
		}
		if err != nil {
			x.removeImages()
			return &harness.Error{Category: protocol.CategoryInvalidRequest, Message: fmt.Sprintf("image %d could not be saved for codex: check its data", i), Err: err}
		}
	}
	return nil
}

func (x *execution) removeImages() {
	if x.images != "" {
		_ = os.RemoveAll(x.images)
	}
}

// imageSuffix is a file name's ending for a type; codex looks at the content.
func imageSuffix(mime string) string {
	switch mime {
	case "image/jpeg":
		return ".jpg"
	case "image/gif":
		return ".gif"
	case "image/webp":
		return ".webp"
	}
	return ".png"
}
