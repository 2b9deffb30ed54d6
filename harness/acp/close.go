package acp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentserver/harness"
	"agentserver/harness/internal/process"
	"agentserver/internal/transport"
	"agentserver/protocol"
)

// errGone means that the agent has exited.
var errGone = errors.New("the agent has exited: open the session again")

const (
	// stderrLines is how much of stderr goes into an error.
	stderrLines = 20
	// lateExit is how long an agent that has closed its output may live on.
	lateExit = 5 * time.Second
)

// broken is told why the streams cannot be used any more.
func (s *session) broken(err error) {
	s.mu.Lock()
	if s.breach == nil {
		s.breach = err
	}
	s.mu.Unlock()
	_ = s.proc.Kill()
}

// watch waits for the end of the agent's output, and reports the end of the agent. Agents that start a child of their own leave it behind with the same
// pipes when they die: so the whole tree goes.
func (s *session) watch() {
	<-s.conn.Done()
	select {
	case <-s.proc.Done():
	case <-s.closing:
	case <-time.After(lateExit):
	}
	select {
	case <-s.closing: // Close goes down the ladder
	default:
		_ = s.proc.Kill()
	}
	exit := harness.Exit{Error: s.exitError()}
	s.mu.Lock()
	s.timer.Stop()
	s.gone = true
	s.t.confirm()
	clear(s.t.perms)
	s.inbox.End(exit)
	s.mu.Unlock()
	close(s.ended)
}

// exitError says how the agent ended; nil when it was asked to.
func (s *session) exitError() *protocol.TurnError {
	select {
	case <-s.closing:
		return nil
	default:
	}
	s.mu.Lock()
	killed, breach := s.killed, s.breach
	s.mu.Unlock()
	if tooLong, ok := errors.AsType[*process.LineTooLongError](breach); ok {
		return &protocol.TurnError{Category: protocol.CategoryInternal, Message: fmt.Sprintf(
			"%s printed a line of %d bytes, more than the limit of %d, and was stopped: the next turn starts it again and resumes; have its tools print less at once",
			s.t.name, tooLong.Size, tooLong.Limit)}
	}
	again := "; the next turn starts it again and resumes the session where it can"
	if breach != nil {
		return &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: s.t.name + " was stopped: " + s.redact.Text(breach.Error()) + again}
	}
	if killed {
		return &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: s.t.name + " did not stop when it was asked to, and was killed" + again}
	}
	return &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: s.t.name + " " + s.exitWords() + again}
}

// exitWords says how the process ended, with its last words.
func (s *session) exitWords() string {
	message := "closed its output and was stopped"
	if state, ok := s.proc.ExitState(); ok {
		message = state.String()
		if hint := state.Hint(); hint != "" {
			message += " (" + hint + ")"
		}
	}
	return message + s.lastWords()
}

// stderr returns the last lines of stderr.
func (s *session) stderr() string { return strings.TrimSpace(s.proc.StderrTail(stderrLines)) }

// lastWords returns what the agent said outside of messages, to be put into a sentence.
func (s *session) lastWords() string {
	if tail := s.stderr(); tail != "" {
		return ": " + tail
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.junk) > 0 {
		return ": it printed " + strings.Join(s.junk, " / ")
	}
	return ""
}

// startFailure explains an exit before there was a session.
func (s *session) startFailure() error {
	<-s.ended
	return &harness.Error{Category: protocol.CategoryProcessExit, Err: errGone, Message: s.t.name + " did not start as an ACP agent: it " + s.exitWords() +
		"; check its command line, and that it is set up on this machine"}
}

func (s *session) goneError() error {
	return &harness.Error{Category: protocol.CategoryProcessExit, Message: errGone.Error(), Err: errGone}
}

func (s *session) sendError(err error) error {
	if errors.Is(err, transport.ErrClosed) {
		return s.goneError()
	}
	return &harness.Error{Category: protocol.CategoryProcessExit, Message: "the message could not be handed to " + s.t.name + ": " + err.Error(), Err: err}
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

// Close implements [harness.Session]: a running turn is cancelled and gets a moment to end, then the agent goes down the ladder, then what is left of its
// tree is killed.
func (s *session) Close(ctx context.Context) error {
	s.stopTurn(ctx)
	s.closeOnce.Do(func() { close(s.closing) })
	err := s.proc.Close(ctx, s.driver.opts.Ladder)
	s.join()
	return err
}

func (s *session) stopTurn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.driver.opts.InterruptWait)
	defer cancel()
	if ctx.Err() == nil {
		_ = s.Interrupt(ctx) // what does not stop is killed
	}
}

// closeAtOnce kills an agent whose start has failed.
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
	_ = s.conn.Close(transport.CloseNormal, "")
	s.wg.Wait()
}
