// Package parrot is a harness of one's own: an agent that repeats what it is told. It has no process and no network; a driver of a real agent has the
// same shape, with the agent's output in the place of live.
package parrot

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// A Harness opens parrots. The zero value is ready.
type Harness struct{}

// ID is what clients put into config.harness.
func (Harness) ID() protocol.HarnessID { return "parrot" }

// Capabilities says what a parrot delivers, and which fields of a config it cannot honour: a turn that uses one is told so.
func (Harness) Capabilities() protocol.Capabilities {
	return protocol.Capabilities{
		MultiTurn:          true,
		ModelSwitch:        protocol.ModelSwitchUnsupported,
		PermissionRequests: true,
		Unsupported: []string{"model", "thinkingLevel", "additionalDirectories", "systemPromptAppend", "maxTurns", "resumeSessionId",
			"resumeSessionAt", "mcpServers", "apiKey", "disableTools"},
	}
}

// Open starts a parrot.
func (Harness) Open(ctx context.Context, _ harness.Spec) (harness.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &session{
		native: "parrot-" + rand.Text(),
		turns:  make(chan turn),
		events: make(chan harness.Event),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
	}
	go s.live()
	return s, nil
}

// A session is one parrot: a goroutine that is told turns and yields events.
type session struct {
	native string
	turns  chan turn
	events chan harness.Event
	stop   chan struct{} // closed when the parrot is to go
	done   chan struct{} // closed when it has gone
	once   sync.Once     // closes stop
	exited bool          // Exit was received; Recv's alone

	mu     sync.Mutex
	cancel context.CancelFunc // of the turn that was sent last
}

// A turn is what was sent, and what an interrupt ends.
type turn struct {
	harness.Turn
	ctx context.Context
}

// Send hands over a turn and returns when the parrot has it.
func (s *session) Send(ctx context.Context, t harness.Turn) error {
	turnCtx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	s.cancel = cancel
	s.mu.Unlock()
	select {
	case s.turns <- turn{t, turnCtx}:
		return nil
	case <-s.done:
		cancel()
		return &harness.Error{Category: protocol.CategoryProcessExit, Message: "the parrot has gone; start the turn again"}
	case <-ctx.Done():
		cancel()
		return context.Cause(ctx)
	}
}

// Recv returns the next event: everything comes this way, in order, and Exit comes last.
func (s *session) Recv(ctx context.Context) (harness.Event, error) {
	select {
	case e := <-s.events:
		return e, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.done:
	}
	if s.exited {
		return nil, io.EOF
	}
	s.exited = true
	return harness.Exit{}, nil
}

// Interrupt ends the turn that runs. With none running it does nothing, also not to a later one.
func (s *session) Interrupt(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	return nil
}

// Apply has nothing to fit: what the parrot does not honour stands in Unsupported.
func (s *session) Apply(context.Context, harness.Spec) error { return nil }

// Close ends the parrot and returns when nothing of it is left.
func (s *session) Close(context.Context) error {
	s.once.Do(func() { close(s.stop) })
	<-s.done
	return nil
}

// live is the parrot's life.
func (s *session) live() {
	defer close(s.done)
	for {
		select {
		case t := <-s.turns:
			if err := s.play(t); errors.Is(err, errGone) {
				return
			}
		case <-s.stop:
			return
		}
	}
}

// errGone says that the parrot is to go.
var errGone = errors.New("the parrot is gone")

// yield hands an event over.
func (s *session) yield(e harness.Event) error {
	select {
	case s.events <- e:
		return nil
	case <-s.stop:
		return errGone
	}
}

// play plays a turn. Whatever comes, it ends with one TurnEnd.
func (s *session) play(t turn) error {
	if err := s.yield(harness.SessionStarted{NativeSessionID: s.native}); err != nil {
		return err
	}
	prompt := t.Input[0].Text
	var err error
	if cmd, ok := strings.CutPrefix(prompt, "run "); ok {
		err = s.tool(t, cmd)
	} else {
		err = s.say(t, prompt)
	}
	switch {
	case errors.Is(err, errGone):
		return err
	case err != nil: // interrupted
		return s.yield(harness.TurnEnd{StopReason: protocol.StopCancelled})
	}
	words := int64(len(strings.Fields(prompt)))
	return s.yield(harness.TurnEnd{StopReason: protocol.StopEndTurn, Tokens: &protocol.Tokens{Input: words, Output: words}})
}

// say streams the words of a text: deltas under one key, then the whole. "forever" never ends.
func (s *session) say(t turn, text string) error {
	key := string(t.ID) + "-text" // the driver chooses keys; they are unique in the session
	for i, word := range strings.SplitAfter(text, " ") {
		for {
			if err := s.yield(harness.Delta{Key: key, Type: protocol.DeltaText, Text: word}); err != nil {
				return err
			}
			if text != "forever" {
				break
			}
			select {
			case <-time.After(time.Millisecond):
			case <-t.ctx.Done():
				return t.ctx.Err()
			case <-s.stop:
				return errGone
			}
		}
		if i%8 == 0 && t.ctx.Err() != nil {
			return t.ctx.Err()
		}
	}
	return s.yield(harness.PartUpdate{Key: key, Part: &protocol.TextPart{Text: text, State: protocol.PartDone}})
}

// tool shows a call, asks whether it may run, and repeats the command as its output.
func (s *session) tool(t turn, command string) error {
	key := string(t.ID) + "-tool"
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return err
	}
	part := func(state protocol.ToolState) error {
		return s.yield(harness.PartUpdate{Key: key, Part: &protocol.ToolPart{ToolCallID: key, ToolName: "Repeat", Kind: protocol.ToolKindExecute, State: state}})
	}
	if err := part(&protocol.ToolInProgress{Input: input}); err != nil {
		return err
	}
	answer := make(chan harness.Decision, 1) // Decide must not block
	if err := s.yield(harness.Permission{
		Key:    key,
		Title:  "Repeat " + command,
		Tool:   protocol.PermissionTool{ToolCallID: key, ToolName: "Repeat", Kind: protocol.ToolKindExecute, RawInput: input},
		Decide: func(d harness.Decision) error { answer <- d; return nil },
	}); err != nil {
		return err
	}
	select {
	case d := <-answer:
		switch {
		case d.Cancelled:
			return context.Canceled
		case !d.Allow:
			return part(&protocol.ToolFailed{Error: "the user refused: " + d.Message})
		case d.UpdatedInput != nil:
			input = d.UpdatedInput
		}
		return part(&protocol.ToolCompleted{Input: input, Output: command})
	case <-t.ctx.Done():
		return t.ctx.Err()
	case <-s.stop:
		return errGone
	}
}
