package claude

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSupportMatrix holds the matrix in docs/harnesses.md to the tests: every row names some, and they exist.
func TestSupportMatrix(t *testing.T) {
	doc, err := os.ReadFile("../../docs/harnesses.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(doc), "\n## claude-code\n")
	_, matrix, found2 := strings.Cut(section, "| shown by |\n|---|---|---|\n")
	if !found || !found2 {
		t.Fatal("docs/harnesses.md has no support matrix for claude-code")
	}
	matrix, _, _ = strings.Cut(matrix, "\n\n")
	known := testNames(t)
	rows := strings.Split(strings.TrimSpace(matrix), "\n")
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
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
	if len(rows) < 20 {
		t.Errorf("%d rows", len(rows))
	}
}

func testNames(t *testing.T) map[string]bool {
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
