package harnesstest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// runDriver tests the driver as it is.
func runDriver(t *testing.T, s *Suite) {
	s.test(t, "Identity", s.identity)
	s.test(t, "Text", s.text)
	s.test(t, "SeveralTurns", s.severalTurns)
	s.test(t, "Failure", s.failure)
	s.test(t, "Permission", s.permission)
	s.test(t, "UnansweredPermission", s.unansweredPermission)
	s.test(t, "InterruptIdle", s.interruptIdle)
	s.test(t, "Interrupt", s.interrupt)
	s.test(t, "InterruptTwice", s.interruptTwice)
	s.test(t, "Exit", s.exitByItself)
	s.test(t, "Kill", s.killed)
	s.test(t, "Close", s.closing)
	s.test(t, "CloseTwice", s.closeTwice)
	s.test(t, "CloseUnderRecv", s.closeUnderRecv)
	s.test(t, "CloseWithEndedContext", s.closeWithEndedContext)
	s.test(t, "OpenWithEndedContext", s.openWithEndedContext)
	s.test(t, "RecvContext", s.recvContext)
	s.test(t, "Apply", s.apply)
	s.test(t, "Resume", s.resume)
	s.test(t, "Steer", s.steer)
	s.test(t, "Background", s.background)
	s.test(t, "Sessions", s.sessions)
}

func (s *Suite) identity(t *testing.T) {
	if err := protocol.CheckID(string(s.Harness.ID())); err != nil {
		t.Errorf("the id %q %v", s.Harness.ID(), err)
	}
	if id := s.Harness.ID(); id != s.Config.Harness || !reflect.DeepEqual(s.Harness.Capabilities(), s.Harness.Capabilities()) {
		t.Error("id or capabilities change")
	}
	known := map[string]bool{}
	for f := range fieldNames(reflect.TypeFor[protocol.RunConfig]()) {
		known[f] = true
	}
	for _, name := range s.Harness.Capabilities().Unsupported {
		if !known[name] {
			t.Errorf("Capabilities.Unsupported names %q, which is no field of RunConfig", name)
		}
	}
}

func (s *Suite) text(t *testing.T) {
	c := s.open(t, "")
	o := c.ends(s.Prompts.Text)
	if c.native == "" {
		t.Error("the first turn brought no SessionStarted with a native id")
	}
	if c.resumed != nil {
		t.Error("SessionStarted.Resumed is set, and no resume was asked for")
	}
	said := false
	for _, e := range o.events {
		switch e := e.(type) {
		case harness.Delta:
			said = said || e.Type == protocol.DeltaText && e.Text != ""
		case harness.PartUpdate:
			text, ok := e.Part.(*protocol.TextPart)
			said = said || ok && text.Text != ""
		}
	}
	if !said {
		t.Error("the turn brought no text")
	}
	c.finish()
	if c.exit == nil {
		t.Error("a closed session must yield Exit before io.EOF")
	} else if c.exit.Error != nil {
		t.Errorf("an exit that was asked for has the error %v", c.exit.Error)
	}
}

func (s *Suite) severalTurns(t *testing.T) {
	if !s.Harness.Capabilities().MultiTurn {
		t.Skip("the harness is not multiTurn")
	}
	c := s.open(t, "")
	for range 3 {
		c.ends(s.Prompts.Text)
	}
	c.finish()
}

func (s *Suite) failure(t *testing.T) {
	needs(t, s.Prompts.Failure, "Failure")
	c := s.open(t, "")
	o := c.turn(s.Prompts.Failure, 0, nil)
	if o.end == nil || o.end.StopReason != protocol.StopError {
		t.Fatalf("the turn did not end in an error: %+v", o.end)
	}
	c = c.alive()
	c.ends(s.Prompts.Text)
	c.finish()
}

