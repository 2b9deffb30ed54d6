package harnesstest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/harness/harnesstest"
	"agentserver/harness/mock"
	"agentserver/protocol"
)

// expectEnd reads up to the end of a turn or of the agent, which must say something.
func expectEnd(t *testing.T, s harness.Session, says string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		e, err := s.Recv(ctx)
		if err != nil {
			t.Fatalf("Recv: %v", err)
		}
		got := ""
		switch e := e.(type) {
		case harness.TurnEnd:
			got = string(e.StopReason)
		case harness.Exit:
			got = e.Error.Error()
		default:
			continue
		}
		if !strings.Contains(got, says) {
			t.Errorf("got %q, want %q", got, says)
		}
		return
	}
}

// broken are drivers with one fault each: the mock, with one method of its sessions replaced. Each must fail the test that is named.
var broken = map[string]struct {
	fails string
	wrap  func(*faulty)
}{
	"ends a turn twice": {"Driver/Text", func(f *faulty) {
		var again harness.Event
		f.recv = func(ctx context.Context) (harness.Event, error) {
			if again != nil {
				e := again
				again = nil
				return e, nil
			}
			e, err := f.Session.Recv(ctx)
			if _, ok := e.(harness.TurnEnd); ok {
				again = e
			}
			return e, err
		}
	}},
	"has no stop reason": {"Driver/Text", func(f *faulty) {
		f.change(func(e harness.Event) harness.Event {
			if end, ok := e.(harness.TurnEnd); ok {
				end.StopReason = ""
				return end
			}
			return e
		})
	}},
	"yields after the exit": {"Driver/Close", func(f *faulty) {
		exited := 0
		f.recv = func(ctx context.Context) (harness.Event, error) {
			if exited == 1 {
				exited++
				return harness.Notice{}, nil
			}
			e, err := f.Session.Recv(ctx)
			if _, ok := e.(harness.Exit); ok {
				exited++
			}
			return e, err
		}
	}},
	"has no exit": {"Driver/Text", func(f *faulty) {
		f.recv = func(ctx context.Context) (harness.Event, error) {
			e, err := f.Session.Recv(ctx)
			if _, ok := e.(harness.Exit); ok {
				return f.Session.Recv(ctx)
			}
			return e, err
		}
	}},
	"fails an idle interrupt": {"Driver/InterruptIdle", func(f *faulty) {
		f.interrupt = func(context.Context) error { return errors.New("nothing runs") }
	}},
	"keeps an interrupt for the next turn": {"Driver/InterruptIdle", func(f *faulty) {
		kept := false
		f.interrupt = func(ctx context.Context) error { kept = true; return f.Session.Interrupt(ctx) }
		f.change(func(e harness.Event) harness.Event {
			if end, ok := e.(harness.TurnEnd); ok && kept {
				kept = false
				end.StopReason = protocol.StopCancelled
				return end
			}
			return e
		})
	}},
	"ignores interrupts": {"Driver/Interrupt/LongText", func(f *faulty) { f.interrupt = func(context.Context) error { return nil } }},
	"loses an event when the context ends": {"Driver/RecvContext", func(f *faulty) {
		f.recv = func(ctx context.Context) (harness.Event, error) {
			e, err := f.Session.Recv(ctx)
			if d, ok := e.(harness.Delta); ok && d.Text == "there" {
				return nil, context.DeadlineExceeded
			}
			return e, err
		}
	}},
	"says that it resumed": {"Driver/Resume", func(f *faulty) {
		f.change(func(e harness.Event) harness.Event {
			if s, ok := e.(harness.SessionStarted); ok && s.Resumed != nil {
				yes := true
				s.Resumed = &yes
				return s
			}
			return e
		})
	}},
	"steers into nothing": {"Driver/Steer", func(f *faulty) { f.steer = func() bool { return true } }},
	"leaks a goroutine":   {"Driver/Text", func(f *faulty) { go func() { select {} }() }},
	"exits without a reason": {"Driver/Exit", func(f *faulty) {
		f.change(func(e harness.Event) harness.Event {
			if _, ok := e.(harness.Exit); ok {
				return harness.Exit{}
			}
			return e
		})
	}},
	"takes turns when it is gone": {"Driver/Kill/Text", func(f *faulty) {
		f.send = func(ctx context.Context, turn harness.Turn) error { f.Session.Send(ctx, turn); return nil }
	}},
	"sends text twice": {"Engine/Turns", func(f *faulty) {
		f.change(func(e harness.Event) harness.Event {
			if d, ok := e.(harness.Delta); ok {
				d.Text += d.Text
				return d
			}
			return e
		})
	}},
}

// faultyHarness is the mock with faulty sessions.
type faultyHarness struct {
	*mock.Harness
	wrap func(*faulty)
}

func (h faultyHarness) Open(ctx context.Context, spec harness.Spec) (harness.Session, error) {
	s, err := h.Harness.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	f := &faulty{Session: s, recv: s.Recv, interrupt: s.Interrupt, send: s.Send}
	h.wrap(f)
	return f, nil
}

type faulty struct {
	harness.Session
	recv      func(context.Context) (harness.Event, error)
	interrupt func(context.Context) error
	send      func(context.Context, harness.Turn) error
	steer     func() bool
}

func (f *faulty) Recv(ctx context.Context) (harness.Event, error)   { return f.recv(ctx) }
func (f *faulty) Interrupt(ctx context.Context) error               { return f.interrupt(ctx) }
func (f *faulty) Send(ctx context.Context, turn harness.Turn) error { return f.send(ctx, turn) }
func (f *faulty) Kill()                                             { f.Session.(harness.Killer).Kill() }
func (f *faulty) Steer(ctx context.Context, in protocol.Input) (bool, error) {
	if f.steer != nil {
		return f.steer(), nil
	}
	return f.Session.(harness.Steerer).Steer(ctx, in)
}

func (f *faulty) change(to func(harness.Event) harness.Event) {
	f.recv = func(ctx context.Context) (harness.Event, error) {
		e, err := f.Session.Recv(ctx)
		if err == nil {
			e = to(e)
		}
		return e, err
	}
}

const brokenVariable = "HARNESSTEST_BROKEN"

// TestBrokenDriver runs the suite on a broken driver. It does nothing but in the processes that TestFaultsAreFound starts.
func TestBrokenDriver(t *testing.T) {
	fault, ok := broken[os.Getenv(brokenVariable)]
	if !ok {
		return
	}
	harnesstest.Run(t, harnesstest.Suite{
		Harness: faultyHarness{mock.New(), fault.wrap},
		Prompts: harnesstest.Prompts{Text: "say hello there", LongText: "pace 1ms\nburst 1000000", Permission: "ask Bash", Exit: "say a\ncrash"},
		Quiet:   100 * time.Millisecond, Wait: time.Second, Steps: 3,
	})
}

// TestFaultsAreFound runs the suite on each broken driver, in a process of its own, since the test must fail there.
func TestFaultsAreFound(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, fault := range broken {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			path := "^TestBrokenDriver$/^" + strings.ReplaceAll(fault.fails, "/", "$/^") + "$"
			cmd := exec.CommandContext(ctx, self, "-test.run", path, "-test.timeout", "50s", "-test.v")
			cmd.Env = append(os.Environ(), brokenVariable+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestBrokenDriver/"+fault.fails) {
				t.Errorf("%s passed:\n%s", fault.fails, out)
			}
		})
	}
}
