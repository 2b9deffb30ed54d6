package acp

import (
	"encoding/json"

	"agentserver/protocol"
)

// translate returns the updates that tell an event. The echo of a prompt is told only where the history is replayed.
func (v *session) translate(event protocol.Event, replay bool) []any {
	switch e := event.(type) {
	case *protocol.MessageStarted:
		if e.Role == protocol.RoleUser {
			v.user[e.MessageID] = true
		} else if e.ParentToolCallID != "" {
			v.subs[e.MessageID] = true
		}
	case *protocol.MessageEnded:
		delete(v.user, e.MessageID)
	case *protocol.MessagePartDelta:
		return v.delta(e)
	case *protocol.MessagePart:
		return v.part(e, replay)
	case *protocol.SessionUsage:
		u := object{"sessionUpdate": "usage_update", "used": e.Used, "size": e.Size}
		if e.Cost != nil {
			u["cost"] = object{"amount": e.Cost.Amount, "currency": orElse(e.Cost.Currency, "USD")}
		}
		return []any{u}
	case *protocol.SessionCreated:
		if e.Resumed != nil && !*e.Resumed {
			return []any{note("The earlier conversation could not be continued; this one begins anew.")}
		}
	case *protocol.ErrorEvent:
		return []any{note(e.Message)}
	case *protocol.TurnEnded:
		clear(v.sent)
	}
	return nil
}

// note tells something that is not the model's as a thought: ACP has no stable place for it.
func note(text string) object {
	return object{"sessionUpdate": "agent_thought_chunk", "content": textBlock(text + "\n")}
}

func orElse(s, alternative string) string {
	if s == "" {
		return alternative
	}
	return s
}

func textBlock(text string) object { return object{"type": "text", "text": text} }

func chunk(kind string, content object, id protocol.MessageID) object {
	return object{"sessionUpdate": kind, "content": content, "messageId": id}
}

func (v *session) delta(e *protocol.MessagePartDelta) []any {
	var kind, text string
	switch d := e.Delta.(type) {
	case *protocol.TextDelta:
		kind, text = "agent_message_chunk", d.Text
	case *protocol.ReasoningDelta:
		kind, text = "agent_thought_chunk", d.Text
	}
	if text == "" || v.subs[e.MessageID] {
		return nil
	}
	v.sent[e.PartID] += len(text)
	return []any{chunk(kind, textBlock(text), e.MessageID)}
}

// part tells a snapshot: of a text, what of it was not sent yet.
func (v *session) part(e *protocol.MessagePart, replay bool) []any {
	if tool, ok := e.Part.(*protocol.ToolPart); ok {
		return v.tool(tool)
	}
	if v.subs[e.MessageID] || v.user[e.MessageID] && !replay {
		return nil
	}
	kind := "agent_message_chunk"
	if v.user[e.MessageID] {
		kind = "user_message_chunk"
	}
	switch p := e.Part.(type) {
	case *protocol.TextPart:
		return v.rest(kind, p.Text, p.ID, e.MessageID)
	case *protocol.ReasoningPart:
		return v.rest("agent_thought_chunk", p.Text, p.ID, e.MessageID)
	case *protocol.ImagePart:
		if p.Data != "" {
			return []any{chunk(kind, object{"type": "image", "data": p.Data, "mimeType": p.MimeType}, e.MessageID)}
		}
		return []any{chunk(kind, object{"type": "resource_link", "uri": p.URL, "name": p.URL, "mimeType": p.MimeType}, e.MessageID)}
	case *protocol.FilePart:
		return []any{chunk(kind, fileBlock(p), e.MessageID)}
	}
	return nil
}

func (v *session) rest(kind, text string, id protocol.PartID, message protocol.MessageID) []any {
	sent := v.sent[id]
	if len(text) <= sent {
		return nil
	}
	v.sent[id] = len(text)
	return []any{chunk(kind, textBlock(text[sent:]), message)}
}

func fileBlock(p *protocol.FilePart) object {
	name := orElse(p.Filename, "file")
	if p.URL != "" {
		return object{"type": "resource_link", "uri": p.URL, "name": name, "mimeType": p.MimeType}
	}
	return object{"type": "resource", "resource": object{"uri": "attachment:///" + name, "mimeType": p.MimeType, "blob": p.Data}}
}