func (s *Suite) permission(t *testing.T) {
	needs(t, s.Prompts.Permission, "Permission")
	for name, answer := range map[string]func(harness.Permission){"allowed": allow, "refused": refuse} {
		c := s.open(t, "")
		asked := 0
		c.answer = func(p harness.Permission) { asked++; answer(p) }
		o := c.turn(s.Prompts.Permission, 0, nil)
		if asked == 0 {
			t.Errorf("%s: the agent did not ask", name)
		}
		if o.end == nil {
			t.Errorf("%s: the agent exited: %+v", name, c.exit.Error)
		}
		c = c.alive()
		c.ends(s.Prompts.Text)
		c.finish()
	}
}

// unansweredPermission leaves a request open; Interrupt, Apply and Close must work meanwhile.
func (s *Suite) unansweredPermission(t *testing.T) {
	needs(t, s.Prompts.Permission, "Permission")
	for _, closing := range []bool{false, true} {
		c := s.open(t, "")
		c.answer = nil
		asked := false
		o := c.turn(s.Prompts.Permission, s.Steps*1000, func() {
			asked = true
			ctx, cancel := s.within()
			defer cancel()
			if closing {
				c.close()
			} else if err := c.session.Interrupt(ctx); err != nil {
				t.Errorf("Interrupt with a request open: %v", err)
			}
		})
		if !asked || o.end != nil && o.end.StopReason == protocol.StopEndTurn {
			t.Errorf("the turn did not wait for the answer: %+v", o.end)
		}
		if !closing {
			c = c.alive()
			c.answer = allow
			c.ends(s.Prompts.Text)
		}
		c.finish()
	}
}

func (s *Suite) interruptIdle(t *testing.T) {
	c := s.open(t, "")
	interrupt := func() {
		ctx, cancel := s.within()
		defer cancel()
		if err := c.session.Interrupt(ctx); err != nil {
			t.Errorf("Interrupt with nothing running: %v, want nil", err)
		}
	}
	interrupt()
	c.ends(s.Prompts.Text) // not affected
	interrupt()
	interrupt()
	if s.Harness.Capabilities().MultiTurn {
		c.ends(s.Prompts.Text)
	}
	c.finish()
}

// interrupt interrupts each prompt at each step.
func (s *Suite) interrupt(t *testing.T) {
	for _, p := range s.interruptible() {
		if p.prompt == "" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			c := s.open(t, "")
			s.eachStep(func(k int) (more bool) {
				o := c.turn(p.prompt, k, func() {
					ctx, cancel := s.within()
					defer cancel()
					if err := c.session.Interrupt(ctx); err != nil {
						t.Errorf("at step %d: Interrupt: %v", k, err)
					}
				})
				if p.endless && o.end != nil && o.end.StopReason != protocol.StopCancelled {
					t.Errorf("at step %d: the turn ended with %s (%v), want %s", k, o.end.StopReason, o.end.Error, protocol.StopCancelled)
				}
				c = c.alive()
				c.ends(s.Prompts.Text) // the interrupt was not for this one
				return o.acted && !o.quiet && !t.Failed()
			})
			c.finish()
		})
	}
}

// A stoppable is a prompt that can be interrupted; endless ones end in no other way.
type stoppable struct {
	name, prompt string
	endless      bool
}

func (s *Suite) interruptible() []stoppable {
	return []stoppable{
		{"Text", s.Prompts.Text, false}, {"LongText", s.Prompts.LongText, true},
		{"Permission", s.Prompts.Permission, false}, {"LongTool", s.Prompts.LongTool, true},
	}
}

func (s *Suite) interruptTwice(t *testing.T) {
	needs(t, s.Prompts.LongText, "LongText")
	c := s.open(t, "")
	var wg sync.WaitGroup
	c.turn(s.Prompts.LongText, 1, func() {
		for range 4 {
			wg.Go(func() {
				ctx, cancel := s.within()
				defer cancel()
				c.session.Interrupt(ctx) // a later one may find nothing running, or the same interrupt under way
			})
		}
	})
	wg.Wait()
	c = c.alive()
	c.ends(s.Prompts.Text)
	c.finish()
}

