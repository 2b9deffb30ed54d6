package claude

import (
	"strconv"
	"strings"

	"agentserver/harness"
	"agentserver/harness/internal/process"
	"agentserver/protocol"
)

// modes maps the permission modes to the CLI's words.
var modes = map[protocol.PermissionMode]string{
	protocol.ModeDefault:           "default",
	protocol.ModePlan:              "plan",
	protocol.ModeAcceptEdits:       "acceptEdits",
	protocol.ModeDontAsk:           "dontAsk",
	protocol.ModeBypassPermissions: "bypassPermissions",
}

// arguments returns the argv for spec. newID names a session that starts afresh. Nothing secret is in it: argv can be read by every user.
func arguments(spec harness.Spec, newID string) []string {
	c := &spec.Config
	args := []string{
		"--output-format", "stream-json", "--verbose", "--input-format", "stream-json",
		"--include-partial-messages", "--replay-user-messages",
		// Without this, plan mode lets a classifier approve commands by itself.
		"--settings", `{"disableAutoMode":"disable"}`,
	}
	if c.AsksPermission() {
		args = append(args, "--permission-prompt-tool", "stdio")
	}
	args = append(args, sessionArguments(spec, newID)...)
	switch {
	case c.Model != "":
		args = append(args, "--model", c.Model)
	case spec.Resume != "":
		args = append(args, "--model", "default") // else the transcript's, without its variant such as [1m]
	}
	args = append(args, thinkingArguments(c.ThinkingLevel)...)
	if mode := modes[c.PermissionMode]; mode != "" {
		args = append(args, "--permission-mode", mode)
	}
	if c.PermissionMode == protocol.ModeBypassPermissions {
		args = append(args, "--allow-dangerously-skip-permissions")
	}
	if c.MaxTurns != nil {
		args = append(args, "--max-turns", strconv.Itoa(*c.MaxTurns))
	}
	for _, dir := range c.AdditionalDirectories {
		args = append(args, "--add-dir", dir)
	}
	if c.DisableTools {
		// The user's and the project's MCP servers bring tools too.
		args = append(args, "--tools", "", "--strict-mcp-config")
	}
	return args
}

func sessionArguments(spec harness.Spec, newID string) []string {
	if spec.Resume == "" {
		return []string{"--session-id", newID}
	}
	args := []string{"--resume", spec.Resume}
	if spec.ResumeAt != "" {
		args = append(args, "--resume-session-at", spec.ResumeAt)
	}
	return args
}

func thinkingArguments(level protocol.ThinkingLevel) []string {
	switch level {
	case "":
		return nil
	case protocol.ThinkingOff:
		return []string{"--thinking", "disabled"}
	}
	return []string{"--thinking", "adaptive", "--effort", string(level)}
}

// dropped are variables that a claude or node above us has set, and that would confuse the CLI.
var dropped = []string{
	"CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_ENTRYPOINT",
	"CLAUDE_EFFORT", "CLAUDE_CODE_EFFORT_LEVEL", "NODE_OPTIONS", "DEBUG",
}

// credentials are what outweighs an API key; a key that the config gives must win.
var credentials = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"}

// environment returns the child's environment.
func environment(spec harness.Spec, entrypoint string) []string {
	drop := process.Names(dropped...)
	keep := func(name string) bool { // what the client itself asked for
		_, ok := spec.Config.Env[name]
		return ok
	}
	set := map[string]string{
		"CLAUDE_CODE_ENTRYPOINT":                entrypoint,
		"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
		"DISABLE_AUTOUPDATER":                   "1", // the operator decides on versions
	}
	if spec.Config.ThinkingLevel == protocol.ThinkingOff {
		// For models that always think by the CLI's list, 2.1.332 ignores --thinking disabled; this makes it ask for no thinking at all.
		set["CLAUDE_CODE_DISABLE_THINKING"] = "1"
	}
	isCredential := func(string) bool { return false }
	if spec.Config.APIKey != "" {
		isCredential = process.Names(credentials...)
		set["ANTHROPIC_API_KEY"] = spec.Config.APIKey
	}
	return process.Env(spec.Env, func(name string) bool {
		return isCredential(name) || drop(name) && !keep(name)
	}, set)
}

// secrets returns every value that must not be shown: those of the config, and the credentials in the environment.
func secrets(spec harness.Spec) []string {
	all := spec.Config.Secrets()
	for _, name := range append([]string{"ANTHROPIC_CUSTOM_HEADERS"}, credentials...) {
		if v := lookup(spec.Env, name); v != "" {
			all = append(all, v)
		}
	}
	return all
}

// lookup returns the value of a variable in env; the last entry wins.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}
