package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// messagesRequest is the part of a Messages API request that scripts look at.
type messagesRequest struct {
	Model    string          `json:"model"`
	Stream   bool            `json:"stream"`
	System   json.RawMessage `json:"system"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
	OutputConfig struct {
		Format struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Metadata struct {
		UserID string `json:"user_id"`
	} `json:"metadata"`
}

// messageBlock is a content block of a message.
type messageBlock struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
	IsError bool            `json:"is_error"`
}

// decodeMessages reads a POST /v1/messages.
func decodeMessages(r *http.Request, body []byte) (*conversation, error) {
	var req messagesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	if len(req.Messages) == 0 {
		return nil, errors.New("messages: at least one message is required")
	}
	conv := &conversation{
		api: Anthropic, model: req.Model, stream: req.Stream, system: textOf(req.System),
		session: messagesSession(r, req.Metadata.UserID), schema: req.OutputConfig.Format.Schema,
	}
	for _, t := range req.Tools {
		conv.tools = append(conv.tools, tool{name: t.Name})
	}
	for i, m := range req.Messages {
		blocks, err := messageBlocks(m.Content)
		if err != nil {
			return nil, fmt.Errorf("messages.%d.content: %w", i, err)
		}
		conv.entries = append(conv.entries, messageEntry(m.Role, blocks))
	}
	return conv, nil
}

// messagesSession finds the session id: a header of newer CLIs, else inside metadata.user_id, which is JSON or
// ends with "_session_<id>".
func messagesSession(r *http.Request, userID string) string {
	if id := r.Header.Get("X-Claude-Code-Session-Id"); id != "" {
		return id
	}
	var meta struct {
		SessionID string `json:"session_id"`
	}
	if json.Unmarshal([]byte(userID), &meta) == nil && meta.SessionID != "" {
		return meta.SessionID
	}
	if i := strings.LastIndex(userID, "_session_"); i >= 0 {
		return userID[i+len("_session_"):]
	}
	return ""
}

// messageBlocks reads content: a string or a list of blocks.
func messageBlocks(raw json.RawMessage) ([]messageBlock, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []messageBlock{{Type: "text", Text: text}}, nil
	}
	var blocks []messageBlock
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return nil, err
	}
	return blocks, nil
}

func messageEntry(role string, blocks []messageBlock) entry {
	e := entry{role: role}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			e.texts = append(e.texts, b.Text)
		case "image":
			e.images++
		case "tool_result":
			e.results = append(e.results, result{text: textOf(b.Content), isError: b.IsError})
		}
	}
	return e
}

// countTokens answers POST /v1/messages/count_tokens.
func countTokens(body []byte) any { return map[string]any{"input_tokens": (len(body) + 3) / 4} }

// messageErrors are Anthropic's error types by status.
var messageErrors = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
}

func messageErrorType(status int) string {
	if t, ok := messageErrors[status]; ok {
		return t
	}
	return "api_error"
}

// failMessages answers with an Anthropic error body.
func failMessages(w http.ResponseWriter, requestID string, f failure) error {
	w.Header().Set("Request-Id", requestID)
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	return writeJSON(w, f.status, map[string]any{
		"type": "error", "request_id": requestID,
		"error": map[string]any{"type": messageErrorType(f.status), "message": f.message},
	})
}

// A messageStream writes a reply as Messages API events, or as one message.
type messageStream struct {
	sink    *sink
	model   string
	content []map[string]any // finished blocks
	block_  step
	text    strings.Builder
}

func newMessageStream(s *sink, c *conversation) stream {
	return &messageStream{sink: s, model: c.model}
}

// event sends one event; its type is also the name.
func (m *messageStream) event(kind string, fields map[string]any) {
	fields["type"] = kind
	m.sink.event(kind, fields)
}

// message is the message object with the given ending.
func (m *messageStream) message(content any, stopReason any, usage map[string]any) map[string]any {
	return map[string]any{
		"id": fmt.Sprintf("msg_fake_%04d", m.sink.call), "type": "message", "role": "assistant", "model": m.model,
		"content": content, "stop_reason": stopReason, "stop_sequence": nil, "usage": usage,
	}
}

func messageUsage(u Usage) map[string]any {
	return map[string]any{
		"input_tokens": u.Input, "cache_creation_input_tokens": u.CacheCreation, "cache_read_input_tokens": u.CacheRead,
		"output_tokens": max(u.Output, 1), "service_tier": "standard",
	}
}

func (m *messageStream) begin(u Usage) {
	u.Output = 1
	m.event("message_start", map[string]any{"message": m.message([]any{}, nil, messageUsage(u))})
	m.event("ping", map[string]any{})
}

func (m *messageStream) open(st step) {
	m.block_ = st
	m.text.Reset()
	m.event("content_block_start", map[string]any{"index": len(m.content), "content_block": m.block(true)})
}

// block is the open block, empty as in content_block_start or whole.
func (m *messageStream) block(empty bool) map[string]any {
	text := m.text.String()
	switch m.block_.kind {
	case kindThinking:
		signature := "c2lnbmF0dXJl"
		if empty {
			signature = ""
		}
		return map[string]any{"type": "thinking", "thinking": text, "signature": signature}
	case kindTool:
		input := json.RawMessage("{}")
		if !empty && json.Valid([]byte(text)) {
			input = json.RawMessage(text)
		}
		id := fmt.Sprintf("toolu_fake_%04d_%d", m.sink.call, len(m.content))
		return map[string]any{"type": "tool_use", "id": id, "name": m.block_.call.name, "input": input}
	}
	return map[string]any{"type": "text", "text": text}
}

func (m *messageStream) delta(text string) {
	m.text.WriteString(text)
	d := map[string]any{"type": "text_delta", "text": text}
	switch m.block_.kind {
	case kindThinking:
		d = map[string]any{"type": "thinking_delta", "thinking": text}
	case kindTool:
		d = map[string]any{"type": "input_json_delta", "partial_json": text}
	}
	m.event("content_block_delta", map[string]any{"index": len(m.content), "delta": d})
}

func (m *messageStream) partBreak() { m.delta("\n\n") }

func (m *messageStream) close() {
	index := len(m.content)
	if m.block_.kind == kindThinking {
		m.event("content_block_delta", map[string]any{"index": index, "delta": map[string]any{"type": "signature_delta", "signature": "c2lnbmF0dXJl"}})
	}
	m.content = append(m.content, m.block(false))
	m.event("content_block_stop", map[string]any{"index": index})
}

// messageStops are the stop reasons of the Messages API.
var messageStops = map[stop]string{
	stopEnd: "end_turn", stopTool: "tool_use", stopMaxTokens: "max_tokens", stopRefusal: "refusal",
	stopPause: "pause_turn", stopContext: "model_context_window_exceeded",
}

func (m *messageStream) end(st stop, u Usage) {
	reason := messageStops[st]
	if !m.sink.streaming {
		if m.content == nil {
			m.content = []map[string]any{}
		}
		m.sink.finish(m.message(m.content, reason, messageUsage(u)))
		return
	}
	delta := map[string]any{"stop_reason": reason, "stop_sequence": nil}
	if st == stopRefusal {
		delta["stop_details"] = map[string]any{"type": "refusal", "category": "cyber", "explanation": "Scripted refusal."}
	}
	m.event("message_delta", map[string]any{"delta": delta, "usage": messageUsage(u)})
	m.event("message_stop", map[string]any{})
}

func (m *messageStream) fail(f failure) {
	body := map[string]any{"type": "error", "error": map[string]any{"type": messageErrorType(f.status), "message": f.message}}
	m.sink.event("error", body)
	m.sink.finish(body)
}
