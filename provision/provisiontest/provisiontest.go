// Package provisiontest gives tests the real CLIs, by the same way that the server gets them.
package provisiontest

import (
	"errors"
	"log/slog"
	"testing"

	"agentserver/provision"
)

// CLI returns a checked executable of tool: the override variable's, or the pinned build from the cache, which is downloaded once from the npm
// registry that the machine is configured for. $AGENT_SERVER_CACHE_DIR moves the cache. The test is skipped, with the reason, only where no
// registry is configured at all; any other failure fails it.
func CLI(t testing.TB, tool provision.Tool) provision.Executable {
	t.Helper()
	return resolve(t, tool, provision.Options{Mode: provision.Pinned})
}

// CLIWithPins is CLI for the version that pins hold, and ignores the override variables.
func CLIWithPins(t testing.TB, tool provision.Tool, pins *provision.Pins) provision.Executable {
	t.Helper()
	return resolve(t, tool, provision.Options{Mode: provision.Pinned, Pins: pins, IgnoreOverrides: true})
}

// OldestClaude returns pins of the oldest claude that is supported.
func OldestClaude(t testing.TB) *provision.Pins {
	t.Helper()
	pins, err := provision.ParsePins(oldestClaude)
	if err != nil {
		t.Fatal(err)
	}
	return pins
}

func resolve(t testing.TB, tool provision.Tool, opts provision.Options) provision.Executable {
	t.Helper()
	opts.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	p, err := provision.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	exe, err := p.Resolve(t.Context(), tool, nil)
	if errors.Is(err, provision.ErrNoRegistry) {
		t.Skipf("the real %s CLI cannot be installed: %v", tool, provision.ErrNoRegistry)
	}
	if err != nil {
		t.Fatal(err)
	}
	return exe
}
