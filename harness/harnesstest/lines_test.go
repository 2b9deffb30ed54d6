package harnesstest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/harness/harnesstest"
	"agentserver/harness/harnesstest/agent"
	"agentserver/harness/internal/process"
	"agentserver/protocol"
)

// lines is a driver for a made-up agent that speaks lines of JSON over its standard streams: the least that such a driver has to do.
type lines struct{ resolve harness.Resolver }

func (lines) ID() protocol.HarnessID { return "lines" }

func (lines) Capabilities() protocol.Capabilities {
	return protocol.Capabilities{MultiTurn: true, PermissionRequests: true}
}

func (d lines) Open(ctx context.Context, spec harness.Spec) (harness.Session, error) {
	exe, err := d.resolve(ctx, spec.Notify)
	if err != nil {
		return nil, err
	}
	p, err := process.Start(ctx, process.Spec{Path: exe.Path, Args: exe.Args, Dir: spec.Config.Cwd, Env: spec.Env, MaxLine: 2 << 20})
	if err != nil {
		return nil, err
	}
	s := &linesSession{proc: p, events: make(chan harness.Event), closing: make(chan struct{}), done: make(chan struct{})}
	go s.read()
	return s, nil
}

type linesSession struct {
	proc    *process.Process
	events  chan harness.Event
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when read has ended; exit is set then
	once    sync.Once
	exit    harness.Exit

	mu      sync.Mutex
	turn    int // the last one that was sent
	running bool
	exited  bool
}