func (s *Suite) exitByItself(t *testing.T) {
	needs(t, s.Prompts.Exit, "Exit")
	c := s.open(t, "")
	o := c.turn(s.Prompts.Exit, 0, nil)
	if o.end != nil && o.end.StopReason != protocol.StopError {
		t.Errorf("the turn ended with %s, want an error or the Exit", o.end.StopReason)
	}
	s.dead(t, c)
}

// dead checks a session whose agent is gone, or going.
func (s *Suite) dead(t *testing.T, c *client) {
	t.Helper()
	c.drain()
	switch {
	case c.exit == nil:
		t.Error("the agent's end brought no Exit")
	case c.exit.Error == nil:
		t.Error("an exit that was not asked for has no Error")
	}
	ctx, cancel := s.within()
	defer cancel()
	if err := c.session.Apply(ctx, s.spec("")); !errors.Is(err, harness.ErrRestart) {
		t.Errorf("Apply to an agent that is gone returned %v, want harness.ErrRestart", err)
	}
	if c.session.Send(ctx, harness.Turn{ID: "t", Input: protocol.Text(s.Prompts.Text)}) == nil {
		t.Error("Send to an agent that is gone returned nil")
	}
	if err := c.session.Interrupt(ctx); err != nil {
		t.Errorf("Interrupt of an agent that is gone: %v, want nil", err)
	}
	c.finish()
}

// killed kills the agent at each step.
func (s *Suite) killed(t *testing.T) {
	s.needsKill(t)
	for _, p := range s.interruptible() {
		if p.prompt == "" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			s.eachStep(func(k int) (more bool) {
				c := s.open(t, "")
				o := c.turn(p.prompt, k, func() { s.kill(c.session) })
				if !o.acted { // it was over by then
					c.finish()
					return false
				}
				if p.endless && o.end != nil && o.end.StopReason != protocol.StopError {
					t.Errorf("at step %d: the turn ended with %s, want an error or the Exit", k, o.end.StopReason)
				}
				s.dead(t, c)
				return !o.quiet && !t.Failed()
			})
		})
	}
}

// recvContext receives a turn with contexts that end all the time.
func (s *Suite) recvContext(t *testing.T) {
	c := s.open(t, "")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if e, err := c.session.Recv(ended); !errors.Is(err, context.Canceled) && err != nil || err == nil && e == nil {
		t.Errorf("Recv with an ended context returned %v, %v", e, err)
	}
	c.send(s.Prompts.Text)
	streamed, whole := map[string]string{}, map[string]string{}
	for end := time.Now().Add(s.Wait); c.running; {
		if time.Now().After(end) {
			t.Fatal("the turn has not ended")
		}
		e, err := c.recv(50 * time.Microsecond)
		if errors.Is(err, context.DeadlineExceeded) {
			continue
		}
		if err != nil {
			t.Fatalf("Recv: %v", err)
		}
		switch e := e.(type) {
		case harness.Delta:
			if e.Type == protocol.DeltaText {
				streamed[e.Key] += e.Text
			}
		case harness.PartUpdate:
			if text, ok := e.Part.(*protocol.TextPart); ok && text.Text != "" {
				whole[e.Key] = text.Text
			}
		}
	}
	for key, text := range whole {
		if got := streamed[key]; got != "" && got != text {
			t.Errorf("the deltas make %q, the text is %q: an event was lost", got, text)
		}
	}
	c.finish()
}

func (s *Suite) apply(t *testing.T) {
	c := s.open(t, "")
	for range 2 {
		ctx, cancel := s.within()
		if err := c.session.Apply(ctx, s.spec("")); err != nil {
			t.Errorf("Apply of the same configuration: %v, want nil", err)
		}
		cancel()
		c.ends(s.Prompts.Text)
		if !s.Harness.Capabilities().MultiTurn {
			break
		}
	}
	c.finish()
}

