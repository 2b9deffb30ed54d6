package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	wire "agentserver/docs/schema"
)

const root = "../.."

// TestFresh fails while the checked-in files are older than the types; `go generate ./docs/schema` makes them new.
func TestFresh(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, "docs", "schema", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("docs/schema/%s is out of date: run go generate ./docs/schema", name)
		}
	}
}

// compile returns the schema of a definition. It is strict when no member may be there that is not described.
func compile(t *testing.T, def string, strict ...bool) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(wire.JSON))
	if err != nil {
		t.Fatal(err)
	}
	if len(strict) > 0 && strict[0] {
		for name, d := range doc.(map[string]any)["$defs"].(map[string]any) {
			if d := d.(map[string]any); d["properties"] != nil && !strings.HasPrefix(name, "Unknown") {
				d["additionalProperties"] = false
			}
		}
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("wire.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("wire.json#/$defs/" + def)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMirrors holds the types that stand for unexported ones of package conversation to their tags.
func TestMirrors(t *testing.T) {
	s, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	for of, mirror := range mirrored {
		if want, got := s.src.tags[of], s.src.tags[mirror]; len(want) == 0 || !slices.Equal(want, got) {
			t.Errorf("%s has the members\n%q\nand %s\n%q", of, want, mirror, got)
		}
	}
	for i, r := range rewordings {
		if !s.reworded[i] {
			t.Errorf("no comment says %q any more: remove the rewording", r.from)
		}
	}
}

// TestGoldenFilesValidate holds every golden file of package protocol to the definition that its name stands for.
func TestGoldenFilesValidate(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "protocol", "testdata", "golden", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if name == "turn.start.params.full" {
			v.(map[string]any)["config"].(map[string]any)["maxTurns"] = json.Number("1") // the golden zero shows the encoding, not a value that is allowed
		}
		if err := compile(t, definitionFor(name)).Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func definitionFor(golden string) string {
	switch {
	case strings.HasPrefix(golden, "part."):
		return "Part"
	case strings.HasPrefix(golden, "error."):
		return "Error"
	case strings.Contains(golden, ".params"), strings.Contains(golden, ".result"):
		name, kind := golden, "Params"
		if strings.Contains(golden, ".result") {
			kind = "Result"
		}
		name, _, _ = strings.Cut(name, "."+strings.ToLower(kind))
		return goName(strings.ReplaceAll(name, ".", "/")) + kind
	}
	return "Event"
}

func TestSchemaRefuses(t *testing.T) {
	for name, c := range map[string]struct{ def, in string }{
		"a known event without its field": {"Event", `{"type":"turn.started","sessionId":"s","timestamp":1}`},
		"a known event without a session": {"Event", `{"type":"turn.started","timestamp":1,"turnId":"t"}`},
		"an unknown tool status":          {"ToolState", `{"status":"waiting"}`},
		"an empty input":                  {"TurnStartParams", `{"input":"","config":{"harness":"m","cwd":"/"}}`},
		"a permission mode":               {"RunConfig", `{"harness":"m","cwd":"/","permissionMode":"yolo"}`},
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(c.in))
		if err != nil {
			t.Fatal(err)
		}
		if compile(t, c.def).Validate(v) == nil {
			t.Errorf("%s passes", name)
		}
	}
}
