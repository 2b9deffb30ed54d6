package main

import (
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), filepath.Join(t.TempDir(), "test.db"), &out); err != nil {
		t.Fatal(err)
	}
	const want = `hello
pieces of eight: end_turn
run ls: end_turn
stored: user text "pieces of eight"
stored: assistant text "pieces of eight"
stored: user text "run ls"
stored: assistant tool "ls"
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}
