package harnesstest

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// A client drives one session and holds what it yields against the rules for drivers.
type client struct {
	t       testing.TB
	suite   *Suite
	session harness.Session
	answer  func(harness.Permission) // nil leaves requests unanswered
	native  string
	resumed *bool
	running bool          // a turn was sent and has not ended
	own     int           // turns of the agent's own that ended
	exit    *harness.Exit // once it was yielded
}

// open opens a session, which finish must close.
func (s *Suite) open(t testing.TB, resume string) *client {
	t.Helper()
	ctx, cancel := s.within()
	defer cancel()
	session, err := s.Harness.Open(ctx, s.spec(resume))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	c := &client{t: t, suite: s, session: session, answer: allow}
	t.Cleanup(func() { c.close() })
	return c
}

func allow(p harness.Permission) { p.Decide(harness.Decision{Allow: true}) }

func refuse(p harness.Permission) { p.Decide(harness.Decision{Message: "No."}) }

// close closes the session; it must not be stuck.
func (c *client) close() {
	c.t.Helper()
	ctx, cancel := c.suite.within()
	defer cancel()
	if err := c.session.Close(ctx); err != nil {
		c.t.Errorf("Close: %v", err)
	}
	if ctx.Err() != nil {
		c.t.Errorf("Close took longer than %v", c.suite.Wait)
	}
}

// finish closes the session and reads what is left of its stream.
func (c *client) finish() {
	c.t.Helper()
	c.close()
	c.drain()
}

// drain reads the stream of a session that is closed or dead to its end.
func (c *client) drain() {
	c.t.Helper()
	for range 1_000_000 {
		if _, err := c.recv(c.suite.Wait); errors.Is(err, io.EOF) {
			if _, err := c.recv(c.suite.Wait); !errors.Is(err, io.EOF) {
				c.t.Errorf("Recv after io.EOF returned %v", err)
			}
			return
		} else if err != nil {
			c.t.Fatalf("Recv after Close: %v, want the events that are left and io.EOF", err)
		}
	}
	c.t.Fatal("the stream of a closed session does not end")
}

// send sends a turn.
func (c *client) send(prompt string) {
	c.t.Helper()
	ctx, cancel := c.suite.within()
	defer cancel()
	c.running = true
	if err := c.session.Send(ctx, harness.Turn{ID: protocol.TurnID(protocol.NewID()), Input: protocol.Text(prompt)}); err != nil {
		c.t.Fatalf("Send: %v", err)
	}
}

// recv receives an event and checks it. It returns context.DeadlineExceeded when none comes in time.
func (c *client) recv(wait time.Duration) (harness.Event, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	e, err := c.session.Recv(ctx)
	if err != nil {
		return nil, err
	}
	if c.exit != nil {
		c.t.Errorf("%T came after Exit", e)
	}
	c.check(e)
	return e, nil
}

func (c *client) check(e harness.Event) {
	c.t.Helper()
	switch e := e.(type) {
	case nil:
		c.t.Fatal("Recv returned neither an event nor an error")
	case harness.SessionStarted:
		if e.NativeSessionID == "" {
			c.t.Error("SessionStarted has no NativeSessionID")
		}
		c.native = e.NativeSessionID
		if e.Resumed != nil {
			c.resumed = e.Resumed
		}
	case harness.PartUpdate:
		if e.Key == "" || e.Part == nil {
			c.t.Errorf("PartUpdate without Key or Part: %+v", e)
		} else if tool, ok := e.Part.(*protocol.ToolPart); ok && tool.State == nil {
			c.t.Errorf("the tool part %s has no State", e.Key)
		}
	case harness.Delta:
		if e.Key == "" || e.Type == "" {
			c.t.Errorf("Delta without Key or Type: %+v", e)
		}
	case harness.Usage:
		if e.Used < 0 || e.Size < 0 {
			c.t.Errorf("Usage below 0: %+v", e)
		}
	case harness.Compaction:
		if e.Key == "" || e.Status == "" {
			c.t.Errorf("Compaction without Key or Status: %+v", e)
		}
	case harness.Permission:
		if e.Key == "" || e.Decide == nil {
			c.t.Errorf("Permission without Key or Decide: %+v", e)
		} else if c.answer != nil {
			c.answer(e)
		}
	case harness.Failure:
		if e.Category == "" || e.Message == "" {
			c.t.Errorf("Failure without Category or Message: %+v", e)
		}
	case harness.TurnEnd:
		c.checkEnd(e)
	case harness.Exit:
		if e.Error != nil && (e.Error.Category == "" || e.Error.Message == "") {
			c.t.Errorf("Exit without Category or Message: %+v", e.Error)
		}
		c.exit, c.running = &e, false
	}
}

