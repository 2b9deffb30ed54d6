package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agentserver/engine/acp"
	"agentserver/engine/eventlog"
	"agentserver/engine/wire"
)

// serveFlags are the flags of `serve`, which are also the program's own.
type serveFlags struct {
	stdio       bool
	acp         bool
	listen      string
	addressFile string
	dial        string
	token       string
	origins     []string
	harnesses   harnessFlags
	limits      limitFlags
}

// limitFlags bound what the server holds and how long it waits.
type limitFlags struct {
	buffer, bufferMiB     int
	maxSessions, maxTurns int
	allowEnv              []string
	permissionTimeout     time.Duration
	idleTimeout           time.Duration
	drainTimeout          time.Duration
}

const defaultDrain = 10 * time.Second

func (f *serveFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.stdio, "stdio", false, "serve on stdin and stdout, one JSON object a line (what no flag means)")
	fs.BoolVar(&f.acp, "acp", false, "be an ACP agent on stdin and stdout instead, for an editor; --harness says which harness answers (default: claude-code)")
	fs.StringVar(&f.listen, "listen", "", "serve WebSockets on `[host:]port`; without a host on 127.0.0.1, with port 0 on a free one")
	fs.StringVar(&f.addressFile, "address-file", "", "write the address that --listen got to this `file`, once it accepts connections")
	fs.StringVar(&f.dial, "dial", "", "connect to this ws:// or wss:// `url` and serve whoever is there, for a place that nobody can connect to")
	fs.StringVar(&f.token, "token", os.Getenv("AGENT_SERVER_TOKEN"), "the bearer token that WebSocket clients must send, and that --dial sends")
	fs.Lookup("token").DefValue = "$AGENT_SERVER_TOKEN"
	fs.StringSliceVar(&f.origins, "origin", nil, "web pages on these `hosts` may connect too (patterns such as *.example.com)")
	fs.StringSliceVar(&f.harnesses.names, "harness", nil, "offer only these `harnesses`, well-known ACP agents such as gemini among them (default: all native ones)")
	f.harnesses.register(fs)
	f.limits.register(fs)
}

func (f *limitFlags) register(fs *pflag.FlagSet) {
	fs.IntVar(&f.buffer, "buffer", eventlog.DefaultSessionEvents, "how many events a session holds for replay")
	fs.IntVar(&f.bufferMiB, "buffer-mib", 16, "how many MiB of events a session holds for replay")
	fs.IntVar(&f.maxSessions, "max-sessions", 0, "how many sessions may be open (0: no limit)")
	fs.IntVar(&f.maxTurns, "max-turns", 0, "how many turns may run at the same time (0: no limit)")
	fs.StringSliceVar(&f.allowEnv, "allow-env", nil, "let clients set these environment `variables` although they are refused by default (PATH, HOME, LD_*, ...)")
	fs.DurationVar(&f.permissionTimeout, "permission-timeout", 0, "give up on a permission request after so long (0: wait for ever)")
	fs.DurationVar(&f.idleTimeout, "idle-timeout", 30*time.Minute, "end an idle session's agent after so long; its next turn resumes (-1: never)")
	fs.DurationVar(&f.drainTimeout, "drain-timeout", defaultDrain, "how long a shutdown may take before processes are killed")
}

func newServeCmd(g *globals) *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve clients (the default command)",
		Long:  rootLong,
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runServe(cmd, g, f) },
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *serveFlags) check() error {
	if f.listen == "" && f.dial == "" && !f.acp {
		f.stdio = true
	}
	switch {
	case f.acp && f.stdio:
		return usageError("--acp and --stdio both want stdin and stdout: give one of them")
	case f.acp && len(f.harnesses.names) > 1:
		return usageError("--acp serves one harness: give one --harness")
	case f.addressFile != "" && f.listen == "":
		return usageError("--address-file needs --listen")
	case f.limits.buffer <= 0 || f.limits.bufferMiB <= 0:
		return usageError("--buffer and --buffer-mib must be above 0")
	case f.limits.maxSessions < 0 || f.limits.maxTurns < 0:
		return usageError("--max-sessions and --max-turns must not be negative")
	case f.dial != "" && !strings.HasPrefix(f.dial, "ws://") && !strings.HasPrefix(f.dial, "wss://"):
		return usageError("--dial %q: must begin with ws:// or wss://", f.dial)
	}
	return nil
}

