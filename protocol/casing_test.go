package protocol_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	camelCase  = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
	snakeCase  = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	dottedCase = regexp.MustCompile(`^[a-z]+(\.[a-z]+)*$`)
)

// enumFields are the fields whose values are from a vocabulary.
var enumFields = map[string]bool{"type": true, "status": true, "state": true, "kind": true, "role": true, "reason": true, "trigger": true, "stopReason": true,
	"category": true, "outcome": true, "optionId": true, "thinkingLevel": true, "permissionMode": true, "unit": true}

// freeNames are the fields whose members are named by others.
var freeNames = map[string]bool{"_meta": true, "env": true, "headers": true, "mcpServers": true, "rawInput": true, "updatedInput": true, "data": true,
	"metadata": true, "providerMetadata": true, "harnesses": true, "input": true}

// TestCasing walks every name, enum value and discriminator of the golden files (law 9): names are camelCase, enum values snake_case, event types
// dotted lower case.
func TestCasing(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.json"))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		walk(t, filepath.Base(file), "", v, false)
	}
}

func walk(t *testing.T, at, field string, v any, free bool) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			walk(t, at, field, x, free)
		}
	case map[string]any:
		for name, x := range v {
			if !free && name != "_meta" && !camelCase.MatchString(name) {
				t.Errorf("%s: field %q is not camelCase", at, name)
			}
			walk(t, at+"."+name, name, x, freeNames[name])
		}
	case string:
		switch {
		case free || !enumFields[field] && field != "thinkingLevels":
		case strings.Contains(v, "."):
			if !dottedCase.MatchString(v) {
				t.Errorf("%s: type %q is not dotted lower case", at, v)
			}
		case !snakeCase.MatchString(v):
			t.Errorf("%s: value %q is not snake_case", at, v)
		}
	}
}
