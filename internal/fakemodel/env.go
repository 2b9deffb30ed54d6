package fakemodel

// Key is the dummy API key that the environments below carry.
const Key = "sk-fake-key"

// ClaudeEnv is the environment, as NAME=value, with which the claude CLI talks to the server at url and to nothing else.
// The caller adds HOME and CLAUDE_CONFIG_DIR of its own.
func ClaudeEnv(url string) []string {
	return []string{
		"ANTHROPIC_BASE_URL=" + url,
		"ANTHROPIC_API_KEY=" + Key,
		"DISABLE_TELEMETRY=1",
		"DISABLE_AUTOUPDATER=1",
		"DISABLE_ERROR_REPORTING=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"CLAUDE_CODE_MAX_RETRIES=2",
		"NO_PROXY=127.0.0.1",
	}
}
