package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentserver/provision"
)

// bareMachine empties everything that provisioning looks at.
func bareMachine(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for _, name := range []string{
		"AGENT_SERVER_PROVISION", "AGENT_SERVER_NPM_REGISTRY", "npm_config_registry", "NPM_CONFIG_REGISTRY", "NPM_CONFIG_USERCONFIG",
		"NPM_CONFIG_GLOBALCONFIG", "NPM_CONFIG_PREFIX", "npm_config_prefix", "PREFIX", "XDG_CACHE_HOME", "CLAUDE_CLI_PATH", "CODEX_CLI_PATH",
		"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY", "CLAUDE_CONFIG_DIR", "CODEX_HOME",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("PATH", filepath.Join(home, "bin"))
	t.Setenv("AGENT_SERVER_CACHE_DIR", filepath.Join(home, "cache"))
	return home
}

// command runs one command line and returns what it wrote.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = execute(t.Context(), args, strings.NewReader(""), &out, &errOut)
	return code, out.String(), errOut.String()
}

// mustHold checks that text holds each of the words.
func mustHold(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}

// TestDoctorCommand looks at a bare machine, a broken one and a configured one.
func TestDoctorCommand(t *testing.T) {
	home := bareMachine(t)
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			t.Errorf("doctor asks for %s %s", r.Method, r.URL)
		}
	}))
	defer registry.Close()

	code, out, _ := command(t, "doctor", "--npm-registry", registry.URL)
	if code != exitOK {
		t.Errorf("bare machine: exit %d", code)
	}
	mustHold(t, out, "claude    not installed: the first turn downloads "+provision.DefaultPins().Version(provision.Claude),
		"credentials: none found", "(not there yet)", "has the pinned build")

	code, out, errOut := command(t, "doctor", "--npm-registry", "http://127.0.0.1:1")
	if code != exitFailed {
		t.Errorf("broken machine: exit %d", code)
	}
	mustHold(t, out, "claude    cannot run", "codex     cannot run", "it does not answer")
	mustHold(t, errOut, "no harness can run")

	path := filepath.Join(home, "own-claude")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho '2.1.400 (Claude Code)'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CLAUDE_CLI_PATH", path)
	t.Setenv("ANTHROPIC_API_KEY", "s3cret")
	code, out, _ = command(t, "doctor", "--provision", "system")
	if code != exitOK {
		t.Errorf("configured machine: exit %d", code)
	}
	mustHold(t, out, "claude    ready: "+path+" (override 2.1.400)", "credentials: $ANTHROPIC_API_KEY", "codex     cannot run", "--provision system")
	if strings.Contains(out, "s3cret") {
		t.Errorf("doctor shows a credential:\n%s", out)
	}
}

// TestInstallCommandFails covers what the command says when nothing can be installed.
func TestInstallCommandFails(t *testing.T) {
	bareMachine(t)
	registry := httptest.NewServer(http.NotFoundHandler())
	defer registry.Close()
	code, out, errOut := command(t, "install", "--npm-registry", registry.URL, "--harness", "claude-code,codex-sdk,codex")
	if code != exitFailed || out != "" {
		t.Errorf("exit %d, stdout %q", code, out)
	}
	mustHold(t, errOut, "claude: download claude", "codex: download codex", "404", "2 of 2 could not be installed")

	code, _, errOut = command(t, "install", "--harness", "nonsense")
	if code != exitUsage {
		t.Errorf("exit %d for an unknown harness", code)
	}
	mustHold(t, errOut, "codex-app-server")
	if code, _, _ = command(t, "install", "--provision", "sometimes"); code != exitUsage {
		t.Errorf("exit %d for an unknown mode", code)
	}
}

func TestCacheCommands(t *testing.T) {
	home := bareMachine(t)
	code, out, _ := command(t, "cache", "list")
	if code != exitOK {
		t.Errorf("exit %d", code)
	}
	mustHold(t, out, filepath.Join(home, "cache"), "empty")
	old := filepath.Join(home, "cache", "claude", "1.0.0-linux-x64")
	if err := os.MkdirAll(old, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(home, "cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, out, _ = command(t, "cache", "list")
	mustHold(t, out, "1.0.0-linux-x64", "damaged")
	code, out, _ = command(t, "cache", "prune")
	if code != exitOK {
		t.Errorf("exit %d", code)
	}
	mustHold(t, out, "removed claude 1.0.0-linux-x64", "1 removed")
	if _, err := os.Stat(old); err == nil {
		t.Error("it is still there")
	}
	if err := os.Chmod(filepath.Join(home, "cache"), 0o777); err != nil {
		t.Fatal(err)
	}
	code, _, errOut := command(t, "cache", "list")
	if code != exitFailed {
		t.Errorf("exit %d for a shared cache", code)
	}
	mustHold(t, errOut, "cannot be trusted")
}
