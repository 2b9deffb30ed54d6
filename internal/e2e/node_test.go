package e2e

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// javaScript runs the example client for one turn and returns what it printed: the stream, with EVENTS set.
func (s *server) javaScript(t *testing.T, url, prompt string, env ...string) (stdout, stderr string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not on the PATH; install Node 20.10 or newer: the JavaScript client is tested with it")
	}
	example, err := filepath.Abs("../../docs/examples/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "--experimental-websocket", "--no-warnings", example, url, "mock", prompt)
	cmd.Dir, cmd.Env = s.cwd, append(s.env, env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &errOut)
	}
	return out.String(), errOut.String()
}

// TestJavaScriptClient runs the example of another language's client, uncut and cut off. It gets the stream that the witness gets.
func TestJavaScriptClient(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs node; leave out -short")
	}
	s := newWorld(t, "").serve()
	if out, _ := s.javaScript(t, s.url(), "think hm\nsay hello there"); out != "hello there\nend_turn\n" {
		t.Errorf("it printed %q", out)
	}
	script := "say first\nask Bash {\"command\":\"ls\"} -> <a & b>\npace 1ms\nburst 400 30\nask Read {\"path\":\"a\"} -> \\n\nsay ü, and the end"
	for _, cuts := range []int{0, 10} {
		p := cutter(t, s.addr, cuts, rand.Uint64())
		out, lost := s.javaScript(t, p.url(), script, "EVENTS=1")
		if lost != "" {
			t.Errorf("it lost something: %s", lost)
		}
		if n := p.count(); n < cuts/2 {
			t.Errorf("cut only %d times", n)
		}
		got := newTape()
		for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
			got.raw(lines.Bytes())
		}
		got.check(t, true)
		for id := range got.streams {
			same(t, id, 1, got, s.witness)
		}
		if len(got.streams) != 1 {
			t.Errorf("it saw %d sessions", len(got.streams))
		}
	}
}
