package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"agentserver/client"
	"agentserver/protocol"
)

const runLong = `Run one turn in this terminal. What the assistant says goes to stdout; tool calls,
thoughts, permission prompts and notices go to stderr.

  agent-server run "Fix the failing test"
  git diff | agent-server run --permission-mode plan "Review this change:" -
  agent-server run --harness codex-app-server --json "hi"

A prompt of "-" is read from stdin; several are joined by blank lines. When stdin is no
terminal, nobody is there to answer, so what the permission mode does not allow is denied
(--permissions allow answers yes to everything).

Ctrl-C cancels the turn; a second one ends the program at once.

Exit status: 0 the turn ended well, 1 it failed, 2 wrong usage, 3 the model refused,
4 it was cut off (max_tokens, --max-turns), 130 it was cancelled.`

// runFlags are the flags of `run`.
type runFlags struct {
	server, token  string
	session        string
	harness        string
	harnesses      harnessFlags
	json           bool
	verify         bool
	permissions    string
	files          []string
	thinking, mode string
	maxTurns       int
	config         protocol.RunConfig
}

func newRunCmd(g *globals) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   `run "PROMPT" ["PROMPT" ...]`,
		Short: "Run one turn in this terminal",
		Long:  runLong,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(`run: say what to do, for example: agent-server run "List the files"`)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runRun(cmd, g, f, args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.server, "server", "", "use the server at this ws:// or wss:// address instead of one of its own")
	fl.StringVar(&f.token, "token", os.Getenv("AGENT_SERVER_TOKEN"), "the server's bearer token")
	fl.Lookup("token").DefValue = "$AGENT_SERVER_TOKEN"
	fl.StringVar(&f.session, "session", "", "with --server: the session to go on with (default: a new one)")
	fl.StringVar(&f.harness, "harness", "", "which agent: claude-code, codex-app-server, codex-sdk, mock, acp, or a known ACP agent such as gemini (default: claude-code)")
	f.harnesses.register(fl)
	fl.BoolVar(&f.json, "json", false, "print the events, one envelope a line, instead of text")
	fl.BoolVar(&f.verify, "verify", false, "check the stream against the contract; exit 1 when it breaks it")
	fl.StringVar(&f.permissions, "permissions", "ask", "who answers permission requests: ask, allow or deny")
	fl.StringArrayVar(&f.files, "file", nil, "add an image or a file to the prompt (repeatable)")
	fl.StringVar(&f.config.Cwd, "cwd", "", "where the agent works (default: here)")
	fl.StringVar(&f.config.Model, "model", "", "the provider's name of the model")
	fl.StringVar(&f.thinking, "thinking", "", "off, low, medium, high or xhigh")
	fl.StringVar(&f.mode, "permission-mode", "", "default, plan, accept_edits, dont_ask or bypass_permissions")
	fl.IntVar(&f.maxTurns, "max-turns", 0, "most round trips to the model (default: no limit)")
	fl.StringVar(&f.config.SystemPromptAppend, "append-system-prompt", "", "text to add to the system prompt")
	fl.StringArrayVar(&f.config.AdditionalDirectories, "add-dir", nil, "another folder that the agent may use (repeatable)")
	fl.StringVar(&f.config.ResumeSessionID, "resume", "", "go on from the agent's own session with this id")
	fl.BoolVar(&f.config.DisableTools, "no-tools", false, "offer no tools to the model")
	fl.BoolVar(&f.config.IncludeRaw, "raw", false, "with --json: also what the agent really said")
	return cmd
}