func runServe(cmd *cobra.Command, g *globals, f *serveFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx := cmd.Context()
	var listener net.Listener
	if f.listen != "" { // before anything else is started, so that a port in use is said at once
		l, err := wire.Listen(ctx, f.listen)
		if err != nil {
			return err
		}
		listener = l
	}
	s, err := newServer(cmd, g, serverOptions{f.harnesses, f.token, f.origins, f.limits})
	if err != nil {
		if listener != nil {
			_ = listener.Close()
		}
		return err
	}
	return s.serve(ctx, cmd, f, listener)
}

// serve runs every way in that was asked for, until ctx ends, the wire is shut down, or one of them fails.
func (s *server) serve(ctx context.Context, cmd *cobra.Command, f *serveFlags, listener net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	way := func(run func(context.Context) error) {
		wg.Go(func() {
			if err := run(context.WithoutCancel(ctx)); err != nil {
				cancel(err)
			}
		})
	}
	if listener != nil {
		if err := s.announce(f, listener); err != nil {
			_ = listener.Close()
			return errors.Join(err, s.close(0))
		}
		way(func(ctx context.Context) error { return s.wire.ServeListener(ctx, listener) })
	}
	if f.dial != "" {
		way(func(ctx context.Context) error {
			return s.wire.DialOut(ctx, f.dial, &wire.DialOutOptions{Token: f.token})
		})
	}
	if f.acp {
		harness, err := f.harnesses.one(s.runtime.Harnesses())
		if err != nil {
			return errors.Join(err, s.close(0))
		}
		alone := listener == nil && f.dial == ""
		way(func(ctx context.Context) error {
			if alone {
				defer cancel(nil) // the editor has left
			}
			return acp.Serve(ctx, s.runtime, harness, stdio{cmd.InOrStdin(), cmd.OutOrStdout()})
		})
	}
	if f.stdio {
		alone := listener == nil && f.dial == ""
		way(func(ctx context.Context) error {
			return s.wire.ServeStdio(ctx, cmd.InOrStdin(), cmd.OutOrStdout(), !alone)
		})
	}
	select {
	case <-ctx.Done():
		s.log.Info("stopping", "drain", f.limits.drainTimeout)
	case <-s.wire.Done():
	}
	err := s.close(f.limits.drainTimeout)
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // one of the ways failed
	}
	return err
}

// stdio is stdin and stdout as one stream.
type stdio struct {
	io.Reader
	io.Writer
}

// Close closes both, as far as they can be closed.
func (s stdio) Close() error {
	var errs []error
	for _, end := range []any{s.Reader, s.Writer} {
		if c, ok := end.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// announce says where the server listens.
func (s *server) announce(f *serveFlags, l net.Listener) error {
	s.log.Info("listening", "url", "ws://"+l.Addr().String())
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && f.token == "" {
		s.log.Warn("everybody who reaches this address can run agents here; set AGENT_SERVER_TOKEN")
	}
	if f.addressFile == "" {
		return nil
	}
	// Renamed into place, so that whoever waits for the file never reads half of it.
	tmp := f.addressFile + ".tmp"
	if err := os.WriteFile(tmp, []byte(l.Addr().String()+"\n"), 0o600); err != nil {
		return fmt.Errorf("--address-file: %w", err)
	}
	if err := os.Rename(tmp, filepath.Clean(f.addressFile)); err != nil {
		return fmt.Errorf("--address-file: %w", err)
	}
	return nil
}
