package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agentserver/client"
	"agentserver/internal/fakemodel"
	"agentserver/protocol"
)

// patience bounds every wait of these tests; a healthy machine takes milliseconds.
const patience = 45 * time.Second

func after(t *testing.T) <-chan struct{} {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx.Done()
}

// eventually polls until ok.
func eventually(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// A world is where a server and its agents live: folders of their own, a scripted model, and a mark that every process in it carries.
type world struct {
	t     *testing.T
	home  string
	cwd   string
	cli   string // the real claude; empty where there is none
	model *fakemodel.Server
	mark  string
	env   []string
}

// newWorld makes a world in which claude is the executable cli; empty for a world without one.
func newWorld(t *testing.T, cli string) *world {
	t.Helper()
	model, err := fakemodel.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	w := &world{t: t, home: t.TempDir(), cwd: t.TempDir(), cli: cli, model: model, mark: "e2e-" + protocol.NewID()}
	w.env = append(fakemodel.ClaudeEnv(model.URL()),
		"PATH="+os.Getenv("PATH"), "HOME="+w.home, "CLAUDE_CONFIG_DIR="+filepath.Join(w.home, ".claude"), "TMPDIR="+w.home,
		"AGENT_SERVER_CACHE_DIR="+filepath.Join(w.home, "cache"), "IS_SANDBOX=1", "CLAUDE_CODE_MAX_RETRIES=0",
		"AGENT_SERVER_PROCESS="+w.mark) // what the server starts is marked by its own addition to this
	if cli != "" {
		w.env = append(w.env, "CLAUDE_CLI_PATH="+cli)
	} else {
		w.env = append(w.env, "AGENT_SERVER_PROVISION=system")
	}
	t.Cleanup(func() { w.nothingLeft(5 * time.Second) })
	return w
}

// processes returns the processes of this world.
func (w *world) processes() []int {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		w.t.Fatal(err)
	}
	var pids []int
	for _, file := range all {
		env, err := os.ReadFile(file)
		if err == nil && bytes.Contains(env, []byte("AGENT_SERVER_PROCESS="+w.mark)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// nothingLeft checks that no process of this world is there any more, and ends those that are.
func (w *world) nothingLeft(within time.Duration) {
	w.t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		pids := w.processes()
		if len(pids) == 0 {
			return
		}
		if time.Now().Before(deadline) {
			continue
		}
		for _, pid := range pids {
			what, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
			w.t.Errorf("process %d is left: %s", pid, strings.ReplaceAll(string(what), "\x00", " "))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return
	}
}

// claudes returns the running processes of the real CLI.
func (w *world) claudes() []int {
	want, err := filepath.EvalSymlinks(w.cli)
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(w.processes(), func(pid int) bool {
		exe, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
		return exe != want
	})
}

// config is what turns of the real CLI run with, as changed.
func (w *world) config(change ...func(*protocol.RunConfig)) protocol.RunConfig {
	c := protocol.RunConfig{Harness: "claude-code", Cwd: w.cwd}
	for _, f := range change {
		f(&c)
	}
	return c
}

// mock is what turns of the mock harness run with.
func (w *world) mock() protocol.RunConfig { return protocol.RunConfig{Harness: "mock", Cwd: w.cwd} }

// made reports whether an agent has made a file.
func (w *world) made(name string) bool {
	_, err := os.Stat(filepath.Join(w.cwd, name))
	return err == nil
}

// A logBuffer keeps what a process writes. It is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written so far.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A server is a running agent-server that listens. A witness is connected to it all its life, without a library of ours between it and the wire.
type server struct {
	*world
	cmd    *exec.Cmd
	addr   string
	log    *logBuffer
	exited chan struct{} // closed once the process is gone
	err    error         // what Wait returned; set before exited is closed

	witness *tape
	watched chan struct{} // closed when the witness was cut off
	whole   bool          // whether every turn must have ended
}

// serve starts a server on a free port. At the end of the test it is told to stop, must do so well, and must leave nothing behind.
func (w *world) serve(args ...string) *server {
	w.t.Helper()
	address := filepath.Join(w.home, "address-"+protocol.NewID())
	s := &server{world: w, log: &logBuffer{}, exited: make(chan struct{}), witness: newTape(), watched: make(chan struct{}), whole: true}
	s.cmd = exec.Command(binary, append([]string{"--listen", "0", "--address-file", address, "--log-level", "debug"}, args...)...)
	s.cmd.Env, s.cmd.Stderr = w.env, s.log
	if err := s.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { s.err = s.cmd.Wait(); close(s.exited) }()
	w.t.Cleanup(s.stop)
	eventually(w.t, "the server listens", patience, func() bool {
		raw, err := os.ReadFile(address)
		s.addr = strings.TrimSpace(string(raw))
		return err == nil || s.gone()
	})
	if s.addr == "" {
		w.t.Fatalf("the server did not start:\n%s", s.log)
	}
	s.watch()
	return s
}

func (s *server) url() string { return "ws://" + s.addr }

func (s *server) gone() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// watch connects the witness.
func (s *server) watch() {
	s.t.Helper()
	conn, resp, err := websocket.Dial(s.t.Context(), s.url(), &websocket.DialOptions{HTTPHeader: s.authorization()})
	if err != nil {
		s.t.Fatalf("%v (%v)\n%s", err, resp, s.log)
	}
	conn.SetReadLimit(-1)
	hello := `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":2}}`
	if err := conn.Write(s.t.Context(), websocket.MessageText, []byte(hello)); err != nil {
		s.t.Fatal(err)
	}
	if _, _, err := conn.Read(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(s.watched)
		defer conn.CloseNow()
		for {
			_, message, err := conn.Read(context.Background()) // ends with the server
			if err != nil {
				return
			}
			var m struct {
				Method string
				Params json.RawMessage
			}
			if json.Unmarshal(message, &m) != nil || m.Method != "event" {
				m.Params = message // check complains about it
			}
			s.witness.raw(m.Params)
		}
	}()
}

func (s *server) authorization() map[string][]string {
	for _, kv := range s.env {
		if token, ok := strings.CutPrefix(kv, "AGENT_SERVER_TOKEN="); ok {
			return map[string][]string{"Authorization": {"Bearer " + token}}
		}
	}
	return nil
}

// client connects a client whose events go to a tape.
func (s *server) client(change ...func(*client.Options)) (*client.Client, *tape) {
	s.t.Helper()
	return s.clientAt(s.url(), change...)
}

func (s *server) clientAt(url string, change ...func(*client.Options)) (*client.Client, *tape) {
	s.t.Helper()
	return s.clientFor(s.t, url, change...)
}

// clientFor connects a client of a subtest.
func (s *server) clientFor(t *testing.T, url string, change ...func(*client.Options)) (*client.Client, *tape) {
	t.Helper()
	var got *tape
	var c *client.Client
	eventually(t, "a client connects", patience, func() bool { // the first connection of a client is its caller's business, and may be cut off
		got = newTape()
		opts := &client.Options{OnEvent: got.envelope}
		for _, f := range change {
			f(opts)
		}
		var err error
		c, err = client.Dial(t.Context(), url, opts)
		if err != nil && url == s.url() {
			t.Fatalf("%v\n%s", err, s.log)
		}
		return err == nil
	})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("closing the client: %v", err)
		}
		got.check(s.t, false)
	})
	return c, got
}

// stop ends the server as an operator does, and checks how it went and what every client was told.
func (s *server) stop() {
	s.t.Helper()
	if !s.gone() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
	}
	s.wait(0)
	s.witness.check(s.t, s.whole)
	if s.t.Failed() {
		s.t.Logf("the server's log:\n%s", s.log)
	}
}

// wait waits for the server's end and compares its exit code; -1 stands for a signal.
func (s *server) wait(code int) {
	s.t.Helper()
	if s.gone() && s.cmd.ProcessState.ExitCode() == -1 {
		code = -1 // the test has killed it and has said so
	}
	deadline, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-s.exited:
	case <-deadline.Done():
		s.t.Error("the server does not stop")
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	<-s.watched
	if exit, ok := errors.AsType[*exec.ExitError](s.err); s.err != nil && (!ok || exit.ExitCode() != code) {
		s.t.Errorf("the server ended with %v, want exit code %d", s.err, code)
	}
	if code != -1 {
		s.nothingLeft(5 * time.Second)
	}
}
