package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// allowed is the import table: for each package, what it may import of this module and of others. "…/..." stands for a whole subtree; the
// standard library is always allowed. A package that is not here fails the test.
var allowed = map[string][]string{
	"protocol":                 {"github.com/google/uuid", "agentserver/protocol/jsonscan"},
	"protocol/jsonscan":        {},
	"protocol/conversation":    {"agentserver/protocol", "agentserver/protocol/jsonscan"},
	"protocol/streamcheck":     {"agentserver/protocol", "agentserver/protocol/conversation"},
	"engine/eventlog":          {"agentserver/protocol"},
	"engine":                   {"agentserver/protocol/...", "agentserver/harness", "agentserver/engine/eventlog"},
	"engine/acp":               {"agentserver/engine/...", "agentserver/protocol/...", "agentserver/internal/transport"},
	"engine/wire":              {"agentserver/engine/...", "agentserver/protocol/...", "agentserver/internal/transport", "github.com/sourcegraph/jsonrpc2"},
	"harness":                  {"agentserver/protocol"},
	"harness/internal/inbox":   {"agentserver/harness"},
	"harness/internal/redact":  {},
	"harness/internal/process": {"golang.org/x/sys/..."},
	"harness/mock":             {"agentserver/harness", "agentserver/protocol/..."},
	"harness/claude":           driver,
	"harness/codex":            driver,
	"harness/acp":              driver,
	"harness/harnesstest":      {"agentserver/harness", "agentserver/engine/...", "agentserver/protocol/..."},
	"client":                   {"agentserver/protocol/...", "agentserver/internal/transport", "github.com/sourcegraph/jsonrpc2"},
	"provision":                {"github.com/klauspost/compress/...", "golang.org/x/sys/..."},
	"internal/transport":       {"github.com/coder/websocket", "github.com/sourcegraph/jsonrpc2"},
	"internal/fakemodel":       {},
	"docs/examples":            {},
	"docs/schema":              {},
	"internal/archtest":        {},
}

var driver = []string{"agentserver/harness", "agentserver/harness/internal/...", "agentserver/protocol/...", "agentserver/internal/transport", "github.com/sourcegraph/jsonrpc2"}

// unrestricted lists the subtrees that may import everything: programs, and packages that only tests use.
var unrestricted = []string{"cmd/...", "provision/internal/genpins", "internal/bench/...", "internal/demo/...", "internal/e2e/...", "internal/schemagen"}

// onlyHere says which packages alone may import something of the standard library that has an owner.
var onlyHere = map[string][]string{
	"os/exec": {"harness/internal/process", "client", "provision", "cmd/...", "provision/internal/...", "internal/bench/...", "internal/demo/...", "internal/e2e/...", "internal/archtest"},
}

type pkg struct {
	ImportPath string
	Name, Doc  string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Name,Doc,Imports", "agentserver/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, "agentserver/")
		if in(unrestricted, name) {
			continue
		}
		ok, known := allowed[name]
		if !known && !isTestHelper(name) {
			t.Errorf("%s is not in the import table; add it with what it may import", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			switch {
			case onlyHere[imp] != nil && !in(onlyHere[imp], name) && !isTestHelper(name):
				t.Errorf("%s must not import %s: that belongs to %v", p.ImportPath, imp, onlyHere[imp])
			case isStandard(imp) || isTestHelper(name):
			case !in(ok, imp):
				t.Errorf("%s must not import %s", p.ImportPath, imp)
			case isTestHelper(strings.TrimPrefix(imp, "agentserver/")):
				t.Errorf("%s must not import %s, which is for tests only", p.ImportPath, imp)
			}
		}
	}
}

// TestPackageDocs holds every package to a package comment that starts as go doc wants it.
func TestPackageDocs(t *testing.T) {
	for _, p := range packages(t) {
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command "
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: the package comment must start with %q", p.ImportPath, want)
		}
	}
}

// isTestHelper reports whether a package exists for tests, by its name: "transporttest", "harnesstest/agent".
func isTestHelper(name string) bool {
	for _, elem := range strings.Split(name, "/") {
		if strings.HasSuffix(elem, "test") && elem != "archtest" && elem != "harnesstest" {
			return true
		}
	}
	return strings.HasPrefix(name, "harness/harnesstest/")
}

func isStandard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".") && first != "agentserver"
}

func in(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if root, ok := strings.CutSuffix(p, "/..."); ok {
			return name == root || strings.HasPrefix(name, root+"/")
		}
		return p == name || path.Clean(p) == name
	})
}
