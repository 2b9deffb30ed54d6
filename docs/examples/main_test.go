package examples

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nodeCommand returns a command that runs node on a file of this folder, or, for a script, with it as a module of this folder's.
func nodeCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if testing.Short() {
		t.Skip("runs node; leave out -short")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not on the PATH; install Node 20.10 or newer: the JavaScript examples are tested with it")
	}
	return exec.CommandContext(t.Context(), node, append([]string{"--experimental-websocket", "--no-warnings"}, args...)...)
}

// node runs a script and returns what it printed.
func node(t *testing.T, stdin io.Reader, args ...string) []byte {
	t.Helper()
	cmd := nodeCommand(t, args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &errOut)
	}
	return out.Bytes()
}

// here returns the address of a file of this folder, for import. It reads the file, so that a result that Go has cached is not used after a change.
func here(t *testing.T, name string) string {
	t.Helper()
	if _, err := os.ReadFile(name); err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return "file://" + filepath.ToSlash(abs)
}
