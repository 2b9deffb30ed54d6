package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

var (
	rfdName   = regexp.MustCompile(`^\d{4}-[a-z0-9-]+\.md$`)
	rfdStatus = regexp.MustCompile(`(?m)^[Ss]tatus: (\w+)`)
	statuses  = []string{"draft", "active", "completed", "withdrawn"}
)

// TestRFDs holds the table of rfds/README.md to the files beside it: one row each, with the status that the file itself gives.
func TestRFDs(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "rfds", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(root, "rfds"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() == "README.md" {
			continue
		}
		if !rfdName.MatchString(f.Name()) {
			t.Errorf("rfds/%s: the name must be NNNN-slug.md", f.Name())
		}
		text, err := os.ReadFile(filepath.Join(root, "rfds", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		m := rfdStatus.FindSubmatch(text)
		if m == nil || !slices.Contains(statuses, string(m[1])) {
			t.Errorf("rfds/%s: needs a line \"Status: …\" with one of %v", f.Name(), statuses)
			continue
		}
		row := regexp.MustCompile(`(?m)^\| \[` + f.Name()[:4] + `\]\(` + regexp.QuoteMeta(f.Name()) + `\) \|.*\| ` + string(m[1]) + ` \|$`)
		if !row.Match(index) {
			t.Errorf("rfds/README.md has no row for %s with status %s", f.Name(), m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\]\((\d{4}[^)]*)\)`).FindAllSubmatch(index, -1) {
		if _, err := os.Stat(filepath.Join(root, "rfds", string(m[1]))); err != nil {
			t.Errorf("rfds/README.md names %s, which is not there", m[1])
		}
	}
}

// TestDocsLinks fails on a relative link in a document that leads nowhere.
func TestDocsLinks(t *testing.T) {
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	rfds, err := filepath.Glob(filepath.Join(root, "rfds", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
	for _, file := range append(append(docs, rfds...), filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			target := string(m[1])
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", strings.TrimPrefix(file, root+"/"), target)
			}
		}
	}
}
