package acp_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentserver/harness"
	driver "agentserver/harness/acp"
	"agentserver/protocol"
)

// The driver of this module runs the server of this module.
func TestOwnDriver(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := driver.New(driver.Options{Command: []string{exe}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := h.Open(ctx, harness.Spec{SessionID: "s", Env: []string{serveVariable + "=1", "PATH=" + os.Getenv("PATH")},
		Config: protocol.RunConfig{Cwd: t.TempDir(), PermissionMode: protocol.ModePlan, ThinkingLevel: protocol.ThinkingHigh}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Send(ctx, harness.Turn{Input: protocol.Text("config\nask rm {\"path\":\"/x\"} -> gone")}); err != nil {
		t.Fatal(err)
	}
	said := ""
	for {
		e, err := s.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case harness.Delta:
			said += e.Text
		case harness.Permission:
			_ = e.Decide(harness.Decision{})
		case harness.Failure:
			t.Errorf("failure: %s", e.Message)
		case harness.TurnEnd:
			if e.StopReason != protocol.StopEndTurn || e.Tokens == nil || !strings.Contains(said, "plan") || !strings.Contains(said, "high") {
				t.Errorf("end %+v, said %q", e, said)
			}
			return
		}
	}
}

// The client of the protocol's own SDK checks every message of ours by its schemas.
func TestSDKClient(t *testing.T) {
	if testing.Short() {
		t.Skip("installs the ACP SDK from npm; run without -short")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for _, sdk := range []string{"1.9.0", "2.4.0"} {
		t.Run(sdk, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "package.json"), "{}")
			if out, err := command(t, dir, nil, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "@agentclientprotocol/sdk@"+sdk).CombinedOutput(); err != nil {
				t.Fatalf("npm is needed for this test (or -short): %v\n%s", err, out)
			}
			code, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, "client.mjs"), string(code))
			out, err := command(t, dir, []string{serveVariable + "=1"}, "node", "client.mjs", exe, dir).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "all well") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func command(t *testing.T, dir string, env []string, name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	return cmd
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