func runRun(cmd *cobra.Command, g *globals, f *runFlags, args []string) error {
	ctx := cmd.Context()
	input, err := f.input(cmd.InOrStdin(), args)
	if err != nil {
		return err
	}
	interactive := isTerminal(cmd.InOrStdin())
	if err := f.finish(interactive); err != nil {
		return err
	}
	c, done, err := f.connect(ctx, cmd, g)
	if err != nil {
		return err
	}
	defer done()
	if f.config.Harness, err = pickHarness(f.harness, c.Server().Harnesses); err != nil {
		return err
	}
	view := f.view(cmd)
	ended, err := f.turn(ctx, c, input, view, cmd)
	if err != nil {
		return err
	}
	if err := view.close(); err != nil {
		return err
	}
	if code := exitCode(ended.StopReason); code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// turn runs the turn to its end. When ctx ends, the turn is cancelled and its end is still shown.
func (f *runFlags) turn(ctx context.Context, c *client.Client, input protocol.Input, view *view, cmd *cobra.Command) (*protocol.TurnEnded, error) {
	background, cancel := after(ctx, 30*time.Second)
	defer cancel()
	remove := c.OnEvent(view.envelope)
	defer remove()
	turn, err := c.StartTurn(background, protocol.TurnStartParams{SessionID: protocol.SessionID(f.session), Input: input, Config: f.config})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _, _ = turn.Cancel(background) })
	defer stop()
	answers := f.answerer(cmd)
	for event, err := range turn.Events(background) {
		if err != nil {
			return nil, err
		}
		view.event(event)
		if ask, ok := event.(*protocol.PermissionRequested); ok {
			// An answer that comes too late (the turn was cancelled meanwhile) is not accepted, which is no error.
			if _, err := turn.Respond(background, ask.RequestID, answers(ctx, ask)); err != nil && ctx.Err() == nil {
				return nil, err
			}
		}
	}
	ended, err := turn.Result(background)
	if err == nil {
		err = view.wait(background)
	}
	return ended, err
}

// connect returns a client of the named server, or of one within this process, which done ends.
func (f *runFlags) connect(ctx context.Context, cmd *cobra.Command, g *globals) (c *client.Client, done func(), err error) {
	opts := &client.Options{Client: &protocol.Info{Name: "agent-server run", Version: version}, Token: f.token}
	if f.server != "" {
		c, err := client.Dial(ctx, f.server, opts)
		if err != nil {
			return nil, nil, fmt.Errorf("%w\nis a server running there? start one with: agent-server --listen 127.0.0.1:8722", err)
		}
		return c, func() { _ = c.Close() }, nil
	}
	if cmd.Flag("log-level").Value.String() == "info" && !cmd.Flag("log-level").Changed {
		g.logLevel = "warn" // what a server logs is in a person's way
	}
	if f.harness != "" {
		f.harnesses.names = []string{f.harness}
	}
	srv, err := newServer(cmd, g, serverOptions{harnesses: f.harnesses})
	if err != nil {
		return nil, nil, err
	}
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.wire.ServeStdio(context.WithoutCancel(ctx), far, far, true)
	}()
	end := func() {
		_ = srv.close(defaultDrain)
		<-served
	}
	c, err = client.Attach(ctx, near, opts)
	if err != nil {
		end()
		return nil, nil, err
	}
	return c, func() { end(); _ = c.Close() }, nil
}

// input joins the prompts and files to one input.
func (f *runFlags) input(stdin io.Reader, args []string) (protocol.Input, error) {
	var texts []string
	for _, a := range args {
		if a == "-" {
			raw, err := io.ReadAll(io.LimitReader(stdin, 32<<20))
			if err != nil {
				return nil, fmt.Errorf("reading the prompt from stdin: %w", err)
			}
			a = string(raw)
		}
		if a = strings.TrimSpace(a); a != "" {
			texts = append(texts, a)
		}
	}
	if len(texts) == 0 {
		return nil, usageError("run: the prompt is empty")
	}
	input := protocol.Text(strings.Join(texts, "\n\n"))
	for _, name := range f.files {
		item, err := fileItem(name)
		if err != nil {
			return nil, err
		}
		input = append(input, item)
	}
	return input, nil
}

