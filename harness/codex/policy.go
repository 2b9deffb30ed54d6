package codex

import (
	"slices"

	"agentserver/harness"
	"agentserver/protocol"
)

// A policy is what a permission mode means to codex: whom it asks, and what its commands may write.
type policy struct {
	approval string // codex's approval policy
	sandbox  string // codex's sandbox mode
	plan     bool   // codex's collaboration mode "plan"
}

// policies is the one table of the modes. The policy "untrusted" is not used: with it codex runs an approved command twice when the sandbox stops it.
var policies = map[protocol.PermissionMode]policy{
	"":                             {approval: "on-request", sandbox: "read-only"},
	protocol.ModeDefault:           {approval: "on-request", sandbox: "read-only"},
	protocol.ModePlan:              {approval: "never", sandbox: "read-only", plan: true},
	protocol.ModeAcceptEdits:       {approval: "on-request", sandbox: "workspace-write"},
	protocol.ModeDontAsk:           {approval: "never", sandbox: "workspace-write"},
	protocol.ModeBypassPermissions: {approval: "never", sandbox: "danger-full-access"},
}

// policyOf returns the policy of a config. With nobody to answer, codex is told not to ask, and refuses by itself.
func policyOf(c *protocol.RunConfig) policy {
	p, known := policies[c.PermissionMode]
	if !known {
		p = policies[protocol.ModeDefault]
	}
	if !c.AsksPermission() {
		p.approval = "never"
	}
	return p
}

// sandboxPolicy is the sandbox of a turn, in the form of turn/start. Threads are always started in the read-only sandbox and each turn widens it:
// a thread that starts with a wider one makes codex mark the project as trusted in the user's config.toml.
func (p policy) sandboxPolicy(directories []string) object {
	switch p.sandbox {
	case "danger-full-access":
		return object{"type": "dangerFullAccess"}
	case "workspace-write":
		roots := slices.Clone(directories)
		if roots == nil {
			roots = []string{}
		}
		return object{"type": "workspaceWrite", "writableRoots": roots, "networkAccess": false, "excludeTmpdirEnvVar": false, "excludeSlashTmp": false}
	}
	return object{"type": "readOnly", "networkAccess": false}
}

// threadParams are the parameters of thread/start, and of thread/resume but for the id.
func threadParams(spec harness.Spec, prov provider) object {
	c := &spec.Config
	p := object{"cwd": c.Cwd, "approvalPolicy": policyOf(c).approval, "sandbox": "read-only"}
	if c.Model != "" {
		p["model"] = c.Model
	}
	if c.SystemPromptAppend != "" {
		p["developerInstructions"] = c.SystemPromptAppend
	}
	config := object{}
	if servers := mcpServers(c); len(servers) > 0 {
		config["mcp_servers"] = servers
	}
	if prov.id != "" {
		p["modelProvider"] = prov.id
		config["model_providers"] = object{prov.id: prov.settings}
	}
	if len(config) > 0 {
		p["config"] = config
	}
	return p
}

// mcpServers are codex's settings of the servers of the config. Those of type sse, codex has no transport for; see [unsupportedServers].
func mcpServers(c *protocol.RunConfig) object {
	servers := object{}
	for name, s := range c.MCPServers {
		switch s.Type {
		case protocol.MCPStdio:
			entry := object{"command": s.Command}
			if len(s.Args) > 0 {
				entry["args"] = s.Args
			}
			if len(s.Env) > 0 {
				entry["env"] = s.Env
			}
			servers[name] = entry
		case protocol.MCPHTTP:
			entry := object{"url": s.URL}
			if len(s.Headers) > 0 {
				entry["http_headers"] = s.Headers
			}
			servers[name] = entry
		}
	}
	return servers
}

// unsupportedServers tells which servers of the config are left out.
func unsupportedServers(c *protocol.RunConfig) []harness.Event {
	var names []string
	for name, s := range c.MCPServers {
		if s.Type == protocol.MCPSSE {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var events []harness.Event
	for _, name := range names {
		events = append(events, harness.Failure{Category: protocol.CategoryInvalidRequest, Message: "config.mcpServers." + name +
			": codex has no transport of type sse, so the server is left out; give its streamable HTTP address with type http"})
	}
	return events
}

// turnParams are the parameters of turn/start. What a turn sets is kept by codex for the next, so everything is set each time. model is the
// thread's when the config names none.
func turnParams(thread, model string, c *protocol.RunConfig, input []object) object {
	pol := policyOf(c)
	p := object{
		"threadId": thread, "input": input, "approvalPolicy": pol.approval, "sandboxPolicy": pol.sandboxPolicy(c.AdditionalDirectories),
	}
	if model != "" {
		p["model"] = model
	}
	level := effort(c.ThinkingLevel)
	if level != "" {
		p["effort"] = level
	}
	if model != "" { // without a model codex cannot be told the mode
		mode := "default"
		if pol.plan {
			mode = "plan"
		}
		settings := object{"model": model, "reasoning_effort": nil, "developer_instructions": nil}
		if level != "" {
			settings["reasoning_effort"] = level
		}
		p["collaborationMode"] = object{"mode": mode, "settings": settings}
	}
	return p
}
