package claude

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentserver/harness"
	"agentserver/harness/internal/process"
	"agentserver/protocol"
)

// errGone means that the CLI has exited.
var errGone = errors.New("claude has exited: open the session again")

const (
	// stderrLines and stderrBytes bound how much of stderr goes into an error.
	stderrLines = 20
	stderrBytes = 4096
	// lateExit is how long a CLI that has closed its output may live on.
	lateExit = 5 * time.Second
)

// finish reports the end of the CLI. readErr says why reading stopped before its output did.
func (s *session) finish(readErr error) {
	if readErr != nil {
		_ = s.proc.Kill()
	}
	select {
	case <-s.proc.Done():
	case <-s.closing:
	case <-time.After(lateExit):
		_ = s.proc.Kill()
	}
	exit := harness.Exit{Error: s.exitError(readErr)}
	s.mu.Lock()
	s.quiet.Stop()
	s.gone = true
	s.t.releaseSteers(false)
	s.t.confirm()
	s.inbox.End(exit)
	s.mu.Unlock()
	close(s.ended)
}

// exitError says how the CLI ended; nil when it was asked to.
func (s *session) exitError(readErr error) *protocol.TurnError {
	select {
	case <-s.closing:
		return nil
	default:
	}
	if tooLong, ok := errors.AsType[*process.LineTooLongError](readErr); ok {
		return &protocol.TurnError{Category: protocol.CategoryInternal, Message: fmt.Sprintf(
			"claude printed a line of %d bytes, more than the limit of %d, and was stopped: the next turn starts it again and resumes; have the tool print less at once",
			tooLong.Size, tooLong.Limit)}
	}
	s.mu.Lock()
	killed := s.killed
	s.mu.Unlock()
	if killed {
		return &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: "claude did not stop when it was asked to, and was killed; the next turn starts it again and resumes the session"}
	}
	state, ok := s.proc.ExitState()
	message := "claude closed its output and was stopped"
	if ok {
		message = "claude " + state.String()
		if hint := state.Hint(); hint != "" {
			message += " (" + hint + ")"
		}
	}
	return &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: message + s.stderr() + "; the next turn starts it again and resumes the session"}
}

// stderr returns the last words of the CLI, to be put into a sentence.
func (s *session) stderr() string {
	tail := s.lastWords()
	if tail == "" {
		return ""
	}
	return ": " + tail
}

func (s *session) lastWords() string {
	tail := strings.TrimSpace(s.proc.StderrTail(stderrLines))
	if cut := len(tail) - stderrBytes; cut > 0 { // a stack of minified code
		tail = "…" + strings.ToValidUTF8(tail[cut:], "")
	}
	return tail
}

// startFailure explains an exit before the first answer. Most have to do with the configuration, and say so on stderr.
func (s *session) startFailure() error {
	<-s.ended
	s.mu.Lock()
	reason := s.t.turn.startError
	s.mu.Unlock()
	if reason == "" {
		reason = s.lastWords()
	}
	state, _ := s.proc.ExitState()
	if reason == "" {
		reason = "it " + state.String() + " and said nothing"
	}
	for _, known := range startFailures {
		if strings.Contains(reason, known.text) {
			cause := cmp.Or(known.cause, errGone)
			return &harness.Error{Category: protocol.CategoryInvalidRequest, Message: withHint("claude did not start: "+reason, known.advice), Err: cause}
		}
	}
	return &harness.Error{Category: protocol.CategoryProcessExit, Message: "claude did not start: " + reason, Err: errGone}
}

// errNoConversation means that there is nothing to resume.
var errNoConversation = errors.New("claude has no such conversation")

// startFailures are the known reasons that a request can cause.
var startFailures = []struct {
	text, advice string
	cause        error
}{
	{"No conversation found", "the session to resume does not exist here: sessions are kept by working directory, so check config.cwd and resumeSessionId", errNoConversation},
	{"No message found", "check config.resumeSessionAt", nil},
	{"is already in use", "another claude holds the session: try again", nil},
	{"not a valid UUID", "check config.resumeSessionId", nil},
	{"--resume", "check config.resumeSessionId", nil},
	{"Invalid MCP", "check the MCP servers in claude's own settings", nil},
	{"unknown option", "this version of claude lacks an option that is needed: install the pinned version", nil},
	{"cannot be used with root", "run the server as another user, or set IS_SANDBOX to exactly 1", nil},
	{"argument", "check config.model, config.permissionMode and config.thinkingLevel", nil},
}

func (s *session) goneError() error {
	return &harness.Error{Category: protocol.CategoryProcessExit, Message: errGone.Error(), Err: errGone}
}

func (s *session) sendError(err error) error {
	if errors.Is(err, process.ErrStdinClosed) {
		return s.goneError()
	}
	return &harness.Error{Category: protocol.CategoryProcessExit, Message: "the message could not be handed to claude: " + err.Error(), Err: err}
}

// Kill implements [harness.Killer].
func (s *session) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.killed && !s.joining {
		s.killed = true
		s.wg.Go(func() { _ = s.proc.Kill() })
	}
}

// Close implements [harness.Session]: a running turn is interrupted and gets a moment to end, then the CLI goes down the ladder, then what is left of
// its tree is killed.
func (s *session) Close(ctx context.Context) error {
	s.stopTurn(ctx)
	s.closeOnce.Do(func() { close(s.closing) })
	err := s.proc.Close(ctx, s.driver.opts.Ladder)
	s.join()
	return err
}

// stopTurn interrupts what runs, and waits until it has ended.
func (s *session) stopTurn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.driver.opts.InterruptWait)
	defer cancel()
	if ctx.Err() != nil || s.Interrupt(ctx) != nil {
		return
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		s.mu.Lock()
		busy := s.t.busy() && !s.gone
		s.mu.Unlock()
		if !busy {
			return
		}
		select {
		case <-poll.C:
		case <-s.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// closeAtOnce kills a CLI whose start has failed.
func (s *session) closeAtOnce() {
	s.closeOnce.Do(func() { close(s.closing) })
	_ = s.proc.Close(context.Background(), nil)
	s.join()
}

// join waits for the goroutines. None is started from here on.
func (s *session) join() {
	s.mu.Lock()
	s.joining = true
	s.mu.Unlock()
	s.wg.Wait()
}
