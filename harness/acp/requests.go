package acp

import (
	"context"
	"encoding/json"

	"agentserver/internal/transport"
)

// notification takes one of the agent's notifications, on the read loop.
func (s *session) notification(n *transport.Notification) {
	switch n.Method {
	case "session/update":
		s.do(func(t *translator) { t.update(n.Params) })
	case "$/cancel_request":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if lenient(n.Params, &p) {
			s.do(func(t *translator) { t.withdraw(string(p.RequestID)) })
		}
	default:
		s.do(func(t *translator) { t.strange("notification", n.Method) })
	}
}

// request takes one of the agent's requests, on the read loop. Permissions are answered by the engine, whenever that does.
func (s *session) request(_ context.Context, r *transport.Request) (any, error) {
	switch r.Method {
	case "session/request_permission":
		s.do(func(t *translator) { t.permission(r.ID(), r.Params, func(result any) { _ = r.Reply(result, nil) }) })
		return r.Later()
	case "fs/read_text_file", "fs/write_text_file":
		if s.driver.opts.ServeFS {
			return r.Go(s.serveFile)
		}
	}
	s.do(func(t *translator) { t.strange("request", r.Method) })
	return nil, &transport.Error{Code: codeMethodNotFound, Message: "Method not found: this client does not have " + r.Method}
}
