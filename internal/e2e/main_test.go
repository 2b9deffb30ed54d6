package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"agentserver/provision"
	"agentserver/provision/provisiontest"
)

// binary is the built agent-server.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "agent-server-e2e-")
	if err == nil {
		binary = filepath.Join(dir, "agent-server")
		build := exec.Command("go", "build", "-o", binary, "agentserver/cmd/agent-server")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: agent-server cannot be built:", err)
		os.Exit(1)
	}
	_ = flag.Set("test.parallel", "4") // most tests wait for processes; the command line still wins
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

var cli struct {
	sync.Mutex
	found provision.Executable
}

// realClaude returns the real CLI, which is looked for once. Without it, or with -short, the test is skipped.
func realClaude(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the real claude; leave out -short")
	}
	cli.Lock()
	defer cli.Unlock()
	if cli.found.Path == "" {
		cli.found = provisiontest.CLI(t, provision.Claude)
	}
	return cli.found.Path
}
