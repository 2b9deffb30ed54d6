package provision_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentserver/provision"
	"agentserver/provision/provisiontest"
)

// TestRealCLIs installs both real CLIs from the configured npm registry into an empty cache, and runs them.
func TestRealCLIs(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: 360 MB are downloaded")
	}
	p, err := provision.New(provision.Options{Mode: provision.Pinned, CacheDir: t.TempDir(), IgnoreOverrides: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, tool := range provision.Tools() {
		t.Run(string(tool), func(t *testing.T) {
			start := time.Now()
			reports := 0
			exe, err := p.Resolve(t.Context(), tool, func(provision.Progress) { reports++ })
			if errors.Is(err, provision.ErrNoRegistry) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%v after %v with %d progress reports", exe, time.Since(start), reports)
			if exe.Source != provision.FromDownload {
				t.Errorf("source is %s, want download", exe.Source)
			}
			out, err := exec.CommandContext(t.Context(), exe.Path, "--version").Output()
			if err != nil || !strings.Contains(string(out), exe.Version) {
				t.Errorf("--version: %q, %v; want %s", out, err, exe.Version)
			}
		})
	}
}

// TestOldestClaude installs the oldest supported claude by explicit pins.
func TestOldestClaude(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: 77 MB are downloaded")
	}
	exe := provisiontest.CLIWithPins(t, provision.Claude, provisiontest.OldestClaude(t))
	if exe.Version != "2.1.197" {
		t.Errorf("version %s, want 2.1.197", exe.Version)
	}
}