func (s *Suite) resume(t *testing.T) {
	if !s.Harness.Capabilities().SessionResume {
		t.Skip("the harness cannot resume")
	}
	c := s.open(t, "")
	c.ends(s.Prompts.Text)
	c.finish()
	again := s.open(t, c.native)
	again.ends(s.Prompts.Text)
	if again.resumed == nil || !*again.resumed {
		t.Errorf("SessionStarted.Resumed is %v after a resume of a known session, want true", show(again.resumed))
	}
	again.finish()
	s.resumeUnknown(t)
}

// resumeUnknown asks for a session that never was. The driver may refuse, or begin anew and say so.
func (s *Suite) resumeUnknown(t *testing.T) {
	ctx, cancel := s.within()
	defer cancel()
	session, err := s.Harness.Open(ctx, s.spec("00000000-0000-4000-8000-000000000000"))
	if err != nil {
		return
	}
	c := &client{t: t, suite: s, session: session, answer: allow}
	o := c.turn(s.Prompts.Text, 0, nil)
	if o.end != nil && o.end.Error == nil && (c.resumed == nil || *c.resumed) {
		t.Errorf("SessionStarted.Resumed is %v after a resume of an unknown session, want false, or an error", show(c.resumed))
	}
	c.finish()
}

func show(b *bool) string {
	if b == nil {
		return "nil"
	}
	return fmt.Sprint(*b)
}

func (s *Suite) steer(t *testing.T) {
	if !s.Harness.Capabilities().Steering {
		t.Skip("the harness does not advertise steering")
	}
	c := s.open(t, "")
	steerer, ok := c.session.(harness.Steerer)
	if !ok {
		t.Fatal("the harness advertises steering, and its sessions are no harness.Steerer")
	}
	ctx, cancel := s.within()
	defer cancel()
	if accepted, err := steerer.Steer(ctx, protocol.Text(s.Prompts.Text)); accepted || err != nil {
		t.Errorf("Steer with nothing running: %v, %v; want false, nil", accepted, err)
	}
	c.ends(s.Prompts.Text)
	if s.Prompts.LongText != "" {
		c.turn(s.Prompts.LongText, 1, func() {
			if accepted, err := steerer.Steer(ctx, protocol.Text(s.Prompts.Text)); !accepted || err != nil {
				t.Errorf("Steer into a running turn: %v, %v; want true, nil", accepted, err)
			}
			if err := c.session.Interrupt(ctx); err != nil {
				t.Errorf("Interrupt: %v", err)
			}
		})
		c = c.alive()
		c.ends(s.Prompts.Text)
	}
	c.finish()
}

// background waits for a turn of the agent's own.
func (s *Suite) background(t *testing.T) {
	needs(t, s.Prompts.Background, "Background")
	c := s.open(t, "")
	c.ends(s.Prompts.Background)
	for c.own == 0 {
		if _, err := c.recv(s.Wait); err != nil {
			t.Fatalf("Recv: %v; the agent began no turn by itself", err)
		}
	}
	c.ends(s.Prompts.Text)
	c.finish()
}

// sessions runs several sessions at the same time.
func (s *Suite) sessions(t *testing.T) {
	var wg sync.WaitGroup
	all := make([]*client, 3)
	for i := range all {
		all[i] = s.open(t, "")
	}
	for _, c := range all {
		wg.Go(func() {
			c.send(s.Prompts.Text)
			for c.running {
				if _, err := c.recv(s.Wait); err != nil {
					t.Errorf("Recv: %v", err)
					return
				}
			}
			c.close()
		})
	}
	wg.Wait()
	natives := map[string]bool{}
	for _, c := range all {
		if natives[c.native] {
			t.Errorf("two sessions have the native id %s", c.native)
		}
		natives[c.native] = true
	}
}

// fieldNames ranges over the JSON names of a struct's fields.
func fieldNames(typ reflect.Type) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := range typ.NumField() {
			name := typ.Field(i).Tag.Get("json")
			for j := range len(name) {
				if name[j] == ',' {
					name = name[:j]
					break
				}
			}
			if !yield(name) {
				return
			}
		}
	}
}
