package acp_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"agentserver/harness/acp"
	"agentserver/internal/fakemodel"
)

// A realAgent is an agent from npm, with a scripted model behind it.
type realAgent struct {
	name     string
	packages []string // npm packages with pinned versions
	program  []string // path in node_modules, and arguments
	node     int      // the oldest node that runs it; 0: it is no node program
	// setup writes the agent's settings into home, and returns its environment.
	setup func(t *testing.T, home, url string) []string

	resumes bool // a new process continues the session
	slow    bool // it takes ten seconds to start on a busy machine
	fickle  bool // it does so only sometimes, for reasons of its own
	asks    bool // it asks before it runs a command
	// mcpTool is the name under which the model sees the tool "say" of the MCP server "test".
	mcpTool string
	// shell is the verb of the scripted model that runs a command for which the agent asks; "TOOL bash" when empty.
	shell string
}

var realAgents = []realAgent{
	{
		name: "opencode", packages: []string{"opencode-ai@1.18.33"}, program: []string{"opencode-" + npmPlatform + "/bin/opencode", "acp"},
		setup: func(t *testing.T, home, url string) []string {
			writeFile(t, home+"/.config/opencode/opencode.json", fakemodel.OpencodeConfig(url))
			return []string{"XDG_CONFIG_HOME=" + home + "/.config", "NO_PROXY=127.0.0.1"}
		},
		resumes: true, slow: true, asks: true, mcpTool: "test_say",
	},
	{
		name: "gemini", packages: []string{"@google/gemini-cli@0.61.0"}, program: []string{"@google/gemini-cli/bundle/gemini.js", "--acp"}, node: 20,
		setup: func(t *testing.T, home, url string) []string {
			// It starts no MCP server in a folder that it was not told to trust.
			trust := strings.Replace(fakemodel.GeminiSettings, `"security":{`, `"security":{"folderTrust":{"enabled":false},`, 1)
			writeFile(t, home+"/.gemini/settings.json", trust)
			return fakemodel.GeminiEnv(url)
		},
		resumes: true, fickle: true, asks: true, mcpTool: "mcp_test_say",
	},
	{
		name: "qwen", packages: []string{"@qwen-code/qwen-code@0.24.4"}, program: []string{".bin/qwen", "--acp"}, node: 22,
		setup:   func(_ *testing.T, _, url string) []string { return fakemodel.QwenEnv(url) },
		resumes: true, asks: true, mcpTool: "mcp__test__say",
	},
	{
		name: "claude", packages: []string{"@agentclientprotocol/claude-agent-acp@0.101.0"}, program: []string{".bin/claude-agent-acp"}, node: 22,
		setup:   func(_ *testing.T, _, url string) []string { return fakemodel.ClaudeEnv(url) },
		resumes: true, asks: true, mcpTool: "mcp__test__say",
	},
	{
		name: "codex", packages: []string{"@agentclientprotocol/codex-acp@2.6.0"}, program: []string{".bin/codex-acp"}, node: 22,
		setup: func(t *testing.T, home, url string) []string {
			writeFile(t, home+"/.codex/config.toml", "model = \"gpt-5.1-codex\"\nmodel_provider = \"fake\"\n[model_providers.fake]\nname = \"fake\"\nbase_url = \""+url+
				"/v1\"\nwire_api = \"responses\"\nenv_key = \"FAKE_KEY\"\nsupports_websockets = false\n")
			return []string{"CODEX_HOME=" + home + "/.codex", "FAKE_KEY=" + fakemodel.Key, "NO_PROXY=127.0.0.1", "NO_BROWSER=1"}
		},
		resumes: true, asks: true, mcpTool: "mcp__test::say", shell: "SHELLESC",
	},
	{
		name: "pi", packages: []string{"pi-acp@0.0.34", "@earendil-works/pi-coding-agent@1.6.0"}, program: []string{".bin/pi-acp"}, node: 22,
		setup: func(t *testing.T, home, url string) []string {
			writeFile(t, home+"/.pi/agent/models.json", `{"providers":{"fake":{"baseUrl":"`+url+`/v1","apiKey":"`+fakemodel.Key+
				`","api":"openai-completions","models":[{"id":"fake-model","name":"Fake"}]}}}`)
			writeFile(t, home+"/.pi/agent/settings.json", `{"defaultProvider":"fake","defaultModel":"fake-model"}`)
			return []string{"NO_PROXY=127.0.0.1"}
		},
		resumes: true,
	},
}

