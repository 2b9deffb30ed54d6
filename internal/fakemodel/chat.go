package fakemodel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// chatRequest is the part of a chat completions request that scripts look at.
type chatRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	ResponseFormat struct {
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Effort   string `json:"reasoning_effort"`
	CacheKey string `json:"prompt_cache_key"`
	Metadata struct {
		SessionID string `json:"sessionId"`
		PromptID  string `json:"promptId"`
	} `json:"metadata"`
}

// decodeChat reads a POST /v1/chat/completions.
func decodeChat(r *http.Request, body []byte) (*conversation, error) {
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	if len(req.Messages) == 0 {
		return nil, errors.New("messages: at least one message is required")
	}
	conv := &conversation{
		api: OpenAIChat, model: req.Model, stream: req.Stream, schema: req.ResponseFormat.JSONSchema.Schema,
		session: cmp.Or(req.Metadata.SessionID, req.CacheKey, r.Header.Get("X-Session-Affinity"), r.Header.Get("X-Session-Id")),
		turnID:  req.Metadata.PromptID,
		detail:  "effort=" + orElse(req.Effort, "none"),
	}
	for _, t := range req.Tools {
		conv.tools = append(conv.tools, tool{name: t.Function.Name})
		if t.Function.Name == schemaTool {
			conv.schema = t.Function.Parameters
		}
	}
	for i, m := range req.Messages {
		e, err := chatEntry(m.Role, m.Content)
		if err != nil {
			return nil, fmt.Errorf("messages.%d.content: %w", i, err)
		}
		if e.role == "system" && i == 0 {
			conv.system = strings.Join(e.texts, "\n")
			continue
		}
		conv.entries = append(conv.entries, e)
	}
	return conv, nil
}

// chatEntry reduces a message.
func chatEntry(role string, content json.RawMessage) (entry, error) {
	e := entry{role: role}
	switch role {
	case "tool":
		e.results = []result{{text: textOf(content)}}
		return e, nil
	case "developer":
		e.role = "system"
	}
	var text *string
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		if text != nil {
			e.texts = []string{*text}
		}
		return e, nil
	}
	var blocks []struct{ Type, Text string }
	if err := json.Unmarshal(content, &blocks); err != nil {
		return e, err
	}
	for _, b := range blocks {
		if b.Type == "image_url" {
			e.images++
		} else if b.Text != "" {
			e.texts = append(e.texts, b.Text)
		}
	}
	return e, nil
}

// A chatStream writes a reply as chat completion chunks, or as one completion.
type chatStream struct {
	sink  *sink
	model string
	st    step
	text  strings.Builder
	said  strings.Builder // all text, for the whole completion
	think strings.Builder
	calls []map[string]any
}

func newChatStream(s *sink, c *conversation) stream { return &chatStream{sink: s, model: c.model} }

// body is a completion or a chunk of one.
func (s *chatStream) body(object string, choices []any) map[string]any {
	return map[string]any{
		"id": fmt.Sprintf("chatcmpl-fake-%04d", s.sink.call), "object": object, "created": 1_780_000_000, "model": s.model, "choices": choices,
	}
}

// chunk sends a delta.
func (s *chatStream) chunk(delta map[string]any, finish any) {
	s.sink.event("", s.body("chat.completion.chunk", []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}))
}

func (s *chatStream) begin(Usage) { s.chunk(map[string]any{"role": "assistant", "content": ""}, nil) }

func (s *chatStream) open(st step) {
	s.st = st
	s.text.Reset()
	if st.kind != kindTool {
		return
	}
	call := map[string]any{
		"id": fmt.Sprintf("call_fake_%04d_%d", s.sink.call, len(s.calls)), "type": "function",
		"function": map[string]any{"name": st.call.name, "arguments": ""},
	}
	s.calls = append(s.calls, call)
	s.callDelta(call)
}

// callDelta sends a delta of the open call.
func (s *chatStream) callDelta(fields map[string]any) {
	d := map[string]any{"index": len(s.calls) - 1}
	for k, v := range fields {
		d[k] = v
	}
	s.chunk(map[string]any{"tool_calls": []any{d}}, nil)
}

func (s *chatStream) delta(text string) {
	s.text.WriteString(text)
	switch s.st.kind {
	case kindTool:
		s.callDelta(map[string]any{"function": map[string]any{"arguments": text}})
	case kindThinking:
		s.think.WriteString(text)
		s.chunk(map[string]any{"reasoning_content": text}, nil)
	default:
		s.said.WriteString(text)
		s.chunk(map[string]any{"content": text}, nil)
	}
}

func (s *chatStream) partBreak() { s.delta("\n\n") }

func (s *chatStream) close() {
	if s.st.kind == kindTool {
		s.calls[len(s.calls)-1]["function"] = map[string]any{"name": s.st.call.name, "arguments": s.text.String()}
	}
}

// chatStops are the finish reasons; the API has no form of its own for a pause or a full context window.
var chatStops = map[stop]string{
	stopEnd: "stop", stopTool: "tool_calls", stopMaxTokens: "length", stopRefusal: "content_filter", stopPause: "stop", stopContext: "length",
}

// chatUsage counts tokens as chat completions do.
func chatUsage(u Usage) map[string]any {
	prompt := u.Input + u.CacheCreation + u.CacheRead
	return map[string]any{
		"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.CacheRead},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
	}
}

// end sends the finish reason, the usage (whether or not stream_options asks for it: clients that do not, ignore it) and [DONE].
func (s *chatStream) end(st stop, u Usage) {
	s.chunk(map[string]any{}, chatStops[st])
	tail := s.body("chat.completion.chunk", []any{})
	tail["usage"] = chatUsage(u)
	s.sink.event("", tail)
	s.sink.write("data: [DONE]\n\n")
	s.sink.flush()

	message := map[string]any{"role": "assistant", "content": s.said.String()}
	if s.think.Len() > 0 {
		message["reasoning_content"] = s.think.String()
	}
	if s.calls != nil {
		message["tool_calls"] = s.calls
	}
	whole := s.body("chat.completion", []any{map[string]any{"index": 0, "message": message, "finish_reason": chatStops[st]}})
	whole["usage"] = chatUsage(u)
	s.sink.finish(whole)
}

func (s *chatStream) fail(f failure) {
	body := map[string]any{"error": openAIError(f)}
	s.sink.event("", body)
	s.sink.finish(body)
}
