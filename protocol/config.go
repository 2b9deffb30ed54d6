package protocol

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// RunConfig says how a turn runs: which harness, where, and with what (spec section 4). The zero value of every field but Harness and Cwd means
// the harness's own default. Fields that a harness cannot honour are reported, never dropped silently.
type RunConfig struct {
	Harness HarnessID `json:"harness"`
	// Cwd is the absolute path of an existing directory.
	Cwd                   string         `json:"cwd"`
	Model                 string         `json:"model,omitempty"`
	ThinkingLevel         ThinkingLevel  `json:"thinkingLevel,omitempty"`
	PermissionMode        PermissionMode `json:"permissionMode,omitempty"`
	AdditionalDirectories []string       `json:"additionalDirectories,omitempty"`
	SystemPromptAppend    string         `json:"systemPromptAppend,omitempty"`
	// MaxTurns bounds the model's round trips within the turn.
	MaxTurns *int `json:"maxTurns,omitempty"`
	// ResumeSessionID and ResumeSessionAt are native ids of the harness.
	ResumeSessionID string               `json:"resumeSessionId,omitempty"`
	ResumeSessionAt string               `json:"resumeSessionAt,omitempty"`
	MCPServers      map[string]MCPServer `json:"mcpServers,omitempty"`
	// Env is layered over the child's environment, within the limits that the operator sets. Its values are secrets.
	Env map[string]string `json:"env,omitempty"`
	// APIKey is a secret: it is never logged, echoed or put into an event.
	APIKey string `json:"apiKey,omitempty"`
	// DisableTools offers no tool at all to the model.
	DisableTools bool `json:"disableTools,omitempty"`
	// PermissionRequests false says that nobody is there to answer: what the mode does not allow is denied at once. Nil means true.
	PermissionRequests *bool `json:"permissionRequests,omitempty"`
	IncludeRaw         bool  `json:"includeRaw,omitempty"`
}

// MCPServer is {type:"stdio",command,args?,env?} or {type:"http"|"sse",url,headers?}. Env and header values are secrets.
type MCPServer struct {
	Type    string            `json:"type"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// The types of [MCPServer].
const (
	MCPStdio = "stdio"
	MCPHTTP  = "http"
	MCPSSE   = "sse"
)

// AsksPermission reports whether somebody is there to answer permission requests.
func (c *RunConfig) AsksPermission() bool {
	return c.PermissionRequests == nil || *c.PermissionRequests
}

// Secrets returns every value of the config that must never be shown.
func (c *RunConfig) Secrets() []string {
	var all []string
	add := func(s string) {
		if s != "" {
			all = append(all, s)
		}
	}
	add(c.APIKey)
	for _, v := range c.Env {
		add(v)
	}
	for _, m := range c.MCPServers {
		for _, v := range m.Env {
			add(v)
		}
		for _, v := range m.Headers {
			add(v)
		}
	}
	return all
}

// FieldError says what is wrong with one field of a request. Path is like "config.maxTurns"; Message never holds a secret.
type FieldError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Check returns what is wrong with the config, as far as can be seen without looking at the machine; paths start with path.
func (c *RunConfig) Check(path string) []FieldError {
	var errs []FieldError
	bad := func(field, format string, args ...any) {
		errs = append(errs, FieldError{path + "." + field, fmt.Sprintf(format, args...)})
	}
	if c.Harness == "" {
		bad("harness", "must not be empty")
	}
	if !filepath.IsAbs(c.Cwd) {
		bad("cwd", "must be an absolute path")
	}
	if !slices.Contains([]ThinkingLevel{"", ThinkingOff, ThinkingLow, ThinkingMedium, ThinkingHigh, ThinkingXHigh}, c.ThinkingLevel) {
		bad("thinkingLevel", "must be one of off, low, medium, high, xhigh")
	}
	if !slices.Contains([]PermissionMode{"", ModeDefault, ModePlan, ModeAcceptEdits, ModeDontAsk, ModeBypassPermissions}, c.PermissionMode) {
		bad("permissionMode", "must be one of default, plan, accept_edits, dont_ask, bypass_permissions")
	}
	if c.MaxTurns != nil && *c.MaxTurns <= 0 {
		bad("maxTurns", "must be above 0")
	}
	for i, d := range c.AdditionalDirectories {
		if !filepath.IsAbs(d) {
			bad(fmt.Sprintf("additionalDirectories[%d]", i), "must be an absolute path")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(c.Env[name], 0) {
			bad("env", "%q cannot be an environment variable", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.MCPServers)) {
		s := c.MCPServers[name]
		if msg := s.check(name); msg != "" {
			bad("mcpServers."+name, "%s", msg)
		}
	}
	return errs
}

func (s *MCPServer) check(name string) string {
	if strings.TrimSpace(name) == "" {
		return "a server's name must not be blank"
	}
	switch s.Type {
	case MCPStdio:
		if s.Command == "" {
			return "command must not be empty"
		}
		if s.URL != "" || s.Headers != nil {
			return "url and headers do not belong to type stdio"
		}
	case MCPHTTP, MCPSSE:
		if u, err := url.Parse(s.URL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return "url must be an http or https URL"
		}
		if s.Command != "" || s.Args != nil || s.Env != nil {
			return "command, args and env belong to type stdio only"
		}
	default:
		return "type must be stdio, http or sse"
	}
	return ""
}
