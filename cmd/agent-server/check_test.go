package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentserver/protocol"
	"agentserver/protocol/conversation/conversationtest"
)

// record returns two sessions' events, interleaved, one envelope a line.
func record(t *testing.T) []string {
	t.Helper()
	var lines []string
	a, b := conversationtest.Stream(1, 300), conversationtest.Stream(2, 300)
	for i := range max(len(a), len(b)) {
		for _, s := range [][]protocol.Envelope{a, b} {
			if i < len(s) {
				line, err := protocol.AppendEnvelope(nil, s[i])
				if err != nil {
					t.Fatal(err)
				}
				lines = append(lines, string(line))
			}
		}
	}
	return lines
}

func check(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = execute(t.Context(), append([]string{"check"}, args...), strings.NewReader(stdin), &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestCheckCommand(t *testing.T) {
	lines := record(t)
	good := strings.Join(lines, "\n") + "\n"
	file := filepath.Join(t.TempDir(), "recorded.jsonl")
	if err := os.WriteFile(file, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		want        []string
	}{
		{"a file", "", []string{file}, exitOK, []string{"of 2 sessions, 0 violations"}},
		{"stdin, with blank lines", "\n" + strings.ReplaceAll(good, "\n", "\r\n\r\n"), []string{"-"}, exitOK, []string{"of 2 sessions, 0 violations"}},
		{"an event is missing", strings.Join(append(lines[:20:20], lines[21:]...), "\n"), []string{"-"}, exitFailed, []string{"s1 12: seq: number 12 follows 10"}},
		{"an event twice", strings.Join(append(lines[:21:21], lines[20:]...), "\n"), []string{"-"}, exitFailed, []string{"s1 11: seq: "}},
		{"cut off", lines[0], []string{"-"}, exitFailed, []string{"s1 1: no_end: "}},
		{"cut off on purpose", lines[0], []string{"--cut", "-"}, exitOK, []string{"1 events of 1 sessions, 0 violations"}},
		{"no JSON", good + "oops\n", []string{"-"}, exitFailed, []string{"no envelope", "1 violations"}},
		{"a malformed event", `{"sessionId":"s","seq":1,"event":{"type":"turn.started","sessionId":"s","timestamp":1}}`, []string{"-"}, exitFailed, []string{"s 1: event: "}},
		{"nothing", "\n", []string{"-"}, exitFailed, []string{"holds no envelope"}},
		{"no such file", "", []string{file + "x"}, exitUsage, nil},
		{"no file", "", nil, exitUsage, []string{"name one file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errOut := check(t, c.stdin, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d\n%s%s", code, c.code, out, errOut)
			}
			for _, w := range c.want {
				if !strings.Contains(out+errOut, w) {
					t.Errorf("%q is missing in:\n%s%s", w, out, errOut)
				}
			}
		})
	}
}

// TestCheckOfRun holds what `run --json` prints to what `check` reads.
func TestCheckOfRun(t *testing.T) {
	var recorded, errOut bytes.Buffer
	prompt := "think hm\ntool Bash {\"command\":\"ls\"} -> a.txt\nsubagent Explore look around\n  say found it\nsay done"
	if code := execute(t.Context(), []string{"run", "--harness", "mock", "--json", prompt}, strings.NewReader(""), &recorded, &errOut); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, &errOut)
	}
	if code, out, _ := check(t, recorded.String(), "-"); code != exitOK {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