// message is a line in either direction.
type message struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`
	Text string `json:"text,omitempty"`
	OK   bool   `json:"ok,omitempty"`
}

func (s *linesSession) read() {
	defer close(s.done)
	for {
		line, err := s.proc.ReadLine()
		if _, tooLong := errors.AsType[*process.LineTooLongError](err); tooLong {
			continue
		}
		if err != nil {
			break
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue // junk
		}
		if e := s.translate(m); e != nil {
			select {
			case s.events <- e:
			case <-s.closing:
			}
		}
	}
	<-s.proc.Done()
	state, _ := s.proc.ExitState()
	select {
	case <-s.closing:
	default:
		s.exit.Error = &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: "the agent " + state.String() + ": " + s.proc.StderrTail(5)}
	}
}

func (s *linesSession) translate(m message) harness.Event {
	switch m.Type {
	case "started":
		return harness.SessionStarted{NativeSessionID: m.ID}
	case "delta":
		return harness.Delta{Key: m.ID, Type: protocol.DeltaText, Text: m.Text}
	case "text":
		return harness.PartUpdate{Key: m.ID, Part: &protocol.TextPart{Text: m.Text, State: protocol.PartDone}}
	case "ask":
		return harness.Permission{Key: m.ID, Title: "May I?", Tool: protocol.PermissionTool{ToolName: "Bash"}, Decide: func(d harness.Decision) error {
			if d.Cancelled {
				return nil // an interrupt follows
			}
			return s.write(context.Background(), message{Type: "answer", ID: m.ID, OK: d.Allow})
		}}
	case "end", "cancelled", "error":
		if !s.ends(m.ID) {
			return nil
		}
		end := harness.TurnEnd{StopReason: protocol.StopEndTurn}
		if m.Type == "cancelled" {
			end.StopReason = protocol.StopCancelled
		}
		if m.Type == "error" {
			end.StopReason, end.Error = protocol.StopError, &protocol.TurnError{Category: protocol.CategoryNetwork, Message: m.Text}
		}
		return end
	}
	return nil
}

// ends reports whether the turn with that number runs, and notes that it has ended.
func (s *linesSession) ends(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.running && id == strconv.Itoa(s.turn)
	if was {
		s.running = false
	}
	return was
}

func (s *linesSession) write(ctx context.Context, m message) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return s.proc.WriteLine(ctx, data)
}

func (s *linesSession) Apply(context.Context, harness.Spec) error {
	select {
	case <-s.proc.Done():
		return harness.ErrRestart
	default:
		return nil
	}
}

func (s *linesSession) Send(ctx context.Context, turn harness.Turn) error {
	select {
	case <-s.proc.Done():
		return errors.New("the agent is gone")
	default:
	}
	s.mu.Lock()
	s.turn++
	s.running = true
	id := strconv.Itoa(s.turn)
	s.mu.Unlock()
	return s.write(ctx, message{Type: "prompt", ID: id, Text: turn.Input[0].Text})
}

func (s *linesSession) Recv(ctx context.Context) (harness.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case e := <-s.events:
		return e, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.done:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exited {
		return nil, io.EOF
	}
	s.exited = true
	return s.exit, nil
}

func (s *linesSession) Interrupt(ctx context.Context) error {
	s.mu.Lock()
	running, id := s.running, strconv.Itoa(s.turn)
	s.mu.Unlock()
	if !running {
		return nil
	}
	err := s.write(ctx, message{Type: "interrupt", ID: id})
	select {
	case <-s.proc.Done():
		return nil
	default:
		return err
	}
}

func (s *linesSession) Close(ctx context.Context) error {
	s.once.Do(func() { close(s.closing) })
	err := s.proc.Close(ctx, process.Ladder{{Do: process.CloseStdin, Wait: time.Second}, {Do: process.Terminate, Wait: 200 * time.Millisecond}})
	<-s.done
	return err
}

func (s *linesSession) Kill() { s.proc.Kill() }

// script is the made-up agent.
var script = agent.Script{
	{On: agent.Input(`"hello"`), Do: agent.Actions{
		agent.Line(`{"type":"started","id":"n${#pid}"}`),
		agent.Line(`{"type":"delta","id":"k${id?}","text":"he"}`),
		agent.Line(`{"type":"delta","id":"k${id?}","text":"llo"}`),
		agent.Line(`{"type":"text","id":"k${id?}","text":"hello"}`),
		agent.Line(`{"type":"end","id":"${id?}"}`),
	}},
	{On: agent.Input(`"long"`), Do: agent.Actions{
		agent.Line(`{"type":"started","id":"n${#pid}"}`),
		agent.Repeat(0, time.Millisecond, agent.Line(`{"type":"delta","id":"k${id?}","text":"x"}`)),
	}},
	{On: agent.Input(`"may I"`), Do: agent.Actions{agent.Line(`{"type":"ask","id":"${id?}"}`)}},
	{On: agent.Input(`"answer"`), Do: agent.Actions{agent.Line(`{"type":"end","id":"${id?}"}`)}},
	{On: agent.Input(`"fail"`), Do: agent.Actions{agent.Line(`{"type":"error","id":"${id?}","text":"no ${text?} today"}`)}},
	{On: agent.Input(`"exit"`), Do: agent.Actions{agent.Stderr("it hurts"), agent.Exit(7)}},
	{On: agent.Input(`"interrupt"`), Do: agent.Actions{agent.Stop(), agent.Line(`{"type":"cancelled","id":"${id?}"}`)}},
}

// TestProcess runs a driver with a process through the suite.
func TestProcess(t *testing.T) {
	a := agent.New(t, script)
	harnesstest.Run(t, harnesstest.Suite{
		Harness: lines{a.Resolve},
		Prompts: harnesstest.Prompts{Text: "hello", LongText: "long", Permission: "may I", Failure: "fail", Exit: "exit"},
		Alive:   a.Alive,
		Quiet:   200 * time.Millisecond,
		Wait:    15 * time.Second,
		Steps:   6,
	})
}

// TestMisbehaviour plays what broken agents do.
func TestMisbehaviour(t *testing.T) {
	hello := agent.Actions{agent.Line(`{"type":"text","id":"k${id?}","text":"hello"}`), agent.Line(`{"type":"end","id":"${id?}"}`)}
	for _, test := range []struct {
		name   string
		script agent.Script
		end    string // what the turn's end, or the exit, must say
	}{
		{"junk on stdout", agent.Script{{On: agent.Input(), Do: append(agent.Actions{agent.Line("npm WARN old"), agent.Bytes("\xff\xfe{\n"), agent.Line("{}")}, hello...)}}, "end_turn"},
		{"a long line", agent.Script{{On: agent.Input(), Do: agent.Actions{agent.LongLine(`{"type":"text","id":"k${id?}","text":"`, 1<<20, `"}`), agent.Line(`{"type":"end","id":"${id?}"}`)}}}, "end_turn"},
		{"half a line at the end", agent.Script{{On: agent.Input(), Do: agent.Actions{agent.Bytes(`{"type":"te`), agent.Exit(3)}}}, "exited with status 3"},
		{"an exit at once", agent.Script{{On: agent.Started(), Do: agent.Actions{agent.Stderr("cannot start: no key"), agent.Exit(2)}}}, "cannot start: no key"},
		{"a kill", agent.Script{{On: agent.Input(), Do: agent.Actions{agent.KillSelf()}}}, "SIGKILL"},
		{"a grandchild that holds stdout", agent.Script{{On: agent.Input(), Do: agent.Actions{agent.Grandchild(time.Minute), agent.Exit(5)}}}, "exited with status 5"},
		{"no regard for signals", agent.Script{{On: agent.Started(), Do: agent.Actions{agent.IgnoreSignals(), agent.StopReading(), agent.StubbornGrandchild(time.Minute)}},
			{On: agent.Input(), Do: hello}}, ""},
		{"a closed stdout", agent.Script{{On: agent.Input(), Do: agent.Actions{agent.CloseStdout(), agent.Sleep(10 * time.Millisecond), agent.Exit(4)}}}, "exited with status 4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := agent.New(t, test.script)
			s, err := lines{a.Resolve}.Open(t.Context(), harness.Spec{Config: protocol.RunConfig{Cwd: t.TempDir()}})
			if err != nil {
				t.Fatal(err)
			}
			if test.end == "" {
				s.Close(t.Context())
			} else {
				s.Send(t.Context(), harness.Turn{Input: protocol.Text("x")}) // may fail: the agent may be gone
				expectEnd(t, s, test.end)
				s.Close(t.Context())
			}
			if left := a.Alive(); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
		})
	}
}
