package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"agentserver/harness"
	"agentserver/protocol"
)

// An Admission is a turn that was admitted and has not begun. It holds the session until [Admission.Begin] is called, or AckTimeout is over.
type Admission struct {
	// Result is the ack of `turn/start`.
	Result protocol.TurnStartResult

	session *session
	turn    *turn // nil when nothing is to run
}

// Begin lets the turn run: its first event is appended after the call, never before. Whoever owes somebody the ack calls it when the ack is on its
// way and cannot be overtaken by that event, and calls it also when the ack cannot be sent. It is idempotent.
func (a *Admission) Begin() {
	if a.turn != nil {
		a.session.do(func() { a.session.begin(a.turn) })
	}
}

// Admit checks a turn and gives it its session. Nothing is started before [Admission.Begin]. A turn that was admitted before gives an Admission
// with nothing to begin.
func (r *Runtime) Admit(_ context.Context, p protocol.TurnStartParams) (*Admission, error) {
	if errs := p.Check(); errs != nil {
		return nil, protocol.InvalidParams(errs...)
	}
	t := &turn{id: p.TurnID, input: p.Input, config: p.Config}
	var err error
	if t.identity, err = identify(&p); err != nil {
		return nil, protocol.AsError(err)
	}
	// A repeated request must be recognized whatever has become of the machine since, so this goes before the checks.
	if p.SessionID != "" && p.TurnID != "" {
		var again *Admission
		r.on(p.SessionID, func(s *session) { again, err = s.recall(t) })
		if again != nil || err != nil {
			return again, err
		}
	}
	h := r.opts.Registry.Get(p.Config.Harness)
	if h == nil {
		return nil, protocol.HarnessNotAvailable(p.Config.Harness, r.opts.Registry.IDs())
	}
	if errs := r.check(&p, h.Capabilities()); len(errs) > 0 {
		return nil, protocol.InvalidParams(errs...)
	}
	if t.id == "" {
		t.id = protocol.TurnID(protocol.NewID())
	}
	id := p.SessionID
	if id == "" {
		id = protocol.SessionID(protocol.NewID())
	}
	return r.admit(id, h, t)
}

// admit hands t to its session, which may be closed and made anew meanwhile.
func (r *Runtime) admit(id protocol.SessionID, h harness.Harness, t *turn) (*Admission, error) {
	if !r.acquire() {
		return nil, protocol.Overloaded("turns at the same time", r.opts.MaxTurns)
	}
	for {
		s, err := r.obtain(id, h)
		if err != nil {
			r.release()
			return nil, err
		}
		var a *Admission
		if !s.do(func() { a, err = s.admit(h, t) }) {
			continue // it was closed just now
		}
		if err != nil || a.turn == nil {
			r.release()
		}
		return a, err
	}
}

// identify returns what tells one turn's input and config from another's: a hash of their JSON, in which every field has its fixed place and
// maps are sorted.
func identify(p *protocol.TurnStartParams) ([sha256.Size]byte, error) {
	data, err := json.Marshal(struct {
		Input  protocol.Input
		Config protocol.RunConfig
	}{p.Input, p.Config})
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("the input cannot be encoded: %w", err)
	}
	return sha256.Sum256(data), nil
}

// check looks at what only this machine and this harness can tell. Nothing was spawned when it fails.
func (r *Runtime) check(p *protocol.TurnStartParams, caps protocol.Capabilities) []protocol.FieldError {
	errs := r.opts.checkEnv(p.Config.Env)
	if info, err := os.Stat(p.Config.Cwd); err != nil {
		errs = append(errs, protocol.FieldError{Path: "config.cwd", Message: fmt.Sprintf("%q cannot be used: create it or give another directory", p.Config.Cwd)})
	} else if !info.IsDir() {
		errs = append(errs, protocol.FieldError{Path: "config.cwd", Message: fmt.Sprintf("%q is not a directory", p.Config.Cwd)})
	}
	return append(errs, checkInput(p.Input, p.Config.Harness, caps)...)
}

func checkInput(in protocol.Input, id protocol.HarnessID, caps protocol.Capabilities) []protocol.FieldError {
	var errs []protocol.FieldError
	for i, item := range in {
		bad := func(what string) {
			errs = append(errs, protocol.FieldError{Path: fmt.Sprintf("input[%d]", i), Message: fmt.Sprintf("harness %q takes no %s", id, what)})
		}
		switch {
		case item.Type == protocol.PartImage && !caps.Images:
			bad("images")
		case item.Type == protocol.PartFile && !caps.Files:
			bad("files")
		case item.URL != "" && !caps.ImageURLs:
			bad("urls; send the content as data")
		}
	}
	return errs
}

// unsupported returns the fields of c that are set and that a harness cannot honour, by their wire names, sorted.
func unsupported(c *protocol.RunConfig, caps protocol.Capabilities) []string {
	var names []string
	for name, used := range map[string]bool{
		"model":                 c.Model != "",
		"thinkingLevel":         c.ThinkingLevel != "",
		"permissionMode":        c.PermissionMode != "",
		"additionalDirectories": len(c.AdditionalDirectories) > 0,
		"systemPromptAppend":    c.SystemPromptAppend != "",
		"maxTurns":              c.MaxTurns != nil,
		"resumeSessionId":       c.ResumeSessionID != "",
		"resumeSessionAt":       c.ResumeSessionAt != "",
		"mcpServers":            len(c.MCPServers) > 0,
		"env":                   len(c.Env) > 0,
		"apiKey":                c.APIKey != "",
		"disableTools":          c.DisableTools,
		"permissionRequests":    c.PermissionRequests != nil,
		"includeRaw":            c.IncludeRaw,
	} {
		if used && cannot(name, c, caps) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// cannot reports whether a harness cannot honour a field that is set: because it says so, or because of what its capabilities say.
func cannot(name string, c *protocol.RunConfig, caps protocol.Capabilities) bool {
	if slices.Contains(caps.Unsupported, name) {
		return true
	}
	switch name {
	case "mcpServers":
		return !caps.MCPServers
	case "thinkingLevel":
		return !slices.Contains(caps.ThinkingLevels, c.ThinkingLevel)
	case "resumeSessionId", "resumeSessionAt":
		return !caps.SessionResume
	case "permissionRequests":
		return *c.PermissionRequests && !caps.PermissionRequests
	}
	return false
}
