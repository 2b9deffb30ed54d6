package examples

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	// What the module in embed builds on, so that a cached result of this test is not used after a change there.
	_ "agentserver/client"
	_ "agentserver/engine/wire"
	_ "agentserver/harness/harnesstest"
	_ "agentserver/harness/mock"
)

// TestOutOfTree builds, tests and runs a module of its own that uses the public packages only.
func TestOutOfTree(t *testing.T) {
	if testing.Short() {
		t.Skip("builds another module; leave out -short")
	}
	err := filepath.WalkDir("embed", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			_, err = os.ReadFile(name) // as above
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	inModule(t, "vet", "./...")
	inModule(t, "test", "./...")
	out := inModule(t, "run", ".", filepath.Join(t.TempDir(), "conversations.db"))
	if want := "stored: assistant tool \"ls\"\n"; !strings.HasSuffix(out, want) {
		t.Errorf("it printed\n%swhich does not end with %s", out, want)
	}
}

func inModule(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = "embed"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