// npmPlatform is the platform as npm packages name it.
var npmPlatform = runtime.GOOS + "-" + strings.NewReplacer("amd64", "x64").Replace(runtime.GOARCH)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// defaultAgents run without being asked for; AGENT_SERVER_TEST_ACP=all runs all six, and a list of names separated by commas those.
const defaultAgents = "opencode,gemini"

// thorough reports whether the agents to run were named. Without that, what takes long and is mostly shown by other tests is left out.
func thorough() bool { return os.Getenv("AGENT_SERVER_TEST_ACP") != "" }

func chosenAgents(t *testing.T) []realAgent {
	t.Helper()
	chosen := os.Getenv("AGENT_SERVER_TEST_ACP")
	switch chosen {
	case "":
		chosen = defaultAgents
	case "all":
		return realAgents
	}
	var list []realAgent
	for _, a := range realAgents {
		if strings.Contains(","+chosen+",", ","+a.name+",") {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		t.Fatalf("AGENT_SERVER_TEST_ACP=%s names no agent", chosen)
	}
	return list
}

// npm returns the node_modules folder with the packages, which are downloaded once and kept in the user's cache folder.
func npm(t *testing.T, packages ...string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(strings.Join(packages, " ")))
	dir := filepath.Join(cache, "agent-server-test", "npm", hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		return filepath.Join(dir, "node_modules")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatalf("npm is needed to install %s: install node with npm, or run the tests with -short", strings.Join(packages, ", "))
	}
	fresh := dir + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		t.Fatal(err)
	}
	writeFile(t, fresh+"/package.json", "{}")
	cmd := exec.Command("npm", append([]string{"install", "--ignore-scripts", "--no-audit", "--no-fund"}, packages...)...)
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm install %s: %v\n%s", strings.Join(packages, " "), err, out)
	}
	if err := os.Rename(fresh, dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "node_modules")
}

var nodeVersion = sync.OnceValue(func() int {
	out, _ := exec.Command("node", "--version").Output()
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	n, _ := strconv.Atoi(major)
	return n
})

// node returns a node of at least the given major version: the machine's own, or one from npm.
func node(t *testing.T, major int) string {
	t.Helper()
	if nodeVersion() >= major {
		path, err := exec.LookPath("node")
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	return filepath.Join(npm(t, "node-"+npmPlatform+"@"+strconv.Itoa(major)), "node-"+npmPlatform, "bin", "node")
}

// rig returns a rig for the agent, which is not started yet.
func (a *realAgent) rig(t *testing.T) (*rig, *fakemodel.Server) {
	t.Helper()
	modules := npm(t, a.packages...)
	model, err := fakemodel.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	known, ok := acp.Known(a.name)
	if !ok {
		t.Fatalf("%s is not known", a.name)
	}
	opts := known.Options()
	program := filepath.Join(modules, a.program[0])
	command := append([]string{program}, a.program[1:]...)
	path := os.Getenv("PATH")
	if a.node > 0 {
		nodePath := node(t, a.node)
		command = append([]string{nodePath}, command...)
		path = filepath.Dir(nodePath) + string(filepath.ListSeparator) + path
	}
	opts.Resolve = acp.FirstInstalled([][]string{command}, "")
	r := newRig(t, opts)
	r.spec.Config.Harness = opts.ID
	home := t.TempDir()
	r.spec.Env = append([]string{"PATH=" + filepath.Join(modules, ".bin") + string(filepath.ListSeparator) + path, "HOME=" + home, "CI=1", "IS_SANDBOX=1", "TERM=dumb",
		"HTTPS_PROXY=http://127.0.0.1:9", "HTTP_PROXY=http://127.0.0.1:9"}, a.setup(t, home, model.URL())...)
	return r, model
}
