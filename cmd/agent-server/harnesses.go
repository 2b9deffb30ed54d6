package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"agentserver/harness"
	"agentserver/harness/acp"
	"agentserver/harness/claude"
	"agentserver/harness/codex"
	"agentserver/harness/mock"
	"agentserver/protocol"
	"agentserver/provision"
)

// harnessFlags say which harnesses a server offers.
type harnessFlags struct {
	names     []string
	acpAgents []string
	acpAuth   string
	acpFS     bool
}

func (f *harnessFlags) register(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.acpAgents, "acp-agent", nil,
		"the ACP agent that the harness acp runs, as a `command line`, or ID=command line for one under an id of its own (repeatable) ($"+acp.CommandVariable+")")
	fs.StringVar(&f.acpAuth, "acp-auth", "", "the `method` by which ACP agents that ask for a login are told to log in (default: they are not)")
	fs.BoolVar(&f.acpFS, "acp-fs", false, "serve ACP agents their file requests, within the session's folders")
}

// newHarnesses is the one place that knows what this program offers: without names every native harness, the mock, and acp where an agent is
// configured; with names only those, the well-known ACP agents among them.
func newHarnesses(f *harnessFlags, p *provision.Provisioner) (*harness.Registry, error) {
	all := []harness.Harness{
		claude.New(claude.Options{Resolve: resolver(p, provision.Claude)}),
		codex.NewAppServer(codex.Options{Resolve: resolver(p, provision.Codex)}),
		codex.NewExec(codex.Options{Resolve: resolver(p, provision.Codex)}),
		mock.New(),
	}
	configured, err := f.configuredAgents()
	if err != nil {
		return nil, err
	}
	all = append(all, configured...)
	if len(f.names) == 0 {
		return harness.NewRegistry(all...)
	}
	var chosen []harness.Harness
	for _, name := range f.names {
		h, err := f.named(strings.TrimSpace(name), all)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, h)
	}
	return harness.NewRegistry(chosen...)
}

// named returns the harness called name: one of all, or a well-known ACP agent.
func (f *harnessFlags) named(name string, all []harness.Harness) (harness.Harness, error) {
	for _, h := range all {
		if string(h.ID()) == name {
			return h, nil
		}
	}
	if agent, ok := acp.Known(name); ok {
		o := agent.Options()
		o.AuthMethod, o.ServeFS = f.acpAuth, f.acpFS
		return acp.New(o), nil
	}
	if name == string(acp.DefaultID) {
		return nil, usageError(`--harness acp: say which agent with --acp-agent "COMMAND LINE" or $%s, or name a known one: %s`,
			acp.CommandVariable, strings.Join(acp.Names(), ", "))
	}
	return nil, usageError("--harness %q: there is no such harness; available: %s, and the ACP agents %s", name, ids(all), strings.Join(acp.Names(), ", "))
}

// configuredAgents are the ACP agents that the operator named by a command line.
func (f *harnessFlags) configuredAgents() ([]harness.Harness, error) {
	lines := f.acpAgents
	if env := os.Getenv(acp.CommandVariable); env != "" && len(lines) == 0 {
		lines = []string{env}
	}
	var all []harness.Harness
	for _, line := range lines {
		id := acp.DefaultID
		if name, rest, ok := strings.Cut(line, "="); ok && harnessName.MatchString(name) {
			id, line = protocol.HarnessID(name), rest
		}
		words, err := acp.SplitCommand(line)
		if err != nil || len(words) == 0 {
			return nil, usageError("--acp-agent %q: %v", line, cmp.Or(err, errors.New("the command line is empty")))
		}
		all = append(all, acp.New(acp.Options{ID: id, Command: words, AuthMethod: f.acpAuth, ServeFS: f.acpFS}))
	}
	return all, nil
}

// harnessName tells ID=command line from a command line that holds an equals sign.
var harnessName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

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

// one returns the harness that an editor talks to.
func (f *harnessFlags) one(offered map[protocol.HarnessID]protocol.Capabilities) (protocol.HarnessID, error) {
	name := ""
	if len(f.names) == 1 {
		name = strings.TrimSpace(f.names[0])
	}
	return pickHarness(name, offered)
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
