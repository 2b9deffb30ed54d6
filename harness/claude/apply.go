package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"agentserver/harness"
	"agentserver/protocol"
)

// Apply implements [harness.Session]. The model, the MCP servers and includeRaw change while the CLI runs; the rest needs a fresh one.
func (s *session) Apply(ctx context.Context, spec harness.Spec) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	old, mode, native, unusable := s.spec.Config, s.t.mode, s.t.native, s.gone || s.t.badAuth
	s.mu.Unlock()
	next := spec.Config
	if unusable || needsRestart(&old, &next, native) {
		return harness.ErrRestart
	}
	if next.Model != old.Model {
		if err := s.setModel(ctx, next.Model); err != nil {
			return err
		}
	}
	if want := modes[next.PermissionMode]; want != "" && mode != "" && mode != want {
		if err := s.setMode(ctx, want); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(old.MCPServers, next.MCPServers) {
		if err := s.setServers(ctx, next, true); err != nil {
			return restartIfGone(err)
		}
	}
	s.mu.Lock()
	s.spec = spec
	s.t.raw = next.IncludeRaw
	s.mu.Unlock()
	return nil
}

func needsRestart(old, next *protocol.RunConfig, native string) bool {
	resumesOther := next.ResumeSessionID != old.ResumeSessionID && next.ResumeSessionID != native
	return resumesOther || next.ResumeSessionAt != old.ResumeSessionAt ||
		next.Cwd != old.Cwd || next.APIKey != old.APIKey || next.ThinkingLevel != old.ThinkingLevel || next.PermissionMode != old.PermissionMode ||
		next.SystemPromptAppend != old.SystemPromptAppend || next.DisableTools != old.DisableTools || next.AsksPermission() != old.AsksPermission() ||
		!slices.Equal(next.AdditionalDirectories, old.AdditionalDirectories) || !maps.Equal(next.Env, old.Env) || !equalInt(next.MaxTurns, old.MaxTurns)
}

func equalInt(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func restartIfGone(err error) error {
	if errors.Is(err, errGone) {
		return harness.ErrRestart
	}
	return err
}

func (s *session) setModel(ctx context.Context, model string) error {
	r := object{"subtype": "set_model"}
	if model != "" {
		r["model"] = model // without it the CLI goes back to its default
	}
	if _, err := s.request(ctx, r); err != nil {
		return restartIfGone(fmt.Errorf("claude did not take config.model: %w", err))
	}
	return nil
}

// setMode brings the CLI back to the mode that the turn asks for, after an approved plan has left it, or the model has begun one by itself.
func (s *session) setMode(ctx context.Context, mode string) error {
	_, err := s.request(ctx, object{"subtype": "set_permission_mode", "mode": mode})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errGone) || ctx.Err() != nil || mode == modes[protocol.ModePlan]:
		return restartIfGone(fmt.Errorf("claude did not take the permission mode %s: %w", mode, err))
	}
	s.notice("claude did not take the permission mode " + mode + ": " + s.redact.Text(err.Error()))
	return nil
}

// setServers connects the MCP servers of the config in place of those before. They are not given by argv, where every user of the machine could
// read their secrets.
func (s *session) setServers(ctx context.Context, c protocol.RunConfig, always bool) error {
	if c.DisableTools || len(c.MCPServers) == 0 && !always {
		return nil
	}
	sctx, cancel := context.WithTimeout(ctx, s.driver.opts.MCPTimeout)
	defer cancel()
	servers := c.MCPServers
	if servers == nil {
		servers = map[string]protocol.MCPServer{}
	}
	body, err := s.request(sctx, object{"subtype": "mcp_set_servers", "servers": servers})
	switch {
	case err == nil:
		s.serverErrors(body)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errGone):
		return s.startFailure()
	case errors.Is(err, context.DeadlineExceeded):
		s.notice(fmt.Sprintf("the MCP servers of config.mcpServers were not all connected within %s; tools may be missing", s.driver.opts.MCPTimeout))
		return nil
	}
	return &harness.Error{Category: protocol.CategoryInvalidRequest, Err: err, Message: "claude did not take config.mcpServers: " + err.Error()}
}

// serverErrors tells which servers could not be connected. The turn goes on without them.
func (s *session) serverErrors(body json.RawMessage) {
	var r struct {
		Errors map[string]string `json:"errors"`
	}
	_ = json.Unmarshal(body, &r) // an older or newer answer names no errors
	for _, name := range slices.Sorted(maps.Keys(r.Errors)) {
		s.mu.Lock()
		s.t.serverState(serverState{Name: name, Status: "failed", Error: firstLine(r.Errors[name])})
		s.collect()
		s.mu.Unlock()
	}
}

func (s *session) notice(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.emit(harness.Notice{Kind: protocol.NoticeWarning, Message: message})
	s.collect()
}
