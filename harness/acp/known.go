package acp

import (
	"maps"
	"slices"

	"agentserver/protocol"
)

// An Agent is a well-known ACP agent: how it is started, and what it is known to deliver.
type Agent struct {
	// Name is what people call it.
	Name string
	// Commands are command lines in order of preference: the first whose program is installed is started. The last one may be a package runner.
	Commands [][]string
	// Env is set for the agent unless the environment has it already.
	Env map[string]string
	// APIKeyVars are the environment variables that config.apiKey goes into; none when the agent takes no key by environment.
	APIKeyVars []string
	// ThinkingLevels are the levels that the agent tells apart, as far as is known.
	ThinkingLevels []protocol.ThinkingLevel
	// NoPermissions says that the agent never asks.
	NoPermissions bool
	// Steering says that the agent has the _session/steering extension.
	Steering bool
	// Hint is what to do when no program was found.
	Hint string
}

var (
	lowToHigh  = []protocol.ThinkingLevel{protocol.ThinkingLow, protocol.ThinkingMedium, protocol.ThinkingHigh}
	lowToXHigh = append(slices.Clone(lowToHigh), protocol.ThinkingXHigh)
	allLevels  = append([]protocol.ThinkingLevel{protocol.ThinkingOff}, lowToXHigh...)
)

// agents is the table of the known agents. The first six were run against this driver; docs/harness-acp.md says which parts of each. The others' commands are as
// their makers, the ACP registry or the acpx project publish them.
var agents = []Agent{
	{Name: "claude", Commands: [][]string{{"claude-agent-acp"}, {"claude-code-acp"}, npx("@agentclientprotocol/claude-agent-acp")},
		APIKeyVars: []string{"ANTHROPIC_API_KEY"}, ThinkingLevels: lowToHigh, Steering: true},
	{Name: "codex", Commands: [][]string{{"codex-acp"}, npx("@agentclientprotocol/codex-acp")},
		Env: map[string]string{"NO_BROWSER": "1"}, APIKeyVars: []string{"OPENAI_API_KEY", "CODEX_API_KEY"}, ThinkingLevels: lowToXHigh, Steering: true},
	{Name: "gemini", Commands: [][]string{{"gemini", "--acp"}, npx("@google/gemini-cli", "--acp")}, APIKeyVars: []string{"GEMINI_API_KEY"}},
	{Name: "qwen", Commands: [][]string{{"qwen", "--acp"}, npx("@qwen-code/qwen-code", "--acp")}, APIKeyVars: []string{"OPENAI_API_KEY"}},
	{Name: "opencode", Commands: [][]string{{"opencode", "acp"}, npx("opencode-ai", "acp")}},
	{Name: "pi", Commands: [][]string{{"pi-acp"}, npx("pi-acp")}, ThinkingLevels: allLevels, NoPermissions: true},

	{Name: "copilot", Commands: [][]string{{"copilot", "--acp"}, npx("@github/copilot", "--acp")}},
	{Name: "cursor", Commands: [][]string{{"cursor-agent", "acp"}}},
	{Name: "goose", Commands: [][]string{{"goose", "acp"}}},
	{Name: "kimi", Commands: [][]string{{"kimi", "acp"}}},
	{Name: "auggie", Commands: [][]string{{"auggie", "--acp"}, npx("@augmentcode/auggie", "--acp")}, Env: map[string]string{"AUGMENT_DISABLE_AUTO_UPDATE": "1"}},
	{Name: "amp", Commands: [][]string{{"amp-acp"}}},
	{Name: "cline", Commands: [][]string{{"cline", "--acp"}, npx("cline", "--acp")}},
	{Name: "droid", Commands: [][]string{{"droid", "exec", "--output-format", "acp"}},
		Env: map[string]string{"DROID_DISABLE_AUTO_UPDATE": "true", "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false"}},
	{Name: "junie", Commands: [][]string{{"junie", "--acp=true"}}},
	{Name: "mistral-vibe", Commands: [][]string{{"vibe-acp"}}},
	{Name: "qoder", Commands: [][]string{{"qodercli", "--acp"}, npx("@qoder-ai/qodercli", "--acp")}, APIKeyVars: []string{"QODER_PERSONAL_ACCESS_TOKEN"}},
	{Name: "codebuddy", Commands: [][]string{{"codebuddy", "--acp"}, npx("@tencent-ai/codebuddy-code", "--acp")}},
	{Name: "kilo", Commands: [][]string{{"kilo", "acp"}, npx("@kilocode/cli", "acp")}},
	{Name: "kiro", Commands: [][]string{{"kiro-cli", "acp"}, {"kiro-cli-chat", "acp"}}},
	{Name: "grok", Commands: [][]string{{"grok", "agent", "stdio"}}, APIKeyVars: []string{"XAI_API_KEY"}},
	{Name: "devin", Commands: [][]string{{"devin", "acp"}}},
	{Name: "deepagents", Commands: [][]string{npx("deepagents-acp")}},
	{Name: "fast-agent", Commands: [][]string{{"uvx", "fast-agent-mcp", "acp"}}},
	{Name: "openclaw", Commands: [][]string{{"openclaw", "acp"}}},
	{Name: "poolside", Commands: [][]string{{"pool", "acp"}}},
	{Name: "trae", Commands: [][]string{{"traecli", "acp", "serve"}}},
	{Name: "iflow", Commands: [][]string{{"iflow", "--experimental-acp"}}},
	{Name: "stakpak", Commands: [][]string{{"stakpak", "acp"}}},
	{Name: "cagent", Commands: [][]string{{"cagent", "acp"}}},
	{Name: "code-assistant", Commands: [][]string{{"code-assistant", "acp"}}},
}

var aliases = map[string]string{
	"claude-acp": "claude", "codex-acp": "codex", "gemini-cli": "gemini", "qwen-code": "qwen", "pi-acp": "pi",
	"github-copilot-cli": "copilot", "augment": "auggie", "factory-droid": "droid", "vibe": "mistral-vibe", "kilocode": "kilo", "grok-build": "grok", "pool": "poolside",
}

func npx(pkg string, args ...string) []string { return append([]string{"npx", "-y", pkg}, args...) }

// Known returns the well-known agent of a name or an alias. The result is a copy.
func Known(name string) (Agent, bool) {
	if a, ok := aliases[name]; ok {
		name = a
	}
	for _, a := range agents {
		if a.Name == name {
			a.Commands, a.APIKeyVars, a.ThinkingLevels = slices.Clone(a.Commands), slices.Clone(a.APIKeyVars), slices.Clone(a.ThinkingLevels)
			a.Env = maps.Clone(a.Env)
			return a, true
		}
	}
	return Agent{}, false
}

// Names returns the names of the known agents, sorted.
func Names() []string {
	names := make([]string, len(agents))
	for i, a := range agents {
		names[i] = a.Name
	}
	slices.Sort(names)
	return names
}
