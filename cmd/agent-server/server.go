package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"agentserver/engine"
	"agentserver/engine/eventlog"
	"agentserver/engine/wire"
	"agentserver/protocol"
	"agentserver/provision"
)

// A server is the whole thing: CLIs, harnesses, engine and wire.
type server struct {
	log         *slog.Logger
	provisioner *provision.Provisioner
	runtime     *engine.Runtime
	wire        *wire.Server
}

// serverOptions are what `serve` and `run` choose.
type serverOptions struct {
	harnesses harnessFlags
	token     string
	origins   []string
	limits    limitFlags
}

func newServer(cmd *cobra.Command, g *globals, o serverOptions) (*server, error) {
	log, err := g.logger(cmd)
	if err != nil {
		return nil, err
	}
	p, err := g.provision.open(log)
	if err != nil {
		return nil, err
	}
	registry, err := newHarnesses(&o.harnesses, p)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	rt, err := engine.New(engine.Options{
		Registry: registry,
		Logger:   log,
		Server:   protocol.Info{Name: "agent-server", Version: version},
		Log:      eventlog.Limits{SessionEvents: o.limits.buffer, SessionBytes: int64(o.limits.bufferMiB) << 20},

		MaxSessions: o.limits.maxSessions, MaxTurns: o.limits.maxTurns,
		AllowEnv:          o.limits.allowEnv,
		PermissionTimeout: o.limits.permissionTimeout,
		IdleTimeout:       o.limits.idleTimeout,
		DrainTimeout:      o.limits.drainTimeout,
	})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if g.provision.prefetch {
		prefetch(p, registry, log)
	}
	return &server{log: log, provisioner: p, runtime: rt,
		wire: wire.New(rt, wire.Options{Logger: log, Token: o.token, OriginPatterns: o.origins})}, nil
}

// close drains and ends everything, in time or by force.
func (s *server) close(drain time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), drain+5*time.Second)
	defer cancel()
	return errors.Join(s.wire.Shutdown(ctx), s.provisioner.Close())
}
