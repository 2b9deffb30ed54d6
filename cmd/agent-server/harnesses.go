package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"agentserver/harness"
	"agentserver/harness/claude"
	"agentserver/harness/mock"
	"agentserver/protocol"
	"agentserver/provision"
)

// newHarnesses is the one list of what this program offers. names restricts it; none means all.
func newHarnesses(names []string, p *provision.Provisioner) (*harness.Registry, error) {
	all := []harness.Harness{
		claude.New(claude.Options{Resolve: resolver(p, provision.Claude)}),
		mock.New(),
	}
	if len(names) == 0 {
		return harness.NewRegistry(all...)
	}
	var chosen []harness.Harness
	for _, name := range names {
		i := slices.IndexFunc(all, func(h harness.Harness) bool { return string(h.ID()) == strings.TrimSpace(name) })
		if i < 0 {
			return nil, usageError("--harness %q: there is no such harness; available: %s", name, ids(all))
		}
		chosen = append(chosen, all[i])
	}
	return harness.NewRegistry(chosen...)
}

func ids(all []harness.Harness) string {
	var names []string
	for _, h := range all {
		names = append(names, string(h.ID()))
	}
	return strings.Join(names, ", ")
}

// resolver has a driver's executable found by p, whose progress becomes notices.
func resolver(p *provision.Provisioner, tool provision.Tool) harness.Resolver {
	return func(ctx context.Context, notify func(harness.Notice)) (harness.Executable, error) {
		exe, err := p.Resolve(ctx, tool, func(progress provision.Progress) {
			if notify == nil {
				return
			}
			n := harness.Notice{Kind: protocol.NoticeProvisioning, Message: progress.String()}
			if progress.Total > 0 {
				n.Progress = &protocol.Progress{Done: progress.Done, Total: progress.Total, Unit: "bytes"}
			}
			notify(n)
		})
		if err != nil {
			return harness.Executable{}, &harness.Error{Category: protocol.CategoryInvalidRequest, Message: err.Error(), Err: err}
		}
		return harness.Executable{Path: exe.Path, Version: exe.Version}, nil
	}
}

// prefetch looks for the CLIs of the registry's harnesses at once, so that the first turn need not.
func prefetch(p *provision.Provisioner, r *harness.Registry, log *slog.Logger) {
	for _, id := range r.IDs() {
		if tool, ok := toolOf(string(id)); ok {
			log.Debug("prefetching", "tool", string(tool))
			p.Prefetch(tool)
		}
	}
}

// pickHarness returns the harness that `run` uses: the one that was named, else the first real one of the server's.
func pickHarness(name string, offered map[protocol.HarnessID]protocol.Capabilities) (protocol.HarnessID, error) {
	if name != "" {
		if _, ok := offered[protocol.HarnessID(name)]; !ok {
			return "", usageError("--harness %q: the server has no such harness; available: %v", name, slices.Sorted(maps.Keys(offered)))
		}
		return protocol.HarnessID(name), nil
	}
	if _, ok := offered[claude.ID]; ok {
		return claude.ID, nil
	}
	for _, id := range slices.Sorted(maps.Keys(offered)) {
		if id != mock.ID {
			return id, nil
		}
	}
	for id := range offered {
		return id, nil
	}
	return "", fmt.Errorf("the server offers no harness")
}
