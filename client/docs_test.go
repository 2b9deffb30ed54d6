package client_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestGuide holds docs/client.md to the examples: every block of code stands in example_test.go as it is.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	if len(blocks) < 4 {
		t.Errorf("only %d blocks", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(string(examples), b[1]) {
			t.Errorf("not in example_test.go:\n%s", b[1])
		}
	}
}
