package fakemodel

import "fmt"

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

// CodexKeyVar is the environment variable that the provider of [CodexConfigArgs] takes its key from.
const CodexKeyVar = "FAKEMODEL_API_KEY"

// CodexEnv is the environment, as NAME=value, that goes with CodexConfigArgs. The caller adds HOME and CODEX_HOME of its own;
// CODEX_HOME must exist.
func CodexEnv() []string { return []string{CodexKeyVar + "=" + Key, "NO_PROXY=127.0.0.1"} }

// CodexConfigArgs are arguments of the codex CLI, valid for app-server and exec, that make the server at url its only peer: a model
// provider without retries, model (gpt-5.5 if empty), and no plugin catalogue. Each override is preceded by its own "-c".
func CodexConfigArgs(url, model string) []string {
	provider := fmt.Sprintf(`model_providers.fakemodel={name="Fake model",base_url=%q,env_key=%q,wire_api="responses",request_max_retries=0,stream_max_retries=0}`,
		url+"/v1", CodexKeyVar)
	return []string{
		"--disable", "plugins", "-c", provider, "-c", `model_provider="fakemodel"`, "-c", fmt.Sprintf("model=%q", orElse(model, "gpt-5.5")),
	}
}

// GeminiSettings is the content of the ~/.gemini/settings.json without which the gemini CLI asks how to log in.
const GeminiSettings = `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false}}`

// GeminiEnv is the environment, as NAME=value, with which the gemini CLI talks to the server at url. It needs GeminiSettings in its HOME.
func GeminiEnv(url string) []string {
	return []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=" + Key, "GEMINI_TELEMETRY_ENABLED=false", "NO_PROXY=127.0.0.1"}
}

// QwenEnv is the environment, as NAME=value, with which the qwen CLI talks to the server at url.
func QwenEnv(url string) []string {
	return []string{"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=" + Key, "OPENAI_MODEL=fake-model", "NO_PROXY=127.0.0.1"}
}

// OpencodeConfig is the content of an opencode.json with which the opencode CLI talks to the server at url and asks before it runs
// commands or edits files.
func OpencodeConfig(url string) string {
	return toJSON(map[string]any{
		"$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled", "model": "fake/fake-model",
		"permission": map[string]any{"bash": "ask", "edit": "ask"},
		"provider": map[string]any{"fake": map[string]any{
			"npm": "@ai-sdk/openai-compatible", "name": "Fake model",
			"options": map[string]any{"baseURL": url + "/v1", "apiKey": Key},
			"models":  map[string]any{"fake-model": map[string]any{"name": "Fake model", "tool_call": true}},
		}},
	})
}
