package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGuides holds the code in the guides to what is compiled and run: every block stands in one of these files as it is.
func TestGuides(t *testing.T) {
	var sources strings.Builder
	for _, pattern := range []string{"*_test.go", "embed/*.go", "embed/*/*.go", "*.mjs", "testdata/*.mjs", "testdata/*.ts", "../../engine/example_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(text)
		}
	}
	blocks := regexp.MustCompile("(?s)```(go|js|ts)\n(.*?)```")
	for _, guide := range []string{"../consuming.md", "../embedding.md"} {
		text, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		all := blocks.FindAllStringSubmatch(string(text), -1)
		if len(all) < 4 {
			t.Errorf("%s has only %d blocks of code", guide, len(all))
		}
		for _, b := range all {
			if !strings.Contains(sources.String(), b[2]) {
				t.Errorf("%s: this is in no file that is compiled:\n%s", guide, b[2])
			}
		}
	}
}

// TestGuideInJavaScript runs the JavaScript of docs/consuming.md.
func TestGuideInJavaScript(t *testing.T) {
	here(t, "client.mjs")
	here(t, "fold.mjs")
	here(t, "testdata/guide.mjs")
	cmd := nodeCommand(t, "testdata/guide.mjs")
	url, stop := serveMock()
	defer stop()
	cmd.Args = append(cmd.Args, url)
	out, err := cmd.CombinedOutput()
	got := strings.Split(string(out), "\n")
	slices.Sort(got) // the answer to an answer may come before or behind the events
	want := []string{"", "  two files", "Bash completed", "Bash ls answered", "Task completed", "done", "snapshot true 4"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, it printed\n%s", err, out)
	}
}

// TestGuideCommands runs the commands of the guides, with agent-server on the PATH.
func TestGuideCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds agent-server; leave out -short")
	}
	here(t, "fold.mjs")
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "agent-server"), "agentserver/cmd/agent-server").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile("../consuming.md")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(text, -1)
	if len(all) == 0 {
		t.Fatal("docs/consuming.md has no commands")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		commands := strings.ReplaceAll(string(b[1]), " docs/", " "+root+"/docs/") // they are for the repository's root, and write files
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\n%s", err, b[1], out)
		}
	}
}