func fileItem(name string) (protocol.InputItem, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return protocol.InputItem{}, &exitError{exitUsage, err}
	}
	typ := mime.TypeByExtension(filepath.Ext(name))
	if typ == "" {
		typ = http.DetectContentType(raw)
	}
	typ, _, _ = strings.Cut(typ, ";")
	item := protocol.InputItem{Type: protocol.PartFile, Data: base64.StdEncoding.EncodeToString(raw), MimeType: typ, Filename: filepath.Base(name)}
	if strings.HasPrefix(typ, "image/") {
		item.Type = protocol.PartImage
	}
	return item, nil
}

// finish turns the flags into a config.
func (f *runFlags) finish(interactive bool) error {
	f.config.ThinkingLevel = protocol.ThinkingLevel(f.thinking)
	f.config.PermissionMode = protocol.PermissionMode(f.mode)
	if f.maxTurns != 0 {
		f.config.MaxTurns = &f.maxTurns
	}
	cwd, err := filepath.Abs(f.config.Cwd)
	if err != nil {
		return err
	}
	f.config.Cwd = cwd
	for i, d := range f.config.AdditionalDirectories {
		if f.config.AdditionalDirectories[i], err = filepath.Abs(d); err != nil {
			return err
		}
	}
	switch f.permissions {
	case "allow":
	case "ask":
		if !interactive {
			f.config.PermissionRequests = new(bool)
		}
	case "deny":
		f.config.PermissionRequests = new(bool)
	default:
		return usageError("--permissions %q: use ask, allow or deny", f.permissions)
	}
	if f.session != "" && f.server == "" {
		return usageError("--session needs --server: a server of one's own has no earlier sessions (use --resume)")
	}
	return nil
}

// answerer returns what answers permission requests.
func (f *runFlags) answerer(cmd *cobra.Command) func(context.Context, *protocol.PermissionRequested) protocol.PermissionOutcome {
	if f.permissions == "allow" {
		return func(context.Context, *protocol.PermissionRequested) protocol.PermissionOutcome {
			return protocol.Selected(protocol.OptionIDAllow)
		}
	}
	lines := make(chan string)
	in := bufio.NewReader(cmd.InOrStdin())
	out := cmd.ErrOrStderr()
	return func(ctx context.Context, ask *protocol.PermissionRequested) protocol.PermissionOutcome {
		for {
			fmt.Fprintf(out, "? %s\n  [y] allow  [a] always allow  [n] reject  [v] always reject: ", askTitle(ask))
			// Reading a terminal cannot be interrupted; the goroutine is left to the end of the program when ctx ends first.
			go func() {
				line, err := in.ReadString('\n')
				if err != nil && line == "" {
					line = "n"
				}
				lines <- line
			}()
			select {
			case <-ctx.Done():
				return protocol.Cancelled()
			case line := <-lines:
				if id := answerID(line); id != "" {
					return protocol.Selected(id)
				}
			}
		}
	}
}

func askTitle(ask *protocol.PermissionRequested) string {
	title := firstLine(ask.Title, "The agent asks for permission")
	if ask.ToolCall != nil && len(ask.ToolCall.RawInput) > 0 {
		title += "\n  " + ask.ToolCall.ToolName + " " + firstLine(string(ask.ToolCall.RawInput), "")
	}
	return title
}

func answerID(line string) string {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return protocol.OptionIDAllow
	case "a", "always":
		return protocol.OptionIDAllowAlways
	case "n", "no":
		return protocol.OptionIDReject
	case "v", "never":
		return protocol.OptionIDRejectAlways
	}
	return ""
}

func exitCode(stop protocol.StopReason) int {
	switch stop {
	case protocol.StopEndTurn:
		return exitOK
	case protocol.StopRefusal:
		return exitRefused
	case protocol.StopMaxTokens, protocol.StopMaxTurnRequests:
		return exitCutOff
	case protocol.StopCancelled:
		return exitCancelled
	}
	return exitFailed
}

func isTerminal(r any) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// after returns a context that ends d after ctx does: the time that cleaning up may take.
func after(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return out, func() { stop(); cancel() }
}
