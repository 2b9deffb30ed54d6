package wholepath

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentserver/client"
	"agentserver/internal/fakemodel"
	"agentserver/protocol"
	"agentserver/protocol/streamcheck"
	"agentserver/provision"
	"agentserver/provision/provisiontest"
)

// binary is the server under test, built once.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "agent-server-e2e-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "agent-server")
	build := exec.Command("go", "build", "-o", binary, "agentserver/cmd/agent-server")
	build.Stderr = os.Stderr
	code := 1
	if err := build.Run(); err == nil {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// limit bounds one test's waiting; the machine may be busy.
const limit = 60 * time.Second

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// environment is what servers of one test share: a home, a work folder, a model.
type environment struct {
	model *fakemodel.Server
	home  string
	work  string
	vars  []string
}

// withClaude returns an environment in which the real claude CLI runs against a scripted model.
func withClaude(t *testing.T) *environment {
	t.Helper()
	cli := provisiontest.CLI(t, provision.Claude).Path
	model, err := fakemodel.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	e := withoutAgents(t)
	e.model = model
	e.vars = append(e.vars, fakemodel.ClaudeEnv(model.URL())...)
	e.vars = append(e.vars, "CLAUDE_CLI_PATH="+cli)
	return e
}

// withoutAgents returns an environment without a CLI.
func withoutAgents(t *testing.T) *environment {
	t.Helper()
	e := &environment{home: t.TempDir(), work: t.TempDir()}
	e.vars = []string{"HOME=" + e.home, "CLAUDE_CONFIG_DIR=" + filepath.Join(e.home, ".claude"), "PATH=" + os.Getenv("PATH"), "AGENT_SERVER_PROVISION=system"}
	return e
}

// config is a turn's configuration.
func (e *environment) config(h protocol.HarnessID) protocol.RunConfig {
	return protocol.RunConfig{Harness: h, Cwd: e.work}
}

// A server is the binary, serving.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	log  *syncBuffer
	done chan struct{}
}

// serve starts the binary on a free port.
func (e *environment) serve(t *testing.T, args ...string) *server {
	t.Helper()
	address := filepath.Join(t.TempDir(), "address")
	s := &server{t: t, log: &syncBuffer{}, done: make(chan struct{})}
	s.cmd = exec.Command(binary, append([]string{"--listen", "127.0.0.1:0", "--address-file", address, "--log-level", "debug"}, args...)...)
	s.cmd.Env = e.vars
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(s.done); _ = s.cmd.Wait() }()
	t.Cleanup(func() {
		s.kill(syscall.SIGTERM)
		s.wait(20 * time.Second)
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.log.String())
		}
	})
	eventually(t, 15*time.Second, "the server listens", func() bool {
		raw, err := os.ReadFile(address)
		s.url = "ws://" + strings.TrimSpace(string(raw))
		return err == nil && len(raw) > 0
	})
	return s
}

func (s *server) kill(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// wait returns the exit code.
func (s *server) wait(d time.Duration) int {
	select {
	case <-s.done:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(d):
		s.kill(syscall.SIGKILL)
		<-s.done
		s.t.Errorf("the server did not end within %v", d)
		return -1
	}
}

// dial connects a client, which records and checks every session that it sees.
func (s *server) dial(url string, opts *client.Options) *peer {
	s.t.Helper()
	r := record(s.t)
	if opts == nil {
		opts = &client.Options{}
	}
	opts.OnEvent = r.add
	c, err := client.Dial(testContext(s.t), url, opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return &peer{c, r}
}

// A peer is a client and what it saw.
type peer struct {
	*client.Client
	*recording
}

// A recording holds what a client saw, session by session, and at the test's end holds each to the contract.
type recording struct {
	mu     sync.Mutex
	frames map[protocol.SessionID][]string
	checks map[protocol.SessionID]*streamcheck.Checker
	broken []string
	ended  map[protocol.TurnID]bool
	loose  bool // the stream is cut off on purpose: what is missing at its end is no breach
}

func record(t *testing.T) *recording {
	r := &recording{frames: map[protocol.SessionID][]string{}, checks: map[protocol.SessionID]*streamcheck.Checker{}, ended: map[protocol.TurnID]bool{}}
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for id, c := range r.checks {
			if !r.loose {
				for _, v := range c.Finish() {
					r.broken = append(r.broken, fmt.Sprintf("%s: %s", id, v))
				}
			}
		}
		for _, b := range r.broken {
			t.Errorf("the stream breaks the contract: %s", b)
		}
	})
	return r
}

