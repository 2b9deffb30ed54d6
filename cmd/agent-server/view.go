package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"agentserver/protocol"
	"agentserver/protocol/streamcheck"
)

// A view shows one turn of a session of its own: as text for a person, or as envelopes for a program. Envelopes come from the client's handler, events from the turn's
// handle, each on one goroutine.
type view struct {
	json     io.Writer // nil: text
	text     *renderer // nil: JSON
	check    *streamcheck.Checker
	broken   []streamcheck.Violation
	errOut   io.Writer
	writeErr error
	ended    chan struct{} // closed when envelope has seen the turn's end
}

func (f *runFlags) view(cmd *cobra.Command) *view {
	v := &view{errOut: cmd.ErrOrStderr(), ended: make(chan struct{})}
	if f.verify {
		v.check = streamcheck.New()
	}
	if f.json {
		v.json = cmd.OutOrStdout()
		return v
	}
	v.text = newRenderer(cmd.OutOrStdout(), cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr()))
	return v
}

// envelope takes the session's stream as it is numbered.
func (v *view) envelope(env protocol.Envelope) {
	if _, ok := env.Event.(*protocol.TurnEnded); ok {
		defer close(v.ended)
	}
	if v.check != nil {
		v.broken = append(v.broken, v.check.Add(env)...)
	}
	if v.json == nil || v.writeErr != nil {
		return
	}
	line, err := protocol.AppendEnvelope(nil, env)
	if err == nil {
		_, err = v.json.Write(append(line, '\n'))
	}
	v.writeErr = err
}

// event takes the turn's events.
func (v *view) event(e protocol.Event) {
	if v.text != nil {
		v.text.event(e)
	}
}

// wait returns when envelope has seen the stream up to the turn's end, which may be later than the turn's handle.
func (v *view) wait(ctx context.Context) error {
	select {
	case <-v.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close says what the check found.
func (v *view) close() error {
	if v.writeErr != nil {
		return v.writeErr
	}
	if v.check == nil {
		return nil
	}
	violations := append(v.broken, v.check.Finish()...)
	for _, w := range violations {
		fmt.Fprintln(v.errOut, w)
	}
	if len(violations) > 0 {
		return &exitError{exitFailed, errors.New("the stream breaks the contract")}
	}
	return nil
}
