package codex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"agentserver/harness"
	"agentserver/harness/internal/process"
	"agentserver/protocol"
)

const (
	// stderrLines is how much of stderr goes into an error.
	stderrLines = 20
	// lateExit is how long a codex that has closed its output may live on.
	lateExit = 5 * time.Second
)

// finish reports the end of codex. readErr says why reading stopped before its output did.
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
	s.mu.Lock()
	s.stall.Stop()
	s.gone = true
	s.t.settleAll()
	s.collect()
	s.t.confirm()
	s.inbox.End(harness.Exit{Error: s.exitError(readErr)})
	s.mu.Unlock()
	close(s.ended)
}

// exitError says how codex ended; nil when it was asked to. mu is held.
func (s *session) exitError(readErr error) *protocol.TurnError {
	select {
	case <-s.closing:
		return nil
	default:
	}
	return exitError(s.proc, readErr, s.killed, "; the next turn starts it again and resumes the session")
}

// exitError puts an exit into words.
func exitError(proc *process.Process, readErr error, killed bool, next string) *protocol.TurnError {
	if tooLong, ok := errors.AsType[*process.LineTooLongError](readErr); ok {
		return &protocol.TurnError{Category: protocol.CategoryInternal, Message: fmt.Sprintf(
			"codex printed a line of %d bytes, more than the limit of %d, and was stopped%s; have the tool print less at once", tooLong.Size, tooLong.Limit, next)}
	}
	if killed {
		return &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: "codex did not stop when it was asked to, and was killed" + next}
	}
	message := "codex closed its output and was stopped"
	if state, ok := proc.ExitState(); ok {
		message = "codex " + state.String()
		if hint := state.Hint(); hint != "" {
			message += " (" + hint + ")"
		}
	}
	message += lastWords(proc)
	return &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: message + next}
}

// chatter is what codex says on stderr in every run.
var chatter = []string{"bubblewrap on PATH", "Reading prompt from stdin...", "failed to record rollout items"}

// lastWords returns the end of stderr, to be put into a sentence.
func lastWords(proc *process.Process) string {
	var words []string
	for line := range strings.Lines(proc.StderrTail(stderrLines)) {
		line = strings.TrimSpace(line)
		if line != "" && !slices.ContainsFunc(chatter, func(c string) bool { return strings.Contains(line, c) }) {
			words = append(words, line)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return ": " + strings.Join(words, "\n")
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

// Close implements [harness.Session]: a running turn is interrupted and gets a moment to end, then codex goes down the ladder, then what is left of
// its tree is killed.
func (s *session) Close(ctx context.Context) error {
	stop, cancel := context.WithTimeout(ctx, s.opts.InterruptWait)
	if err := s.Interrupt(stop); err != nil {
		s.log.Debug("codex: turn not stopped before closing", slog.Any("error", err))
	}
	cancel()
	s.closeOnce.Do(func() { close(s.closing) })
	err := s.proc.Close(ctx, s.opts.Ladder)
	s.join()
	return err
}

// closeAtOnce kills a codex whose start has failed.
func (s *session) closeAtOnce() {
	s.closeOnce.Do(func() { close(s.closing) })
	_ = s.proc.Close(context.Background(), nil)
	s.join()
}

// join waits for the goroutines. None is started from here on.
func (s *session) join() {
	s.mu.Lock()
	s.joining = true
	s.stall.Stop()
	s.mu.Unlock()
	s.wg.Wait()
}
