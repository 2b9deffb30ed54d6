package harnesstest

import (
	"context"
	"os"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// A Suite says what is tested and with what. Harness and Prompts.Text are required.
type Suite struct {
	Harness harness.Harness
	// Config is every session's. Harness is filled in, and Cwd is a temporary directory unless it is given.
	Config protocol.RunConfig
	// Env is the agents' environment; this process's when nil.
	Env     []string
	Prompts Prompts
	// Kill ends a session's agent as a crash would, without the driver's help. By default sessions that are a [harness.Killer] are killed by that; without
	// either, the tests that need it are skipped.
	Kill func(harness.Session)
	// Alive returns the processes of agents that are still there. When it is given, it must return none after each test.
	Alive func() []int
	// Wait is how long anything may take that is not stuck; 30 s by default.
	Wait time.Duration
	// Quiet is how long an agent says nothing once a long prompt has come to rest; 300 ms by default.
	Quiet time.Duration
	// Steps bounds how many events of a prompt are tried one by one; 20 by default.
	Steps int
}

// Prompts are what the agent is told. An agent that is killed or interrupted need not have played them to the end.
type Prompts struct {
	// Text is answered with some text; the turn ends by itself.
	Text string
	// LongText is answered with text that goes on until it is interrupted; it may pause, but not end, within Suite.Wait.
	LongText string
	// Permission makes the agent ask for one permission; whatever the answer, the turn then ends by itself.
	Permission string
	// LongTool makes the agent run, without asking, a tool that goes on until it is interrupted.
	LongTool string
	// Failure makes the turn end in an error.
	Failure string
	// Background ends well, and has the agent begin a turn by itself soon after.
	Background string
	// Exit makes the agent's process end by itself during the turn.
	Exit string
}

// Run runs all of the suite as subtests of t.
func Run(t *testing.T, s Suite) {
	t.Helper()
	if s.Harness == nil || s.Prompts.Text == "" {
		t.Fatal("harnesstest: a suite needs Harness and Prompts.Text")
	}
	s.fill(t)
	// What a program starts once and keeps is started now, so that it is no leak of a test.
	s.open(t, "").finish()
	t.Run("Driver", func(t *testing.T) { runDriver(t, &s) })
	t.Run("Engine", func(t *testing.T) { runEngine(t, &s) })
}

func (s *Suite) fill(t *testing.T) {
	if s.Config.Cwd == "" {
		s.Config.Cwd = t.TempDir()
	}
	s.Config.Harness = s.Harness.ID()
	if s.Env == nil {
		s.Env = os.Environ()
	}
	if s.Wait == 0 {
		s.Wait = 30 * time.Second
	}
	if s.Quiet == 0 {
		s.Quiet = 300 * time.Millisecond
	}
	if s.Steps == 0 {
		s.Steps = 20
	}
}

// test runs one subtest and then looks for what it left.
func (s *Suite) test(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	before := goroutines()
	t.Run(name, func(t *testing.T) {
		t.Cleanup(func() {
			noGoroutines(t, before)
			s.noProcesses(t)
		})
		f(t)
	})
}

// needs skips a test for which the suite has no prompt.
func needs(t *testing.T, prompt, name string) {
	t.Helper()
	if prompt == "" {
		t.Skipf("the suite has no Prompts.%s", name)
	}
}

// needsKill skips a test when agents cannot be killed.
func (s *Suite) needsKill(t *testing.T) {
	t.Helper()
	c := s.open(t, "")
	_, killer := c.session.(harness.Killer)
	c.finish()
	if s.Kill == nil && !killer {
		t.Skip("the suite has no Kill, and sessions are no harness.Killer")
	}
}

// kill ends a session's agent as a crash would.
func (s *Suite) kill(session harness.Session) {
	if s.Kill != nil {
		s.Kill(session)
		return
	}
	session.(harness.Killer).Kill()
}

func (s *Suite) spec(resume string) harness.Spec {
	return harness.Spec{SessionID: protocol.SessionID(protocol.NewID()), Config: s.Config, Resume: resume, Env: s.Env}
}

// within returns a context that ends when something is stuck.
func (s *Suite) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.Wait)
}

func (s *Suite) noProcesses(t *testing.T) {
	t.Helper()
	if s.Alive == nil {
		return
	}
	var left []int
	if !poll(5*time.Second, func() bool { left = s.Alive(); return len(left) == 0 }) {
		t.Errorf("processes are left: %v", left)
	}
}
