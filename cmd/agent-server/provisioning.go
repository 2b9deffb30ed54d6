package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agentserver/provision"
)

// provisionFlags say where the CLIs come from. Every command has them.
type provisionFlags struct {
	mode     string
	registry string
	cacheDir string
	prefetch bool
}

func (f *provisionFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.mode, "provision", "", "where CLIs come from: auto (host, cache, download), pinned (cache, download) or system (host) ($AGENT_SERVER_PROVISION; default auto)")
	fs.StringVar(&f.registry, "npm-registry", "", "the npm registry to download from ($AGENT_SERVER_NPM_REGISTRY; default npm's own configuration)")
	fs.StringVar(&f.cacheDir, "cache-dir", "", "the folder of downloaded CLIs ($AGENT_SERVER_CACHE_DIR; default agent-server in the user's cache folder)")
	fs.BoolVar(&f.prefetch, "prefetch", false, "find or download the CLIs at the start instead of at the first turn")
}

// open makes the Provisioner that the flags and the environment describe. The caller closes it.
func (f *provisionFlags) open(logger *slog.Logger) (*provision.Provisioner, error) {
	mode, err := provision.ParseMode(f.mode)
	if err != nil {
		return nil, usageError("--%v", err)
	}
	if f.mode == "" {
		mode = "" // the environment decides
	}
	return provision.New(provision.Options{Mode: mode, Registry: f.registry, CacheDir: f.cacheDir, Logger: logger})
}

// openProvisioner is open with the program's logger.
func (g *globals) openProvisioner(cmd *cobra.Command) (*provision.Provisioner, error) {
	logger, err := g.logger(cmd)
	if err != nil {
		return nil, err
	}
	return g.provision.open(logger)
}

func provisionCommands(g *globals) []*cobra.Command {
	return []*cobra.Command{newInstallCmd(g), newDoctorCmd(g), newCacheCmd(g)}
}

// harnessesOf lists which harnesses run a tool.
var harnessesOf = map[provision.Tool][]string{
	provision.Claude: {"claude-code"},
	provision.Codex:  {"codex-app-server", "codex-sdk"},
}

// toolsOf returns the tools that the named harnesses run, each once. A tool's own name is understood too; no name means all.
func toolsOf(names []string) ([]provision.Tool, error) {
	if len(names) == 0 {
		return provision.Tools(), nil
	}
	var tools []provision.Tool
	for _, name := range names {
		tool, ok := toolOf(strings.TrimSpace(name))
		if !ok {
			return nil, usageError("--harness %q: nothing can be installed for it; use %s", name, installable())
		}
		if !slices.Contains(tools, tool) {
			tools = append(tools, tool)
		}
	}
	return tools, nil
}

func toolOf(name string) (provision.Tool, bool) {
	for _, tool := range provision.Tools() {
		if name == string(tool) || slices.Contains(harnessesOf[tool], name) {
			return tool, true
		}
	}
	return "", false
}

func installable() string {
	var names []string
	for _, tool := range provision.Tools() {
		names = append(names, string(tool))
		names = append(names, harnessesOf[tool]...)
	}
	return strings.Join(names, ", ")
}

// size shows bytes as people read them.
func size(bytes int64) string {
	if bytes < 1e6 {
		return fmt.Sprintf("%.0f kB", float64(bytes)/1e3)
	}
	return fmt.Sprintf("%.0f MB", float64(bytes)/1e6)
}