func (c *client) checkEnd(e harness.TurnEnd) {
	c.t.Helper()
	switch {
	case e.Own:
		c.own++
	case !c.running:
		c.t.Errorf("TurnEnd (%s), and no turn runs", e.StopReason)
	default:
		c.running = false
	}
	switch {
	case e.StopReason == "":
		c.t.Error("TurnEnd has no StopReason")
	case (e.StopReason == protocol.StopError) != (e.Error != nil):
		c.t.Errorf("TurnEnd has the stop reason %q and the error %v", e.StopReason, e.Error)
	case e.Error != nil && (e.Error.Category == "" || e.Error.Message == ""):
		c.t.Errorf("TurnEnd without error category or message: %+v", e.Error)
	}
}

// An outcome is how a turn went.
type outcome struct {
	events []harness.Event
	end    *harness.TurnEnd // nil when the agent's exit ended the turn
	// acted says that the action was taken; quiet, that it was taken because nothing more came.
	acted, quiet bool
}

// turn sends a prompt and receives until the turn ends. After the k-th event, or when no more comes, act is called once; it may be nil.
func (c *client) turn(prompt string, k int, act func()) outcome {
	c.t.Helper()
	c.send(prompt)
	return c.follow(k, act)
}

func (c *client) follow(k int, act func()) (o outcome) {
	c.t.Helper()
	var deadline time.Time // of a turn that was told to stop
	do := func() {
		if act != nil && !o.acted {
			o.acted = true
			act()
			deadline = time.Now().Add(c.suite.Wait)
		}
	}
	for c.running {
		if len(o.events) >= k {
			do()
		}
		wait := c.suite.Wait
		if act != nil && !o.acted {
			wait = c.suite.Quiet
		}
		if o.acted && time.Now().After(deadline) {
			c.t.Fatalf("the turn goes on for %v after it was stopped", c.suite.Wait)
		}
		e, err := c.recv(wait)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && act != nil && !o.acted:
			o.quiet = true
			do()
			continue
		case errors.Is(err, io.EOF):
			if c.exit == nil {
				c.t.Fatal("the stream ended in a turn without Exit")
			}
			return o
		case err != nil:
			c.t.Fatalf("Recv: %v; the turn has not ended after %d events, the last of them %T", err, len(o.events), last(o.events))
		}
		o.events = append(o.events, e)
		if end, ok := e.(harness.TurnEnd); ok && !end.Own {
			o.end = &end
		}
	}
	return o
}

func last(events []harness.Event) harness.Event {
	if len(events) == 0 {
		return nil
	}
	return events[len(events)-1]
}

// ends plays a turn that must end by itself, and well.
func (c *client) ends(prompt string) outcome {
	c.t.Helper()
	o := c.turn(prompt, 0, nil)
	switch {
	case o.end == nil:
		c.t.Fatalf("the agent exited: %+v", c.exit.Error)
	case o.end.StopReason != protocol.StopEndTurn:
		c.t.Errorf("the turn ended with %s (%v), want %s", o.end.StopReason, o.end.Error, protocol.StopEndTurn)
	}
	return o
}

// alive returns a client that can take another turn: c, or one that resumes where c's agent has gone.
func (c *client) alive() *client {
	c.t.Helper()
	if c.exit == nil {
		return c
	}
	c.finish()
	resume := ""
	if c.suite.Harness.Capabilities().SessionResume {
		resume = c.native
	}
	return c.suite.open(c.t, resume)
}

// eachStep calls f with 0, 1, 2, … until it says that there are no more steps, or the suite's bound is reached.
func (s *Suite) eachStep(f func(k int) (more bool)) {
	for k := 0; k <= s.Steps && f(k); k++ {
	}
}
