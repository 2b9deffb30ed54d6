package wire_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentserver/engine"
	"agentserver/engine/wire"
	"agentserver/harness"
	"agentserver/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newRuntime returns a runtime with the harness "script", which is shut down when the test ends.
func newRuntime(t testing.TB, change func(*engine.Options)) *engine.Runtime {
	t.Helper()
	registry, err := harness.NewRegistry(script{})
	if err != nil {
		t.Fatal(err)
	}
	opts := engine.Options{Registry: registry, InstanceID: "instance-1"}
	if change != nil {
		change(&opts)
	}
	rt, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Shutdown(context.Background()) })
	return rt
}

// newServer returns a server of a fresh runtime, which is shut down when the test ends.
func newServer(t testing.TB, opts wire.Options) *wire.Server {
	t.Helper()
	s := wire.New(newRuntime(t, nil), opts)
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	return s
}

// script is a harness whose agent does what the input says: "say N" streams N deltas, "ask" asks for a permission, "hang" waits for an
// interrupt, "stubborn" for more than that, "slow close" makes the agent take a second to close, "panic" panics in Send.
type script struct{}

func (script) ID() protocol.HarnessID { return "script" }
func (script) Capabilities() protocol.Capabilities {
	return protocol.Capabilities{MultiTurn: true, PermissionRequests: true, Steering: true}
}
func (script) Open(context.Context, harness.Spec) (harness.Session, error) {
	return &agent{events: make(chan harness.Event), gone: make(chan struct{})}, nil
}

type agent struct {
	events chan harness.Event
	gone   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup

	mu   sync.Mutex
	stop chan struct{} // of the turn that runs
	slow bool
}

func (a *agent) Apply(context.Context, harness.Spec) error { return nil }

func (a *agent) Send(_ context.Context, turn harness.Turn) error {
	text := turn.Input[0].Text
	if text == "panic" {
		panic("a secret: hunter2")
	}
	stop := make(chan struct{})
	a.mu.Lock()
	a.stop = stop
	a.mu.Unlock()
	a.wg.Go(func() { a.run(text, stop) })
	return nil
}

func (a *agent) run(text string, stop chan struct{}) {
	n := 1
	fmt.Sscanf(text, "say %d", &n)
	for i := range n {
		if !a.say(harness.Delta{Key: "text", Type: protocol.DeltaText, Text: fmt.Sprint("<", i, "> & ")}, stop) {
			a.say(harness.TurnEnd{StopReason: protocol.StopCancelled}, nil)
			return
		}
	}
	switch text {
	case "ask":
		decided := make(chan harness.Decision, 1)
		a.say(harness.Permission{
			Key: "p", Title: "run it?", Tool: protocol.PermissionTool{ToolName: "Bash"},
			Decide: func(d harness.Decision) error { decided <- d; return nil },
		}, nil)
		select {
		case <-decided:
		case <-a.gone:
			return
		}
	case "stubborn":
		<-a.gone
		return
	case "slow close":
		a.mu.Lock()
		a.slow = true
		a.mu.Unlock()
	case "hang":
		select {
		case <-stop:
			a.say(harness.TurnEnd{StopReason: protocol.StopCancelled}, nil)
			return
		case <-a.gone:
			return
		}
	}
	a.say(harness.TurnEnd{StopReason: protocol.StopEndTurn, Tokens: &protocol.Tokens{Input: 1<<53 + 1}}, nil)
}

func (a *agent) say(e harness.Event, stop chan struct{}) bool {
	select {
	case a.events <- e:
		return true
	case <-stop:
		return false
	case <-a.gone:
		return false
	}
}

func (a *agent) Recv(ctx context.Context) (harness.Event, error) {
	select {
	case e := <-a.events:
		return e, nil
	case <-a.gone:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (a *agent) Interrupt(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop != nil {
		close(a.stop)
		a.stop = nil
	}
	return nil
}

func (a *agent) Steer(context.Context, protocol.Input) (bool, error) { return true, nil }

func (a *agent) Close(context.Context) error {
	a.mu.Lock()
	slow := a.slow
	a.mu.Unlock()
	if slow {
		time.Sleep(time.Second) // only ever in a bubble
	}
	a.once.Do(func() { close(a.gone) })
	a.wg.Wait()
	return nil
}

// eventually waits for something that happens outside of any bubble.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}
