package engine_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"agentserver/engine"
	"agentserver/engine/eventlog"
	"agentserver/harness"
	"agentserver/protocol"
)

// fake is a harness whose agents do what the test says.
type fake struct {
	id   protocol.HarnessID
	caps protocol.Capabilities
	// prepare, when set, changes an agent before it is opened, or fails the opening.
	prepare func(ctx context.Context, spec harness.Spec, a *agent) error

	mu     sync.Mutex
	agents []*agent
	opens  int
}

func (f *fake) ID() protocol.HarnessID              { return f.id }
func (f *fake) Capabilities() protocol.Capabilities { return f.caps }

func (f *fake) Open(ctx context.Context, spec harness.Spec) (harness.Session, error) {
	f.mu.Lock()
	f.opens++
	f.mu.Unlock()
	a := &agent{spec: spec, events: make(chan harness.Event, 4096), gone: make(chan struct{})}
	if f.prepare != nil {
		if err := f.prepare(ctx, spec, a); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	f.agents = append(f.agents, a)
	f.mu.Unlock()
	return a, nil
}

// agent is one opened session. A hook that is nil does the obvious.
type agent struct {
	spec        harness.Spec
	events      chan harness.Event
	onApply     func(context.Context, harness.Spec) error
	onSend      func(context.Context, harness.Turn) error
	onRecv      func()
	onInterrupt func(context.Context) error
	onClose     func(context.Context) error
	onKill      func()
	onSteer     func(protocol.Input) (bool, error)

	mu      sync.Mutex
	applied []harness.Spec
	turns   []harness.Turn
	stops   int
	closes  int
	kills   int
	once    sync.Once
	gone    chan struct{}
}

func (a *agent) Apply(ctx context.Context, spec harness.Spec) error {
	a.mu.Lock()
	a.applied = append(a.applied, spec)
	a.mu.Unlock()
	if a.onApply != nil {
		return a.onApply(ctx, spec)
	}
	return nil
}

func (a *agent) Send(ctx context.Context, turn harness.Turn) error {
	a.mu.Lock()
	a.turns = append(a.turns, turn)
	a.mu.Unlock()
	if a.onSend != nil {
		return a.onSend(ctx, turn)
	}
	return nil
}

func (a *agent) Recv(ctx context.Context) (harness.Event, error) {
	if a.onRecv != nil {
		a.onRecv()
	}
	select {
	case e := <-a.events:
		return e, nil
	default:
	}
	select {
	case e := <-a.events:
		return e, nil
	case <-a.gone:
		select {
		case e := <-a.events:
			return e, nil
		default:
			return nil, io.EOF
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (a *agent) Interrupt(ctx context.Context) error {
	a.mu.Lock()
	a.stops++
	a.mu.Unlock()
	if a.onInterrupt != nil {
		return a.onInterrupt(ctx)
	}
	a.say(harness.TurnEnd{StopReason: protocol.StopCancelled})
	return nil
}

func (a *agent) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closes++
	a.mu.Unlock()
	if a.onClose != nil {
		if err := a.onClose(ctx); err != nil {
			return err
		}
	}
	a.die()
	return nil
}

func (a *agent) Kill() {
	a.mu.Lock()
	a.kills++
	a.mu.Unlock()
	if a.onKill != nil {
		a.onKill()
	}
}

func (a *agent) Steer(_ context.Context, in protocol.Input) (bool, error) {
	if a.onSteer != nil {
		return a.onSteer(in)
	}
	return true, nil
}

// say has the agent yield events.
func (a *agent) say(events ...harness.Event) {
	for _, e := range events {
		a.events <- e
	}
}

// die ends the agent's stream after what it has said.
func (a *agent) die() { a.once.Do(func() { close(a.gone) }) }

func (a *agent) count(n *int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return *n
}

// bench is a runtime with a fake harness.
type bench struct {
	*engine.Runtime
	t    *testing.T
	fake *fake
	cwd  string
}

// inBubble runs a test with a runtime in a synctest bubble, and checks every stream at its end.
func inBubble(t *testing.T, change func(*engine.Options), test func(*bench)) {
	t.Helper()
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, cwd, change)
		defer b.end()
		test(b)
	})
}

func fullCaps() protocol.Capabilities {
	return protocol.Capabilities{MultiTurn: true, SessionResume: true, ModelSwitch: protocol.ModelSwitchInSession, Images: true, MCPServers: true,
		PermissionRequests: true, Steering: true, Cost: true, Files: true, ThinkingLevels: []protocol.ThinkingLevel{protocol.ThinkingHigh}}
}

func newBench(t *testing.T, cwd string, change func(*engine.Options)) *bench {
	t.Helper()
	f := &fake{id: "fake", caps: fullCaps()}
	other := &fake{id: "other", caps: fullCaps()}
	registry, err := harness.NewRegistry(f, other)
	if err != nil {
		t.Fatal(err)
	}
	opts := engine.Options{Registry: registry, BaseEnv: []string{"PATH=/bin", "LANG=C"}, InstanceID: "i1"}
	if change != nil {
		change(&opts)
	}
	rt, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{Runtime: rt, t: t, fake: f, cwd: cwd}
}

// end shuts the runtime down and checks what every session's log holds.
func (b *bench) end() {
	b.t.Helper()
	list, _ := b.List(b.t.Context())
	if err := b.Shutdown(context.Background()); err != nil {
		b.t.Errorf("shutdown: %v", err)
	}
	for _, s := range list.Sessions {
		checkStream(b.t, b.events(s.SessionID))
	}
}

func (b *bench) params(turn protocol.TurnID) protocol.TurnStartParams {
	return protocol.TurnStartParams{SessionID: "s", TurnID: turn, Input: protocol.Text("hi"), Config: protocol.RunConfig{Harness: "fake", Cwd: b.cwd}}
}

// start begins a turn of session s and lets everything come to rest.
func (b *bench) start(turn protocol.TurnID, change ...func(*protocol.TurnStartParams)) {
	b.t.Helper()
	p := b.params(turn)
	for _, f := range change {
		f(&p)
	}
	if _, err := b.StartTurn(b.t.Context(), p); err != nil {
		b.t.Fatalf("start %s: %v", turn, err)
	}
	synctest.Wait()
}

// agent returns the newest agent.
func (b *bench) agent() *agent {
	b.t.Helper()
	b.fake.mu.Lock()
	defer b.fake.mu.Unlock()
	if len(b.fake.agents) == 0 {
		b.t.Fatal("no agent was opened")
	}
	return b.fake.agents[len(b.fake.agents)-1]
}

func (b *bench) opens() int {
	b.fake.mu.Lock()
	defer b.fake.mu.Unlock()
	return b.fake.opens
}

// say has the newest agent yield events and lets everything come to rest.
func (b *bench) say(events ...harness.Event) {
	b.t.Helper()
	synctest.Wait()
	b.agent().say(events...)
	synctest.Wait()
}

func (b *bench) events(session protocol.SessionID) []protocol.Envelope {
	b.t.Helper()
	result, err := b.Replay(protocol.EventsReplayParams{SessionID: session, FromSeq: 1})
	if err != nil {
		b.t.Fatalf("replay: %v", err)
	}
	return result.Events
}

// textEnd is a whole little answer.
func textEnd(key, text string) []harness.Event {
	return []harness.Event{
		harness.Delta{Key: key, Type: protocol.DeltaText, Text: text},
		harness.PartUpdate{Key: key, Part: &protocol.TextPart{Text: text, State: protocol.PartDone}},
		harness.TurnEnd{StopReason: protocol.StopEndTurn},
	}
}

type batch = eventlog.Batch