func (r *recording) add(env protocol.Envelope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line, err := protocol.AppendEnvelope(nil, env)
	if err != nil {
		r.broken = append(r.broken, err.Error())
	}
	r.frames[env.SessionID] = append(r.frames[env.SessionID], string(line))
	c := r.checks[env.SessionID]
	if c == nil {
		c = streamcheck.New()
		r.checks[env.SessionID] = c
	}
	for _, v := range c.Add(env) {
		r.broken = append(r.broken, fmt.Sprintf("%s: %s: %s", env.SessionID, v, line))
	}
	if e, ok := env.Event.(*protocol.TurnEnded); ok {
		r.ended[e.TurnID] = true
	}
}

func (r *recording) saw(turn protocol.TurnID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[turn]
}

func (r *recording) session(id protocol.SessionID) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.frames[id])
}

// A turn is run to its end with what happens on the way.
type turn struct {
	session protocol.SessionID
	prompt  string
	config  protocol.RunConfig
	on      func(*client.Turn, protocol.Event)
}

// run runs a turn and returns its events.
func (tn turn) run(t *testing.T, c *peer) ([]protocol.Event, *protocol.TurnEnded) {
	t.Helper()
	ctx := testContext(t)
	h, err := c.StartTurn(ctx, protocol.TurnStartParams{SessionID: tn.session, Input: protocol.Text(tn.prompt), Config: tn.config})
	if err != nil {
		t.Fatal(err)
	}
	var events []protocol.Event
	for e, err := range h.Events(ctx) {
		if err != nil {
			t.Fatalf("%s: %v", tn.prompt, err)
		}
		events = append(events, e)
		if tn.on != nil {
			tn.on(h, e)
		}
	}
	ended, err := h.Result(ctx)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, limit, "the recording has the turn's end", func() bool { return c.saw(ended.TurnID) })
	return events, ended
}

// answer answers every permission request.
func answer(t *testing.T, outcome protocol.PermissionOutcome) func(*client.Turn, protocol.Event) {
	return func(h *client.Turn, e protocol.Event) {
		if ask, ok := e.(*protocol.PermissionRequested); ok {
			if _, err := h.Respond(testContext(t), ask.RequestID, outcome); err != nil {
				t.Error(err)
			}
		}
	}
}

// lastTool is the last state of the last tool part.
func lastTool(events []protocol.Event) protocol.ToolState {
	for _, e := range slices.Backward(events) {
		if p, ok := e.(*protocol.MessagePart); ok {
			if tool, ok := p.Part.(*protocol.ToolPart); ok {
				return tool.State
			}
		}
	}
	return nil
}

// text is what the assistant said.
func text(events []protocol.Event) string {
	var b strings.Builder
	for _, e := range events {
		if p, ok := e.(*protocol.MessagePart); ok && p.OutputIndex > 0 {
			if tp, ok := p.Part.(*protocol.TextPart); ok && tp.State == protocol.PartDone {
				b.WriteString(tp.Text)
			}
		}
	}
	return b.String()
}

func count[E protocol.Event](events []protocol.Event) int {
	n := 0
	for _, e := range events {
		if _, ok := e.(E); ok {
			n++
		}
	}
	return n
}

// eventually polls until what is true, and fails the test after d.
func eventually(t *testing.T, d time.Duration, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(d); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

// marked returns the processes whose environment holds value: the server's agents and all that they started.
func marked(value string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(raw, []byte(value)) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/environ", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// agents returns the processes of this environment but for its servers.
func (e *environment) agents(servers ...*server) []int {
	return slices.DeleteFunc(marked("HOME="+e.home+"\x00"), func(pid int) bool {
		return slices.ContainsFunc(servers, func(s *server) bool { return s.cmd.Process.Pid == pid })
	})
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
