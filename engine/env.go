package engine

import (
	"maps"
	"slices"
	"strings"

	"agentserver/protocol"
)

// DeniedEnv lists the variables that a client cannot set for an agent, unless [Options.AllowEnv] names them: they choose what is executed or
// loaded, or whose files are read. A name may start or end in "*".
var DeniedEnv = []string{
	"PATH", "HOME", "SHELL", "ENV", "BASH_ENV", "BASH_FUNC_*", "CLAUDE_CODE_SHELL*", "*_CLI_PATH", "AGENT_SERVER_*",
	"LD_*", "DYLD_*", "GCONV_PATH", "NODE_OPTIONS", "NODE_PATH", "BUN_OPTIONS",
	"GIT_SSH*", "GIT_EXEC_PATH", "GIT_CONFIG*", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_ASKPASS", "GIT_PROXY_COMMAND",
}

// checkEnv returns an error for each variable that a client must not set. It never shows a value.
func (o *Options) checkEnv(env map[string]string) []protocol.FieldError {
	var errs []protocol.FieldError
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if matchesAny(DeniedEnv, name) && !matchesAny(o.AllowEnv, name) {
			errs = append(errs, protocol.FieldError{Path: "config.env." + name,
				Message: "clients may not set " + name + " here; leave it out, or ask the operator to allow it"})
		}
	}
	return errs
}

// childEnv returns the environment of an agent: the operator's with env layered over it.
func (o *Options) childEnv(env map[string]string) []string {
	out := make([]string, 0, len(o.BaseEnv)+len(env))
	for _, kv := range o.BaseEnv {
		name, _, _ := strings.Cut(kv, "=")
		if _, replaced := env[name]; !replaced {
			out = append(out, kv)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if prefix, ok := strings.CutSuffix(p, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		if suffix, ok := strings.CutPrefix(p, "*"); ok {
			return strings.HasSuffix(name, suffix)
		}
		return p == name
	})
}
