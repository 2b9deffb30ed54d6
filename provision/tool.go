package provision

import (
	"fmt"
	"regexp"
)

// A Tool is a CLI that this package can find and install.
type Tool string

// The tools that have pins.
const (
	Claude Tool = "claude"
	Codex  Tool = "codex"
)

// Tools returns every tool, in the order in which reports show them. The slice is the caller's.
func Tools() []Tool { return []Tool{Claude, Codex} }

// OverrideVariable returns the environment variable by which an operator names tool's executable, "" for an unknown tool.
func OverrideVariable(tool Tool) string { return traits[tool].override }

// toolTraits is what differs between the tools. The table below is the only place that knows.
type toolTraits struct {
	override    string         // the environment variable that names an executable
	versionLine *regexp.Regexp // the first line of `--version`; group 1 is the version
	native      func(Platform) []string
	credentials credentialTraits
}

// credentialTraits lists where a tool takes its credentials from. Only names are ever reported.
type credentialTraits struct {
	variables []string
	homeVar   string // the variable that moves the tool's own folder
	homeDir   string // that folder below the user's home, when the variable is unset
	file      string // the credentials file inside it
}

var traits = map[Tool]toolTraits{
	Claude: {
		override:    "CLAUDE_CLI_PATH",
		versionLine: regexp.MustCompile(`^(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?) \(Claude Code\)$`),
		native:      claudeNative,
		credentials: credentialTraits{
			variables: []string{
				"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
				"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
			},
			homeVar: "CLAUDE_CONFIG_DIR", homeDir: ".claude", file: ".credentials.json",
		},
	},
	Codex: {
		override:    "CODEX_CLI_PATH",
		versionLine: regexp.MustCompile(`^codex-cli (\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$`),
		native:      codexNative,
		credentials: credentialTraits{
			variables: []string{"CODEX_API_KEY", "OPENAI_API_KEY"},
			homeVar:   "CODEX_HOME", homeDir: ".codex", file: "auth.json",
		},
	},
}

// claudeNative lists where npm may have put claude's native binary, below a node_modules folder, best first.
func claudeNative(p Platform) []string {
	var paths []string
	for _, key := range p.keys() {
		paths = append(paths, "@anthropic-ai/claude-code-"+key+"/claude")
	}
	return paths
}

// codexNative is claudeNative for codex: its platform package, or the vendor folder of older releases' main package.
func codexNative(p Platform) []string {
	var paths []string
	for _, dir := range []string{"@openai/codex-" + p.OS + "-" + p.Arch, "@openai/codex"} {
		vendor := dir + "/vendor/" + codexTriple(p)
		paths = append(paths, vendor+"/bin/codex", vendor+"/codex/codex")
	}
	return paths
}

// codexTriple is the name by which codex's packages call a platform; its linux builds are static and serve both libcs.
func codexTriple(p Platform) string {
	arch := map[string]string{"x64": "x86_64", "arm64": "aarch64"}[p.Arch]
	if p.OS == "darwin" {
		return arch + "-apple-darwin"
	}
	return arch + "-unknown-linux-musl"
}

func traitsOf(tool Tool) (toolTraits, error) {
	t, ok := traits[tool]
	if !ok {
		return toolTraits{}, fmt.Errorf("no tool %q: the tools are claude and codex", tool)
	}
	return t, nil
}
