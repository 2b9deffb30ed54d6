package acp

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"agentserver/internal/transport"
	"agentserver/protocol"
)

type (
	object  = map[string]any
	jsonRaw = json.RawMessage
)

// The error codes of ACP.
const (
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeAuthRequired   = -32000
	codeNotFound       = -32002
)

func failure(code int64, message string) *transport.Error {
	return &transport.Error{Code: code, Message: message}
}

// wireError gives the engine's errors ACP's codes.
func wireError(err error) *transport.Error {
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return e
	}
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		return failure(codeInternal, "internal error")
	}
	out := failure(codeInternal, e.Message)
	switch e.Code {
	case protocol.CodeInvalidParams:
		out.Code = codeInvalidParams
	case protocol.CodeUnknownSession:
		out.Code = codeNotFound
	case protocol.CodeTurnActive:
		out.Code = codeInvalidRequest
	}
	if e.Data != nil {
		out.Data, _ = json.Marshal(e.Data)
	}
	return out
}

func decode(raw []byte, v any) bool { return len(raw) > 0 && json.Unmarshal(raw, v) == nil }

// params are the params of all methods.
type params struct {
	SessionID             protocol.SessionID `json:"sessionId"`
	Cwd                   string             `json:"cwd"`
	MCPServers            []mcpServer        `json:"mcpServers"`
	AdditionalDirectories []string           `json:"additionalDirectories"`
	ModeID                string             `json:"modeId"`
	ConfigID              string             `json:"configId"`
	Value                 any                `json:"value"`
	Prompt                []contentBlock     `json:"prompt"`
	ClientCapabilities    clientCapabilities `json:"clientCapabilities"`
}

type mcpServer struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Command string `json:"command"`
	Args    []string
	Env     []pair `json:"env"`
	URL     string `json:"url"`
	Headers []pair `json:"headers"`
}

type pair struct{ Name, Value string }

// request takes one of the editor's requests, on the read loop: so a cancel finds the turn of the prompt before it.
func (s *server) request(_ context.Context, r *transport.Request) (any, error) {
	var p params
	if len(r.Params) > 0 && json.Unmarshal(r.Params, &p) != nil {
		return nil, failure(codeInvalidParams, "the params of "+r.Method+" are not as the protocol has them")
	}
	switch r.Method {
	case "initialize":
		return s.initialize(&p), nil
	case "authenticate":
		return nil, failure(codeInvalidParams, "there is nothing to log in to: the harness has its own credentials, on this machine")
	case "session/new":
		return s.newSession(&p)
	case "session/load":
		return s.loadSession(&p)
	case "session/resume":
		return s.resumeSession(&p)
	case "session/close":
		return s.closeSession(r, &p)
	case "session/set_mode":
		return s.setOption(&p, "mode", p.ModeID, false)
	case "session/set_config_option":
		value, _ := p.Value.(string)
		return s.setOption(&p, p.ConfigID, value, true)
	case "session/prompt":
		return s.prompt(r, &p)
	}
	return nil, failure(codeMethodNotFound, "Method not found: "+r.Method)
}

func (s *server) notification(n *transport.Notification) {
	var p params
	if n.Method != "session/cancel" || !decode(n.Params, &p) {
		return
	}
	v := s.session(p.SessionID)
	if v == nil {
		return
	}
	turn := v.running()
	if turn == "" {
		return
	}
	s.async(func() { _, _ = s.rt.Cancel(s.ctx, protocol.TurnCancelParams{SessionID: v.id, TurnID: turn}) })
}

