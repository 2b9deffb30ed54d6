package engine_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"agentserver/engine"
	"agentserver/harness"
	"agentserver/protocol"
)

// talker is an agent that says one delta for each token it is given.
type talker struct {
	n    int
	gone chan struct{}
}

func (t *talker) ID() protocol.HarnessID              { return "talker" }
func (t *talker) Capabilities() protocol.Capabilities { return fullCaps() }
func (t *talker) Open(context.Context, harness.Spec) (harness.Session, error) {
	return t, nil
}
func (t *talker) Apply(context.Context, harness.Spec) error { return nil }
func (t *talker) Send(context.Context, harness.Turn) error  { return nil }
func (t *talker) Interrupt(context.Context) error           { return nil }
func (t *talker) Close(context.Context) error {
	close(t.gone)
	return nil
}
func (t *talker) Recv(ctx context.Context) (harness.Event, error) {
	switch t.n--; {
	case t.n > 0:
		return harness.Delta{Key: "k", Type: protocol.DeltaText, Text: "some words of an answer, "}, nil
	case t.n == 0:
		return harness.TurnEnd{StopReason: protocol.StopEndTurn}, nil
	}
	select {
	case <-t.gone:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// BenchmarkDelta takes text deltas from a driver's Recv to encoded frames in a follower's hands: the engine's part of the budget of a delta.
func BenchmarkDelta(b *testing.B) {
	t := &talker{n: b.N + 1, gone: make(chan struct{})}
	registry, err := harness.NewRegistry(t)
	if err != nil {
		b.Fatal(err)
	}
	rt, err := engine.New(engine.Options{Registry: registry})
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Shutdown(context.Background())
	f := rt.Follow()
	defer f.Close()
	config := protocol.RunConfig{Harness: "talker", Cwd: b.TempDir()}
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := rt.StartTurn(b.Context(), protocol.TurnStartParams{Input: protocol.Text("hi"), Config: config}); err != nil {
		b.Fatal(err)
	}
	for {
		batch, err := f.Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		var last []byte
		for _, e := range batch.Entries {
			last = e.Frame()
		}
		if bytes.Contains(last, []byte(`"turn.ended"`)) {
			break
		}
	}
}
