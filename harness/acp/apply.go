package acp

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	"agentserver/harness"
	"agentserver/internal/transport"
	"agentserver/protocol"
)

// Apply implements [harness.Session]. Model, mode, thinking level, permissionRequests and includeRaw change while the agent runs; the rest needs a
// fresh one.
func (s *session) Apply(ctx context.Context, spec harness.Spec) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	old, native, unusable := s.spec.Config, s.t.session, s.gone || s.t.badAuth
	s.mu.Unlock()
	if unusable || needsRestart(&old, &spec.Config, native) {
		return harness.ErrRestart
	}
	s.mu.Lock()
	s.spec = spec
	s.t.raw, s.t.asks = spec.Config.IncludeRaw, spec.Config.AsksPermission()
	s.mu.Unlock()
	err := s.applySettings(ctx, spec.Config)
	if errors.Is(err, errGone) {
		return harness.ErrRestart
	}
	return err
}

func needsRestart(old, next *protocol.RunConfig, native string) bool {
	resumesOther := next.ResumeSessionID != old.ResumeSessionID && next.ResumeSessionID != native
	return resumesOther || next.Cwd != old.Cwd || next.APIKey != old.APIKey || !maps.Equal(next.Env, old.Env) ||
		!slices.Equal(next.AdditionalDirectories, old.AdditionalDirectories) || !reflect.DeepEqual(next.MCPServers, old.MCPServers)
}

// applySettings brings the agent's settings to what the configuration asks for. What the agent does not have is reported, and does not fail the
// turn. The model comes first: the thinking levels may be those of a model.
func (s *session) applySettings(ctx context.Context, c protocol.RunConfig) error {
	if err := s.applyModel(ctx, c.Model); err != nil {
		return err
	}
	if err := s.applyThinking(ctx, c.ThinkingLevel); err != nil {
		return err
	}
	return s.applyMode(ctx, c.PermissionMode)
}

// setting returns what the agent has of a kind, and what it was at the start of the session.
func (s *session) setting(kind settingKind) (c choice, initial string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok = s.t.settings.find(kind)
	return c, s.t.settings.initial[kind], ok
}

func (s *session) applyModel(ctx context.Context, model string) error {
	c, initial, ok := s.setting(kindModel)
	value := initial
	switch {
	case model == "" && !ok:
		return nil
	case !ok:
		s.cannot("model", "the agent lets nobody choose its model; leave the field out, and set the model in the agent's own settings")
		return nil
	case model != "":
		if value, ok = c.pick(model); !ok {
			s.cannot("model", "the agent does not list "+model+"; it has: "+c.list())
			return nil
		}
	}
	return s.set(ctx, "model", &c, value)
}

func (s *session) applyThinking(ctx context.Context, level protocol.ThinkingLevel) error {
	c, initial, ok := s.setting(kindThought)
	value := initial
	switch {
	case level == "" && !ok, !slices.Contains(s.driver.opts.ThinkingLevels, level) && level != "": // the engine has reported it
		return nil
	case !ok:
		s.cannot("thinkingLevel", "the agent, or its model, has no such setting; leave the field out")
		return nil
	case level != "":
		if value, ok = c.pick(thoughtWords[level]...); !ok {
			s.cannot("thinkingLevel", "the agent does not list "+string(level)+"; it has: "+c.list())
			return nil
		}
	}
	return s.set(ctx, "thinkingLevel", &c, value)
}

// applyMode sets the agent's mode. Where it has none that fits, the translator answers permission requests in its stead, which is all that accept_edits,
// dont_ask and bypass_permissions need of an agent that asks.
func (s *session) applyMode(ctx context.Context, mode protocol.PermissionMode) error {
	c, initial, ok := s.setting(kindMode)
	native := false
	if ok {
		value, fits := wantedMode(&c, initial, mode)
		if fits {
			err := s.set(ctx, "", &c, value)
			if _, refused := errors.AsType[*transport.Error](err); err != nil && !refused {
				return err
			}
			native = err == nil
		}
	}
	s.do(func(t *translator) { t.mode, t.native = mode, native })
	if mode == protocol.ModePlan && !native {
		s.cannot("permissionMode", "the agent has no plan mode; ask for a plan in the prompt")
	}
	return nil
}

// wantedMode returns the agent's word for a mode. A turn that names none wants what the session began with, unless the agent judges for itself
// there: then it wants to be asked.
func wantedMode(c *choice, initial string, mode protocol.PermissionMode) (string, bool) {
	if mode != "" {
		return c.pick(modeWords[mode]...)
	}
	if slices.Contains(ownJudgement, initial) {
		if asks, ok := c.pick(modeWords[protocol.ModeDefault]...); ok {
			return asks, true
		}
	}
	return initial, initial != ""
}

// set changes one setting, if it is another. A refusal is reported for the field; for a field without a name it is returned.
func (s *session) set(ctx context.Context, field string, c *choice, value string) error {
	if value == "" || value == c.current {
		return nil
	}
	s.mu.Lock()
	native := s.t.session
	s.mu.Unlock()
	raw, err := s.call(ctx, s.driver.opts.SettingTimeout, c.method, c.params(native, value))
	if err == nil {
		s.do(func(t *translator) {
			t.settings.note(c, value)
			var r struct {
				ConfigOptions []configOption `json:"configOptions"`
			}
			if lenient(raw, &r) && r.ConfigOptions != nil {
				t.settings.options = r.ConfigOptions
			}
		})
		return nil
	}
	refused, ok := errors.AsType[*transport.Error](err)
	switch {
	case ok && field == "":
		return err
	case ok:
		s.cannot(field, "the agent refused "+value+": "+errorText(refused))
		return nil
	case errors.Is(err, errGone):
		return s.startFailure()
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return &harness.Error{Category: protocol.CategoryInternal, Err: err, Message: s.t.name + " did not answer " + c.method + " in time" + s.lastWords()}
	}
	return err
}
