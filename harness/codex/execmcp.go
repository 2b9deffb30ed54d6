package codex

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
)

// execServers are the MCP servers of the config as arguments of `codex exec`. Every user of the machine can read those, so the values of headers
// and variables are handed over in codex's environment. Their names there end in SECRET, which keeps them from the agent's commands.
type execServers struct {
	args     []string
	env      map[string]string
	failures []harness.Event // about servers that are left out
}

var (
	serverName   = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func execServersOf(c *protocol.RunConfig) execServers {
	x := execServers{env: map[string]string{}, failures: unsupportedServers(c)}
	for _, name := range slices.Sorted(maps.Keys(c.MCPServers)) {
		s := c.MCPServers[name]
		if s.Type == protocol.MCPSSE {
			continue
		}
		if !serverName.MatchString(name) {
			x.leaveOut(name, "codex takes letters, digits, - and _ in a server's name")
			continue
		}
		var table string
		if s.Type == protocol.MCPHTTP {
			table = x.remote(s)
		} else if bad := slices.IndexFunc(slices.Sorted(maps.Keys(s.Env)), func(n string) bool { return !variableName.MatchString(n) }); bad >= 0 {
			x.leaveOut(name, "the name of a variable holds other characters than letters, digits and _")
			continue
		} else {
			table = x.local(s)
		}
		x.args = append(x.args, "-c", "mcp_servers."+name+"="+table)
	}
	return x
}

func (x *execServers) leaveOut(name, why string) {
	x.failures = append(x.failures, harness.Failure{Category: protocol.CategoryInvalidRequest, Message: fmt.Sprintf("config.mcpServers[%q]: %s, so the server is left out; rename it", name, why)})
}

// hide puts a value into the environment and returns its name there.
func (x *execServers) hide(value string) string {
	name := fmt.Sprintf("AGENT_SERVER_MCP_%d_SECRET", len(x.env))
	x.env[name] = value
	return name
}

func (x *execServers) remote(s protocol.MCPServer) string {
	var headers []string
	for _, h := range slices.Sorted(maps.Keys(s.Headers)) {
		headers = append(headers, tomlString(h)+"="+tomlString(x.hide(s.Headers[h])))
	}
	return "{url=" + tomlString(s.URL) + ",env_http_headers={" + strings.Join(headers, ",") + "}}"
}

// local runs the server through a shell, which gives the variables their real names.
func (x *execServers) local(s protocol.MCPServer) string {
	if len(s.Env) == 0 {
		return "{command=" + tomlString(s.Command) + ",args=" + tomlStrings(s.Args) + "}"
	}
	script := ""
	var names []string
	for _, n := range slices.Sorted(maps.Keys(s.Env)) {
		hidden := x.hide(s.Env[n])
		names = append(names, hidden)
		script += n + `="$` + hidden + `" `
	}
	// The assignments come before the hidden names are unset, and hold for the server alone.
	script = "export " + script + "; unset " + strings.Join(names, " ") + `; exec "$@"`
	args := append([]string{"-c", script, "sh", s.Command}, s.Args...)
	return `{command="/bin/sh",args=` + tomlStrings(args) + ",env_vars=" + tomlStrings(names) + "}"
}

func tomlStrings(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = tomlString(s)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}