// tool tells where a call stands. A to-do list is told as a plan.
func (v *session) tool(p *protocol.ToolPart) []any {
	if entries, isPlan := planOf(p); entries != nil {
		return []any{object{"sessionUpdate": "plan", "entries": entries}}
	} else if isPlan {
		return nil
	}
	u := object{"sessionUpdate": "tool_call_update", "toolCallId": p.ToolCallID, "name": p.ToolName, "title": orElse(p.Title, p.ToolName), "kind": kindOf(p.Kind)}
	if !v.tools[p.ID] {
		v.tools[p.ID] = true
		u["sessionUpdate"] = "tool_call"
	}
	if len(p.Locations) > 0 {
		u["locations"] = p.Locations
	}
	switch s := p.State.(type) {
	case *protocol.ToolPending:
		u["status"] = "pending"
	case *protocol.ToolInProgress:
		u["status"], u["rawInput"] = "in_progress", s.Input
	case *protocol.ToolCompleted:
		u["status"], u["rawInput"], u["content"] = "completed", s.Input, toolContent(s)
		if len(s.Metadata) > 0 {
			u["rawOutput"] = s.Metadata
		}
	case *protocol.ToolFailed:
		u["status"], u["rawInput"], u["content"] = "failed", s.Input, []any{textContent(s.Error)}
	case *protocol.ToolCancelled:
		u["status"], u["rawInput"] = "failed", s.Input // ACP 1 has no word for it
	}
	return []any{u}
}

func textContent(text string) object { return object{"type": "content", "content": textBlock(text)} }

func toolContent(s *protocol.ToolCompleted) []any {
	content := []any{}
	for _, c := range s.Content {
		switch c.Type {
		case protocol.ContentText:
			content = append(content, textContent(c.Text))
		case protocol.ContentImage:
			content = append(content, object{"type": "content", "content": object{"type": "image", "data": c.Data, "mimeType": c.MimeType}})
		case protocol.ContentDiff:
			content = append(content, object{"type": "diff", "path": c.Path, "oldText": c.OldText, "newText": c.NewText})
		}
	}
	if len(content) == 0 && s.Output != "" {
		content = append(content, textContent(s.Output))
	}
	return content
}

// kindOf returns ACP's word for a kind of tool.
func kindOf(k protocol.ToolKind) protocol.ToolKind {
	switch k {
	case protocol.ToolKindRead, protocol.ToolKindEdit, protocol.ToolKindDelete, protocol.ToolKindMove, protocol.ToolKindSearch, protocol.ToolKindExecute,
		protocol.ToolKindThink, protocol.ToolKindFetch, protocol.ToolKindSwitchMode:
		return k
	case protocol.ToolKindTask:
		return protocol.ToolKindThink
	}
	return protocol.ToolKindOther
}

// planOf returns the entries of a to-do list, under the names that the harnesses' tools have for it; nil while they are not known.
func planOf(p *protocol.ToolPart) (entries []any, isPlan bool) {
	if p.ToolName != "TodoWrite" && p.ToolName != "update_plan" && p.ToolName != "plan" {
		return nil, false
	}
	var raw json.RawMessage
	switch s := p.State.(type) {
	case *protocol.ToolInProgress:
		raw = s.Input
	case *protocol.ToolCompleted:
		raw = s.Input
	}
	var input struct {
		Todos, Plan, Entries []struct{ Content, Step, Status, Priority string }
	}
	if !decode(raw, &input) {
		return nil, true
	}
	for _, e := range append(append(input.Todos, input.Plan...), input.Entries...) {
		status := e.Status
		if status == "inProgress" {
			status = "in_progress"
		}
		entries = append(entries, object{"content": orElse(e.Content, e.Step), "status": orElse(status, "pending"), "priority": orElse(e.Priority, "medium")})
	}
	return entries, true
}

// permissionCall describes the call that a permission request is about.
func permissionCall(e *protocol.PermissionRequested) object {
	call := object{"toolCallId": string(e.RequestID), "title": e.Title, "status": "pending"}
	if t := e.ToolCall; t != nil {
		if t.ToolCallID != "" {
			call["toolCallId"] = t.ToolCallID
		}
		call["name"], call["kind"] = t.ToolName, kindOf(t.Kind)
		if len(t.RawInput) > 0 {
			call["rawInput"] = t.RawInput
		}
		if len(t.Locations) > 0 {
			call["locations"] = t.Locations
		}
	}
	return call
}