func (s *server) initialize(p *params) any {
	s.mu.Lock()
	s.client = p.ClientCapabilities
	s.mu.Unlock()
	session := object{"close": object{}, "additionalDirectories": object{}}
	if s.caps.SessionResume {
		session["resume"] = object{}
	}
	if slices.Contains(s.caps.Unsupported, "additionalDirectories") {
		delete(session, "additionalDirectories")
	}
	return object{
		"protocolVersion": version,
		"agentCapabilities": object{
			"loadSession":         true,
			"promptCapabilities":  object{"image": s.caps.Images, "audio": false, "embeddedContext": true},
			"mcpCapabilities":     object{"http": s.caps.MCPServers, "sse": s.caps.MCPServers},
			"sessionCapabilities": session,
		},
		"agentInfo":   object{"name": "agent-server", "title": "Agent Server (" + string(s.harness) + ")", "version": "1"},
		"authMethods": []any{},
	}
}

func (s *server) newSession(p *params) (any, error) {
	v, err := s.openSession(protocol.SessionID(protocol.NewID()), p)
	if err != nil {
		return nil, err
	}
	return v.state(object{"sessionId": v.id}), nil
}

// openSession adds a session, or gives one that is there another configuration.
func (s *server) openSession(id protocol.SessionID, p *params) (*session, error) {
	if info, err := os.Stat(p.Cwd); !filepath.IsAbs(p.Cwd) || err != nil || !info.IsDir() {
		return nil, failure(codeInvalidParams, "cwd must be the absolute path of a folder that is there")
	}
	config := protocol.RunConfig{Harness: s.harness, Cwd: p.Cwd, AdditionalDirectories: p.AdditionalDirectories, PermissionMode: protocol.ModeDefault}
	for _, m := range p.MCPServers {
		if config.MCPServers == nil {
			config.MCPServers = map[string]protocol.MCPServer{}
		}
		config.MCPServers[m.Name] = m.config()
	}
	if errs := config.Check("session"); errs != nil {
		return nil, failure(codeInvalidParams, errs[0].Path+": "+errs[0].Message)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.sessions[id]
	if v == nil {
		v = newSession(id, s.caps.ThinkingLevels)
		s.sessions[id] = v
	}
	v.setConfig(config)
	all := make([]protocol.SessionID, 0, len(s.sessions))
	for id := range s.sessions {
		all = append(all, id)
	}
	s.follower.FollowOnly(all)
	return v, nil
}

func (m *mcpServer) config() protocol.MCPServer {
	if m.Type == protocol.MCPHTTP || m.Type == protocol.MCPSSE {
		return protocol.MCPServer{Type: m.Type, URL: m.URL, Headers: table(m.Headers)}
	}
	return protocol.MCPServer{Type: protocol.MCPStdio, Command: m.Command, Args: m.Args, Env: table(m.Env)}
}

func table(pairs []pair) map[string]string {
	if len(pairs) == 0 {
		return nil
	}
	m := make(map[string]string, len(pairs))
	for _, p := range pairs {
		m[p.Name] = p.Value
	}
	return m
}

// loadSession replays the log of a session of this process. The updates are on their way before the answer is.
func (s *server) loadSession(p *params) (any, error) {
	if s.session(p.SessionID) == nil {
		return nil, failure(codeNotFound, "this process has no session "+string(p.SessionID)+": begin a new one, or resume one of the harness's own by session/resume")
	}
	v, err := s.openSession(p.SessionID, p)
	if err != nil {
		return nil, err
	}
	if v.running() != "" {
		return nil, failure(codeInvalidRequest, "a prompt is running in the session: cancel it first")
	}
	log, err := s.rt.Replay(protocol.EventsReplayParams{SessionID: v.id, FromSeq: 1})
	if errors.Is(err, protocol.ErrUnknownSession) {
		return v.state(object{}), nil // there was no prompt yet
	} else if err != nil {
		return nil, err
	}
	history := newSession(v.id, nil)
	for _, env := range log.Events {
		for _, u := range history.translate(env.Event, true) {
			text, err := transport.EncodeNotification("session/update", object{"sessionId": v.id, "update": u})
			if err == nil {
				err = s.conn.Send(s.ctx, text)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return v.state(object{}), nil
}

// resumeSession goes on with a session of this process, or with one that the harness has kept.
func (s *server) resumeSession(p *params) (any, error) {
	known := s.session(p.SessionID) != nil
	if !known && (!s.caps.SessionResume || p.SessionID == "") {
		return nil, failure(codeNotFound, "this process has no such session, and the harness resumes none")
	}
	v, err := s.openSession(p.SessionID, p)
	if err != nil {
		return nil, err
	}
	if !known {
		v.resumeNative(string(p.SessionID))
	}
	return v.state(object{}), nil
}

func (s *server) closeSession(r *transport.Request, p *params) (any, error) {
	s.mu.Lock()
	v := s.sessions[p.SessionID]
	s.mu.Unlock()
	if v == nil {
		return object{}, nil
	}
	s.async(func() {
		s.endSession(s.ctx, v.id)
		s.mu.Lock()
		delete(s.sessions, v.id)
		s.mu.Unlock()
		_ = r.Reply(object{}, nil)
	})
	return r.Later()
}

func (s *server) setOption(p *params, id, value string, withState bool) (any, error) {
	v := s.session(p.SessionID)
	if v == nil {
		return nil, failure(codeNotFound, "there is no session "+string(p.SessionID))
	}
	if !v.set(id, value) {
		return nil, failure(codeInvalidParams, "the session has no option "+id+" with the value "+value)
	}
	if withState {
		if id == "mode" {
			_ = s.conn.Notify(s.ctx, "session/update", object{"sessionId": v.id, "update": object{"sessionUpdate": "current_mode_update", "currentModeId": value}})
		}
		return object{"configOptions": v.options()}, nil
	}
	_ = s.conn.Notify(s.ctx, "session/update", object{"sessionId": v.id, "update": object{"sessionUpdate": "config_option_update", "configOptions": v.options()}})
	return object{}, nil
}

// prompt starts a turn; its end is the answer.
func (s *server) prompt(r *transport.Request, p *params) (any, error) {
	v := s.session(p.SessionID)
	if v == nil {
		return nil, failure(codeNotFound, "there is no session "+string(p.SessionID))
	}
	input, err := promptInput(p.Prompt)
	if err != nil {
		return nil, err
	}
	turn := protocol.TurnID(protocol.NewID())
	if !v.begin(turn, r) {
		return nil, failure(codeInvalidRequest, "a prompt is running in the session: wait for its end, or cancel it")
	}
	if _, err := s.rt.StartTurn(s.ctx, protocol.TurnStartParams{SessionID: v.id, TurnID: turn, Input: input, Config: v.configuration()}); err != nil {
		v.end(turn)
		return nil, err
	}
	return r.Later()
}

// turnEnded answers the prompt of a turn. A turn that the agent began by itself has none.
func (s *server) turnEnded(v *session, e *protocol.TurnEnded) {
	r := v.end(e.TurnID)
	if r == nil {
		return
	}
	if e.StopReason == protocol.StopError && e.Error != nil {
		code := int64(codeInternal)
		if e.Error.Category == protocol.CategoryAuth {
			code = codeAuthRequired
		}
		data, _ := json.Marshal(object{"category": e.Error.Category})
		_ = r.Reply(nil, &transport.Error{Code: code, Message: e.Error.Message, Data: data})
		return
	}
	result := object{"stopReason": stopReason(e.StopReason)}
	if t := e.Tokens; t != nil {
		usage := object{"inputTokens": t.Input, "outputTokens": t.Output, "thoughtTokens": t.Reasoning}
		total := t.Input + t.Output
		if t.Cache != nil {
			usage["cachedReadTokens"], usage["cachedWriteTokens"] = t.Cache.Read, t.Cache.Write
			total += t.Cache.Read + t.Cache.Write
		}
		usage["totalTokens"] = total
		result["usage"] = usage
	}
	_ = r.Reply(result, nil)
}

func stopReason(r protocol.StopReason) protocol.StopReason {
	switch r {
	case protocol.StopMaxTokens, protocol.StopMaxTurnRequests, protocol.StopRefusal, protocol.StopCancelled:
		return r
	}
	return protocol.StopEndTurn
}
