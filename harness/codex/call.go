package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// errGone means that codex has exited.
var errGone = errors.New("codex has exited: open the session again")

// errNoAnswer means that codex did not answer in time: it drops what it cannot read without a word.
var errNoAnswer = errors.New("codex did not answer in time")

// call makes a call and waits for its answer. The error is ctx's, errNoAnswer, errGone, or codex's as a [*callError].
func (s *session) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	return s.callWith(ctx, func() int64 { return s.t.request(method, params) })
}

// callWith is call for what makes its request itself. queue runs under the lock.
func (s *session) callWith(ctx context.Context, queue func() int64) (json.RawMessage, error) {
	ch := make(chan answer, 1)
	var id int64
	s.do(func() {
		if s.gone {
			return
		}
		id = queue()
		s.waiters[id] = ch
		s.inbox.Nudge() // the reader must go on
	})
	if id == 0 {
		return nil, errGone
	}
	timeout := time.NewTimer(s.opts.CallTimeout)
	defer timeout.Stop()
	select {
	case a := <-ch:
		return a.result, a.err
	case <-ctx.Done():
		s.forget(id)
		return nil, context.Cause(ctx)
	case <-timeout.C:
		s.forget(id)
		return nil, errNoAnswer
	case <-s.ended:
		select {
		case a := <-ch:
			return a.result, a.err
		default:
			return nil, errGone
		}
	}
}

func (s *session) forget(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiters, id)
}

// callFailed explains a call that got no answer.
func (s *session) callFailed(method string, err error) error {
	switch {
	case errors.Is(err, errGone):
		<-s.ended
		state, _ := s.proc.ExitState()
		message := "codex " + state.String() + lastWords(s.proc)
		category := protocol.CategoryProcessExit
		for _, known := range startFailures {
			if strings.Contains(message, known.text) {
				category = protocol.CategoryInvalidRequest
				message += " (" + known.advice + ")"
				break
			}
		}
		return &harness.Error{Category: category, Message: message, Err: err}
	case errors.Is(err, errNoAnswer):
		return &harness.Error{Category: protocol.CategoryProcessExit, Err: err, Message: fmt.Sprintf(
			"codex did not answer %s within %s%s: check that it runs on this machine (codex --version)", method, s.opts.CallTimeout, lastWords(s.proc))}
	}
	return err
}

// startFailures are known reasons for an exit at the start.
var startFailures = []struct{ text, advice string }{
	{"CODEX_HOME", "create the folder that CODEX_HOME names, or unset it"},
	{"config.toml", "correct the file, or give the server a CODEX_HOME of its own"},
	{"error: ", "check the operator's arguments for codex"},
}

// How long, and how often, to wait for another process that still holds the thread.
const (
	resumeWait  = 5 * time.Second
	resumeRetry = 100 * time.Millisecond
)

// resume resumes a thread. One that another process holds is tried again: that may be on its way out.
func (s *session) resume(ctx context.Context, params object) (json.RawMessage, error) {
	deadline := time.Now().Add(resumeWait)
	for {
		raw, err := s.call(ctx, "thread/resume", params)
		if err == nil || !strings.Contains(err.Error(), "active writer") || time.Now().After(deadline) {
			return raw, err
		}
		select {
		case <-time.After(resumeRetry):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lost reports whether codex says that there is no such thread: unknown, never used, or no id of its own.
func lost(message string) bool {
	return strings.Contains(message, "no rollout found") || strings.Contains(message, "invalid session id") || strings.Contains(message, "thread not found")
}

// threadBegun takes codex's answer to thread/start or thread/resume.
func (s *session) threadBegun(raw json.RawMessage, fresh bool) error {
	var r struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
		Model string `json:"model"`
	}
	if err := json.Unmarshal(raw, &r); err != nil || r.Thread.ID == "" {
		return &harness.Error{Category: protocol.CategoryInternal, Message: "codex answered without a thread id: install the pinned version", Err: err}
	}
	s.do(func() {
		s.model, s.mode = r.Model, !fresh
		s.t.begun(r.Thread.ID, r.Model, fresh)
		if s.spec.Resume != "" {
			resumed := r.Thread.ID == s.spec.Resume
			s.t.resumed = &resumed
		}
	})
	return nil
}

// instruct gives config.systemPromptAppend to a resumed thread: codex takes instructions for new threads only, and keeps them in their history. A
// thread that has these is left alone.
func (s *session) instruct(ctx context.Context) error {
	text := s.spec.Config.SystemPromptAppend
	if known, ok := s.memory.instructed(s.t.native); text == known && (ok || text == "") {
		return nil
	}
	note := text
	if note == "" {
		note = "The additional instructions given at the beginning no longer apply."
	}
	_, err := s.call(ctx, "thread/inject_items", object{"threadId": s.t.native, "items": []object{{
		"type": "message", "role": "developer", "content": []object{{"type": "input_text", "text": note}},
	}}})
	if err == nil {
		s.memory.instruct(s.t.native, text)
		return nil
	}
	if e, ok := errors.AsType[*callError](err); ok {
		return &harness.Error{Category: protocol.CategoryInvalidRequest, Message: "codex did not take config.systemPromptAppend for the resumed session: " + e.Message, Err: err}
	}
	return s.callFailed("thread/inject_items", err)
}
