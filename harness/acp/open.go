package acp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentserver/harness"
	"agentserver/harness/internal/process"
	"agentserver/internal/transport"
	"agentserver/protocol"
)

const authAdvice = "log in to the agent on the server's machine (run it in a terminal there), give its API key in its environment, or have the operator configure an authentication method"

// handshake brings the agent from its start to a session that fits the spec.
func (s *session) handshake(ctx context.Context) error {
	if err := s.initialize(ctx); err != nil {
		return err
	}
	result, err := s.makeSession(ctx)
	if e, ok := errors.AsType[*transport.Error](err); ok && e.Code == codeAuthRequired {
		if err = s.authenticate(ctx, e); err == nil {
			result, err = s.makeSession(ctx)
		}
	}
	if err != nil {
		return s.startError(err, "session/new")
	}
	s.do(func(t *translator) {
		t.settings.load(result)
		t.goLive(result.SessionID)
	})
	return s.applySettings(ctx, s.spec.Config)
}

func (s *session) initialize(ctx context.Context) error {
	opts := &s.driver.opts
	raw, err := s.call(ctx, opts.InitializeTimeout, "initialize", object{
		"protocolVersion": version,
		"clientCapabilities": object{
			"fs":       object{"readTextFile": opts.ServeFS, "writeTextFile": opts.ServeFS},
			"terminal": false,
			// Agents that run commands in terminals of their own send the output in `_meta` when they see this.
			"_meta": object{"terminal_output": true},
		},
		"clientInfo": object{"name": "agent-server", "title": "Agent Server", "version": "1"},
	})
	if err != nil {
		return s.startError(err, "initialize")
	}
	var r initializeResult
	if !lenient(raw, &r) || r.ProtocolVersion != version {
		return &harness.Error{Category: protocol.CategoryInvalidRequest, Message: fmt.Sprintf(
			"%s answers with version %d of the Agent Client Protocol, but version %d is needed: use another version of the agent", s.t.name, r.ProtocolVersion, version)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agent = r
	s.log.Debug("acp: agent", "name", r.Agent.Name, "version", r.Agent.Version)
	return nil
}

// makeSession goes on with the session that the spec names, by the gentlest means that works, or makes a new one. Whether it went on is told
// with the first event.
func (s *session) makeSession(ctx context.Context) (*sessionResult, error) {
	params := s.sessionParams()
	if s.spec.Resume == "" {
		return s.sessionCall(ctx, "session/new", params)
	}
	resumed := maps.Clone(params)
	resumed["sessionId"] = s.spec.Resume
	var ways []string
	if present(s.agent.Capabilities.Session.Resume) {
		ways = append(ways, "session/resume")
	}
	if s.agent.Capabilities.LoadSession {
		ways = append(ways, "session/load")
	}
	for _, way := range ways {
		s.expectHistory(true)
		r, err := s.sessionCall(ctx, way, resumed)
		s.expectHistory(err == nil)
		if err == nil && way == "session/load" {
			err = s.awaitHistory(ctx)
		}
		if err == nil {
			r.SessionID = s.spec.Resume
			s.setResumed(true)
			return r, nil
		}
		if fatal(err) {
			return nil, err
		}
		s.log.Info("acp: the session could not be resumed", "by", way, "error", s.redact.Text(err.Error()))
	}
	s.setResumed(false)
	return s.sessionCall(ctx, "session/new", params)
}

const (
	historyQuiet = 300 * time.Millisecond // the silence that ends a history
	historyMost  = 10 * time.Second
	historyLook  = 25 * time.Millisecond
)

// awaitHistory waits until a load has sent the history. It should have when it answers, but gemini answers first.
func (s *session) awaitHistory(ctx context.Context) error {
	look := time.NewTicker(historyLook)
	defer look.Stop()
	began, last, seen := time.Now(), time.Now(), -1
	for {
		s.mu.Lock()
		n := s.t.replayed
		s.mu.Unlock()
		now := time.Now()
		if n != seen {
			seen, last = n, now
		}
		if now.Sub(last) >= historyQuiet || now.Sub(began) >= historyMost {
			return nil
		}
		select {
		case <-look.C:
		case <-s.ended:
			return errGone
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fatal reports whether an error of a resume ends the start: another way would not help.
func fatal(err error) bool {
	e, ok := errors.AsType[*transport.Error](err)
	return !ok || e.Code == codeAuthRequired
}

// expectHistory says that the updates of the session to be resumed are its history, or, after a failure, that they belong to nothing.
func (s *session) expectHistory(on bool) {
	s.do(func(t *translator) {
		if on {
			t.session, t.phase = s.spec.Resume, replaying
		} else {
			t.session, t.phase = "", connecting
		}
	})
}

func (s *session) setResumed(b bool) { s.do(func(t *translator) { t.resumed = &b }) }

func (s *session) sessionCall(ctx context.Context, method string, params object) (*sessionResult, error) {
	raw, err := s.call(ctx, s.driver.opts.SessionTimeout, method, params)
	if err != nil {
		return nil, err
	}
	var r sessionResult
	lenient(raw, &r) // the answer to a load may be null
	if method == "session/new" && r.SessionID == "" {
		return nil, &harness.Error{Category: protocol.CategoryInternal, Message: s.t.name + " answered session/new without a session id: it is no working ACP agent; use another version of it"}
	}
	return &r, nil
}

func (s *session) sessionParams() object {
	c := &s.spec.Config
	params := object{"cwd": c.Cwd, "mcpServers": s.mcpServers(c.MCPServers)}
	if len(c.AdditionalDirectories) > 0 {
		if present(s.agent.Capabilities.Session.AdditionalDirectories) {
			params["additionalDirectories"] = c.AdditionalDirectories
		} else {
			s.cannot("additionalDirectories", "the agent takes none; start it in a folder that holds them all")
		}
	}
	return params
}

// mcpServers returns the servers in ACP's form: those of a kind that the agent takes. A stdio server has no type.
func (s *session) mcpServers(servers map[string]protocol.MCPServer) []any {
	list := []any{}
	mcp := s.agent.Capabilities.MCP
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		m := servers[name]
		switch {
		case m.Type == protocol.MCPStdio:
			list = append(list, object{"name": name, "command": m.Command, "args": append([]string{}, m.Args...), "env": pairs(m.Env)})
		case m.Type == protocol.MCPHTTP && mcp.HTTP, m.Type == protocol.MCPSSE && mcp.SSE:
			list = append(list, object{"type": m.Type, "name": name, "url": m.URL, "headers": pairs(m.Headers)})
		default:
			s.cannot("mcpServers."+name, "the agent takes no MCP server of type "+m.Type+"; use one of type stdio")
		}
	}
	return list
}

func pairs(m map[string]string) []any {
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, object{"name": name, "value": m[name]})
	}
	return list
}

// cannot reports, once, a field of the configuration that this agent cannot honour.
func (s *session) cannot(field, why string) {
	s.do(func(t *translator) {
		if s.told[field+why] {
			return
		}
		s.told[field+why] = true
		t.emit(harness.Failure{Category: protocol.CategoryInvalidRequest, Message: "config." + field + ": " + t.redact.Text(why)})
	})
}

// authenticate logs in, if the operator has said how; else it says what can be done.
func (s *session) authenticate(ctx context.Context, asked *transport.Error) error {
	methods := s.agent.AuthMethods
	var data struct {
		Methods []authMethod `json:"authMethods"`
	}
	if lenient(asked.Data, &data) && len(data.Methods) > 0 {
		methods = data.Methods
	}
	want := s.driver.opts.AuthMethod
	i := slices.IndexFunc(methods, func(m authMethod) bool { return m.ID == want })
	switch {
	case want == "":
		return s.authError(asked, methods, "")
	case i >= 0 && !methods[i].automatic():
		return s.authError(asked, methods, "the configured method "+want+" needs a terminal; ")
	}
	if _, err := s.call(ctx, s.driver.opts.AuthTimeout, "authenticate", object{"methodId": want}); err != nil {
		e, ok := errors.AsType[*transport.Error](err)
		if !ok {
			return err
		}
		return s.authError(e, methods, "the login by "+want+" failed; ")
	}
	return nil
}

func (s *session) authError(e *transport.Error, methods []authMethod, why string) error {
	var names []string
	for _, m := range methods {
		name := m.ID
		if m.Name != "" && m.Name != m.ID {
			name += " (" + m.Name + ")"
		}
		if !m.automatic() {
			name += ", in a terminal"
		}
		names = append(names, name)
	}
	message := s.t.name + " needs a login: " + errorText(e) + "; " + why + authAdvice
	if len(names) > 0 {
		message += ". It offers: " + strings.Join(names, "; ")
	}
	return &harness.Error{Category: protocol.CategoryAuth, Message: s.redact.Text(message), Err: e}
}

// startError explains why no session came about.
func (s *session) startError(err error, step string) error {
	var agentError *transport.Error
	switch _, explained := errors.AsType[*harness.Error](err); {
	case explained:
		return err
	case errors.Is(err, errGone):
		return s.startFailure()
	case errors.Is(err, context.DeadlineExceeded):
		return &harness.Error{Category: protocol.CategoryProcessExit, Err: err, Message: fmt.Sprintf(
			"%s did not answer %s in time%s: check that the command is an ACP agent, and that it runs on this machine", s.t.name, step, s.lastWords())}
	case errors.As(err, &agentError):
		text := s.redact.Text(errorText(agentError))
		if agentError.Code == codeAuthRequired {
			return s.authError(agentError, s.agent.AuthMethods, "")
		}
		return &harness.Error{Category: classify(agentError.Code, text), Err: err, Message: s.t.name + " refused " + step + ": " + text + s.lastWords()}
	}
	return err
}

// dropped are variables that an agent above us has set for its own children, and that would confuse this one.
var dropped = []string{
	"CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_ENTRYPOINT",
	"CLAUDE_EFFORT", "CLAUDE_CODE_EFFORT_LEVEL", "GEMINI_CLI", "QWEN_CODE", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "OPENCODE", "NODE_OPTIONS", "DEBUG",
}

// environment returns the agent's environment.
func environment(spec harness.Spec, opts *Options) []string {
	drop := process.Names(dropped...)
	isKey := func(string) bool { return false }
	set := map[string]string{}
	for name, value := range opts.Env {
		if _, ok := lookup(spec.Env, name); !ok {
			set[name] = value
		}
	}
	if spec.Config.APIKey != "" {
		isKey = process.Names(opts.APIKeyVars...)
		for _, name := range opts.APIKeyVars {
			set[name] = spec.Config.APIKey
		}
	}
	return process.Env(spec.Env, func(name string) bool {
		_, asked := spec.Config.Env[name] // what the client itself asked for
		return isKey(name) || drop(name) && !asked
	}, set)
}

// secrets returns every value that must not be shown: those of the config, and what looks like a credential in the environment.
func secrets(spec harness.Spec, keyVars []string) []string {
	all := spec.Config.Secrets()
	for _, entry := range spec.Env {
		name, value, _ := strings.Cut(entry, "=")
		upper := strings.ToUpper(name)
		if value != "" && (slices.Contains(keyVars, name) || strings.HasSuffix(upper, "_KEY") || strings.HasSuffix(upper, "_TOKEN") || strings.HasSuffix(upper, "_SECRET") ||
			strings.HasSuffix(upper, "PASSWORD")) {
			all = append(all, value)
		}
	}
	return all
}

// lookup returns the value of a variable in env; the last entry wins.
func lookup(env []string, name string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}
