package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain lets the scripts run this program as agent-server.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"agent-server": main})
}

// leakChecked fails the tests when goroutines are left.
type leakChecked struct{ *testing.M }

// Run runs the tests.
func (m leakChecked) Run() int {
	code := m.M.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestScript runs testdata/script: the command line as a person and a parent process see it, on a machine that has no CLI and no network. With
// UPDATE set, the files that scripts compare with are written anew.
func TestScript(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("AGENT_SERVER_PROVISION", "system")
			env.Setenv("AGENT_SERVER_CACHE_DIR", filepath.Join(env.WorkDir, "cache"))
			return os.WriteFile(filepath.Join(env.WorkDir, "README.md"), readme, 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"await": await, "block": block},
	})
}

// await FILE VARIABLE waits until a file has a content, and sets the variable to it.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await file variable")
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		raw, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && len(raw) > 0 {
			ts.Setenv(args[1], strings.TrimSpace(string(raw)))
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no %s after 30 s", args[0])
		}
	}
}

var fence = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")

// block TEXT FILE writes the shell commands of the README's block that holds a text to a file, for the program of these tests instead of the built one.
func block(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: block text file")
	}
	for _, m := range fence.FindAllStringSubmatch(ts.ReadFile("README.md"), -1) {
		if strings.Contains(m[1], args[0]) {
			commands := strings.ReplaceAll(m[1], "bin/agent-server", "agent-server")
			ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(commands), 0o600))
			return
		}
	}
	ts.Fatalf("the README has no block of commands that holds %q", args[0])
}
