package main

import (
	"log/slog"

	"github.com/spf13/cobra"
)

const rootLong = `agent-server runs coding agents (claude, codex, any ACP agent) as subprocesses and
turns what they say into one stream of numbered events, over JSON-RPC 2.0.

Without a command it serves. A parent process speaks to it over stdin and stdout,
one JSON object a line, which is also what no flag means:

  agent-server

or clients connect over a WebSocket, inside a sandbox for example:

  agent-server --listen 8722             on 127.0.0.1 only
  agent-server --listen 8722 --stdio     both at once

An editor that speaks ACP can spawn it as an agent, whatever runs behind it:

  agent-server --acp --harness codex-app-server

Everybody who reaches a listening address can run agents here. Set a token where
others can (clients send it as "Authorization: Bearer TOKEN"):

  AGENT_SERVER_TOKEN=... agent-server --listen 0.0.0.0:8722

It stops on SIGTERM, SIGINT, the shutdown request, or, serving stdio only, the end of
stdin: turns are interrupted, their turn.ended is delivered, and no process is left.

To try it out without a client:

  agent-server run "What does this project do?"`

// globals are the flags that every command has.
type globals struct {
	logLevel  string
	logJSON   bool
	provision provisionFlags
}

func newRootCmd() *cobra.Command {
	g := &globals{}
	serve := &serveFlags{}
	cmd := &cobra.Command{
		Use:           "agent-server",
		Short:         "Run coding agents behind one stream of events",
		Long:          rootLong,
		Args:          noArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return runServe(cmd, g, serve) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError("%w", err) })
	f := cmd.PersistentFlags()
	f.StringVar(&g.logLevel, "log-level", "info", "what goes to stderr: debug, info, warn or error")
	f.BoolVar(&g.logJSON, "log-json", false, "write the log as JSON, one object a line")
	g.provision.register(f)
	serve.register(cmd.Flags())
	cmd.AddCommand(newServeCmd(g), newRunCmd(g), newVersionCmd(), newSchemaCmd(), newCheckCmd())
	cmd.AddCommand(provisionCommands(g)...)
	return cmd
}

func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasParent():
		return usageError("%s: unknown command or argument %q", cmd.Name(), args[0])
	}
	return usageError("unknown command %q", args[0])
}

// logger returns the program's one logger: to stderr, since stdout may carry the wire.
func (g *globals) logger(cmd *cobra.Command) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(g.logLevel)); err != nil {
		return nil, usageError("--log-level %q: use debug, info, warn or error", g.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	if g.logJSON {
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), opts)), nil
	}
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), opts)), nil
}
