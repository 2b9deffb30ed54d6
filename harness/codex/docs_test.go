package codex

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSupportTables holds the tables in docs/harness-codex.md to the tests: every row names some, and they exist.
func TestSupportTables(t *testing.T) {
	doc, err := os.ReadFile("../../docs/harness-codex.md")
	if err != nil {
		t.Fatal(err)
	}
	known := testNames(t)
	rows := 0
	tables := strings.Split(string(doc), "| shown by |\n|---|---|---|\n")
	for _, table := range tables[1:] {
		table, _, _ = strings.Cut(table, "\n\n")
		for row := range strings.Lines(table) {
			rows++
			cells := strings.Split(strings.Trim(row, "| \n"), " | ")
			if len(cells) != 3 {
				t.Errorf("%d cells in %q", len(cells), row)
				continue
			}
			for name := range strings.SplitSeq(cells[2], ", ") {
				if !known[name] {
					t.Errorf("%s: there is no test %q", cells[0], name)
				}
			}
		}
	}
	if len(tables) != 3 || rows < 25 {
		t.Errorf("%d tables with %d rows", len(tables)-1, rows)
	}
	for mode, p := range policies {
		if row := regexp.MustCompile("(?m)^\\| .*`" + string(mode) + "` \\| `" + p.approval + "` \\| `" + p.sandbox + "` \\|"); mode != "" && !row.Match(doc) {
			t.Errorf("the table of modes lacks %s: %s, %s", mode, p.approval, p.sandbox)
		}
	}
}

func testNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(data), -1) {
			names[m[1]] = true
		}
	}
	return names
}
