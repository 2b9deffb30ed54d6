// Command demo runs the main job before your eyes: a scripted model, the built server, and a client that drives the real claude CLI over a real
// WebSocket. With ANTHROPIC_API_KEY set it talks to the real model. Where no CLI can be had it says why and shows the same with the mock harness.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agentserver/client"
	"agentserver/internal/fakemodel"
	"agentserver/protocol"
)

func main() {
	server := flag.String("server", "bin/agent-server", "the built server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *server)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server string) error {
	dir, err := os.MkdirTemp("", "agent-server-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &demo{binary: server, dir: dir, env: os.Environ()}

	say("Provisioning the pinned claude CLI (found in the cache after the first time)")
	harness := protocol.HarnessID("claude-code")
	if err := d.provision(ctx); err != nil {
		fmt.Printf("  no claude CLI can be had here: %v\n  showing the same with the mock harness, which needs none\n", err)
		harness = "mock"
	}
	script := mockScript
	if harness == "claude-code" {
		stopModel, s, err := d.model()
		if err != nil {
			return err
		}
		defer stopModel()
		script = s
	}

	say("Starting the server")
	stopServer, url, err := d.serve(ctx)
	if err != nil {
		return err
	}
	defer stopServer()
	fmt.Println("  " + url)

	c, err := client.Dial(ctx, url, &client.Options{Client: &protocol.Info{Name: "demo"}})
	if err != nil {
		return err
	}
	defer c.Close()
	return d.turns(ctx, c, harness, script)
}

// A script holds the prompts of the three turns.
type script struct{ text, tool, slow string }

var (
	mockScript   = script{"think about it\nsay Hello from the scripted agent.", "ask Bash {\"command\":\"echo made by the demo\"}\nsay Done.", "say working\nhang"}
	scriptedOnes = script{"THINK Hello from a scripted model, through the real claude CLI.", "TOOL bash mkdir -p made-by-the-demo && ls -d made-by-the-demo", "SLOW 200 50"}
	realOnes     = script{"Say hello in one short sentence.", "Run exactly this shell command: mkdir -p made-by-the-demo && ls -d made-by-the-demo", "Count slowly from 1 to 500, one number a line."}
)

// A demo is one run: a server of its own in a folder of its own.
type demo struct {
	binary, dir string
	env         []string
}

// provision makes sure that a claude CLI is there.
func (d *demo) provision(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, d.binary, "install", "--harness", "claude-code")
	cmd.Env = d.env
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = indent{os.Stdout}, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s", lastLine(stderr.String(), err.Error()))
	}
	return nil
}

// model prepares the environment in which the CLI finds a model: the real one when there is a key, else a scripted one on loopback.
func (d *demo) model() (stop func(), s script, err error) {
	home := filepath.Join(d.dir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, script{}, err
	}
	// The demo leaves the person's own settings and sessions alone, whichever model answers.
	d.env = append(d.env, "CLAUDE_CONFIG_DIR="+filepath.Join(home, ".claude"))
	if os.Getenv("ANTHROPIC_API_KEY") != "" {
		say("Using the real model: ANTHROPIC_API_KEY is set")
		return func() {}, realOnes, nil
	}
	say("Starting a scripted model on loopback (set ANTHROPIC_API_KEY to use the real one)")
	srv, err := fakemodel.Start(nil)
	if err != nil {
		return nil, script{}, err
	}
	if cache, err := os.UserCacheDir(); err == nil && os.Getenv("AGENT_SERVER_CACHE_DIR") == "" {
		d.env = append(d.env, "AGENT_SERVER_CACHE_DIR="+filepath.Join(cache, "agent-server")) // where `install` has put the CLI
	}
	d.env = append(d.env, "HOME="+home)
	d.env = append(d.env, fakemodel.ClaudeEnv(srv.URL())...)
	return srv.Close, scriptedOnes, nil
}

// serve starts the server on a free port and returns its address.
func (d *demo) serve(ctx context.Context) (stop func(), url string, err error) {
	address := filepath.Join(d.dir, "address")
	cmd := exec.Command(d.binary, "--listen", "127.0.0.1:0", "--address-file", address, "--log-level", "warn")
	cmd.Env = d.env
	cmd.Stderr = indent{os.Stderr}
	if err := cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("%w; `make build` builds the server", err)
	}
	stop = func() {
		say("Stopping the server")
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			fmt.Println("  the server ended with:", err)
			return
		}
		fmt.Println("  gone, and every process that it started")
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		raw, err := os.ReadFile(address)
		if err == nil && len(raw) > 0 {
			return stop, "ws://" + strings.TrimSpace(string(raw)), nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			stop()
			return nil, "", fmt.Errorf("the server did not say where it listens within 10 s")
		}
	}
}

// turns runs the three turns in one session.
func (d *demo) turns(ctx context.Context, c *client.Client, harness protocol.HarnessID, s script) error {
	work := filepath.Join(d.dir, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	p := newPrinter()
	defer c.OnEvent(p.envelope)()
	config := protocol.RunConfig{Harness: harness, Cwd: work}
	session := protocol.SessionID(protocol.NewID())

	for _, step := range []struct {
		title, prompt string
		want          protocol.StopReason
		onEvent       func(*client.Turn, protocol.Event) error
	}{
		{"A turn of text", s.text, protocol.StopEndTurn, nil},
		{"A tool call, with a permission that this client answers", s.tool, protocol.StopEndTurn, allow(ctx)},
		{"A long answer, cancelled after its first words", s.slow, protocol.StopCancelled, cancelAtFirstText(ctx)},
	} {
		say(step.title)
		turn, err := c.StartTurn(ctx, protocol.TurnStartParams{SessionID: session, Input: protocol.Text(step.prompt), Config: config})
		if err != nil {
			return err
		}
		for event, err := range turn.Events(ctx) {
			if err != nil {
				return err
			}
			if step.onEvent != nil {
				if err := step.onEvent(turn, event); err != nil {
					return err
				}
			}
		}
		ended, err := turn.Result(ctx)
		if err != nil {
			return err
		}
		p.wait(ended.TurnID)
		if ended.StopReason != step.want {
			return fmt.Errorf("the turn ended with %s, not %s", ended.StopReason, step.want)
		}
	}
	return p.summary()
}

func allow(ctx context.Context) func(*client.Turn, protocol.Event) error {
	return func(turn *client.Turn, e protocol.Event) error {
		ask, ok := e.(*protocol.PermissionRequested)
		if !ok {
			return nil
		}
		_, err := turn.Respond(ctx, ask.RequestID, protocol.Selected(protocol.OptionIDAllow))
		return err
	}
}

func cancelAtFirstText(ctx context.Context) func(*client.Turn, protocol.Event) error {
	done := false
	return func(turn *client.Turn, e protocol.Event) error {
		part, ok := e.(*protocol.MessagePart)
		if done || !ok && e.EventType() != protocol.EventMessagePartDelta || ok && part.OutputIndex == 0 {
			return nil
		}
		done = true
		_, err := turn.Cancel(ctx)
		return err
	}
}

func say(format string, args ...any) { fmt.Printf("\n== "+format+"\n", args...) }

func lastLine(text, otherwise string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return otherwise
}

// indent writes each line with two spaces before it.
type indent struct{ w *os.File }

// Write implements io.Writer.
func (i indent) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		if _, err := i.w.WriteString("  " + line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
