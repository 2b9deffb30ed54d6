package codex

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/provision"
	"agentserver/provision/provisiontest"
)

// TestRealSchema holds what we say and hear against the schema of the installed codex.
func TestRealSchema(t *testing.T) {
	t.Parallel()
	exe := provisiontest.CLI(t, provision.Codex)
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), exe.Path, "app-server", "generate-json-schema", "--out", dir, "--experimental")
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	calls := methods(t, filepath.Join(dir, "ClientRequest.json"))
	spec := harness.Spec{Config: protocol.RunConfig{Cwd: "/x", Model: "m", SystemPromptAppend: "s", ThinkingLevel: protocol.ThinkingHigh,
		MCPServers: map[string]protocol.MCPServer{"s": {Type: protocol.MCPStdio, Command: "c"}}}}
	thread := threadParams(spec, provider{id: "p"})
	resume := object{"threadId": "", "excludeTurns": true}
	for name, value := range thread {
		resume[name] = value
	}
	for method, params := range map[string]object{
		"initialize":                       {"clientInfo": nil, "capabilities": nil},
		"config/read":                      {"includeLayers": nil, "cwd": nil},
		"thread/start":                     thread,
		"thread/resume":                    resume,
		"thread/compact/start":             {"threadId": nil},
		"thread/backgroundTerminals/clean": {"threadId": nil},
		"turn/start":                       turnParams("t", "m", &spec.Config, nil),
		"thread/inject_items":              {"threadId": nil, "items": nil},
		"turn/steer":                       {"threadId": nil, "expectedTurnId": nil, "input": nil},
		"turn/interrupt":                   {"threadId": nil, "turnId": nil},
	} {
		known, ok := calls[method]
		if !ok {
			t.Errorf("codex has no method %s any more", method)
		}
		for name := range params {
			if !slices.Contains(known, name) {
				t.Errorf("%s has no parameter %s any more", method, name)
			}
		}
	}
	heard := methods(t, filepath.Join(dir, "ServerNotification.json"))
	for _, method := range []string{"turn/started", "turn/completed", "turn/plan/updated", "thread/tokenUsage/updated", "error", "serverRequest/resolved", "item/started",
		"item/completed", "item/agentMessage/delta", "item/plan/delta", "item/reasoning/summaryTextDelta", "item/reasoning/summaryPartAdded",
		"item/reasoning/textDelta", "mcpServer/startupStatus/updated", "warning", "configWarning"} {
		if _, ok := heard[method]; !ok {
			t.Errorf("codex has no notification %s any more", method)
		}
	}
	// Everything else that codex may ask is refused, so what is new here deserves a look.
	refused := []string{"item/tool/call", "account/chatgptAuthTokens/refresh", "attestation/generate", "applyPatchApproval", "execCommandApproval"}
	asked := methods(t, filepath.Join(dir, "ServerRequest.json"))
	for method := range asked {
		if questions[method] == nil && !slices.Contains(refused, method) {
			t.Errorf("codex asks %s, which is not known here", method)
		}
	}
	for method := range questions {
		if _, ok := asked[method]; !ok {
			t.Errorf("codex no longer asks %s", method)
		}
	}
}

// methods returns the methods of a schema file, with the names of their parameters.
func methods(t *testing.T, file string) map[string][]string {
	t.Helper()
	var root struct {
		OneOf []struct {
			Properties struct {
				Method struct {
					Enum []string `json:"enum"`
				} `json:"method"`
				Params struct {
					Ref string `json:"$ref"`
				} `json:"params"`
			} `json:"properties"`
		} `json:"oneOf"`
		Definitions map[string]struct {
			Properties map[string]json.RawMessage `json:"properties"`
		} `json:"definitions"`
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, m := range root.OneOf {
		if len(m.Properties.Method.Enum) != 1 {
			continue
		}
		params := root.Definitions[strings.TrimPrefix(m.Properties.Params.Ref, "#/definitions/")]
		var names []string
		for name := range params.Properties {
			names = append(names, name)
		}
		all[m.Properties.Method.Enum[0]] = names
	}
	if len(all) == 0 {
		t.Fatalf("%s: no methods found", filepath.Base(file))
	}
	return all
}
