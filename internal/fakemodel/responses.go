package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// responsesRequest is the part of a Responses API request that scripts look at.
type responsesRequest struct {
	Model        string          `json:"model"`
	Stream       bool            `json:"stream"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	Tools        []responsesTool `json:"tools"`
	ServiceTier  string          `json:"service_tier"`
	Reasoning    struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	} `json:"reasoning"`
	Metadata struct {
		SessionID string `json:"session_id"`
		ThreadID  string `json:"thread_id"`
		TurnID    string `json:"turn_id"`
	} `json:"client_metadata"`
}

// responsesTool is an offered tool: a function, a free-form tool, or a namespace of tools.
type responsesTool struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Tools []responsesTool `json:"tools"`
}

// responsesItem is one item of the input.
type responsesItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`
	Tools   []responsesTool `json:"tools"`
}

// decodeResponses reads a POST /v1/responses.
func decodeResponses(r *http.Request, body []byte) (*conversation, error) {
	var req responsesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	items, err := responsesItems(req.Input)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	conv := &conversation{
		api: OpenAIResponses, model: req.Model, stream: req.Stream, system: req.Instructions,
		session: orElse(req.Metadata.ThreadID, orElse(req.Metadata.SessionID, r.Header.Get("Session-Id"))),
		turnID:  req.Metadata.TurnID,
		detail: fmt.Sprintf("effort=%s summary=%s tier=%s", orElse(req.Reasoning.Effort, "none"),
			orElse(req.Reasoning.Summary, "none"), orElse(req.ServiceTier, "none")),
	}
	conv.addTools("", req.Tools)
	for i, it := range items {
		e, err := it.entry()
		if err != nil {
			return nil, fmt.Errorf("input.%d: %w", i, err)
		}
		conv.entries = append(conv.entries, e)
		conv.addTools("", it.Tools) // models in code mode get their tools as an input item
	}
	return conv, nil
}

// responsesItems reads input: a string or a list of items.
func responsesItems(raw json.RawMessage) ([]responsesItem, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil && len(raw) > 0 {
		content, err := json.Marshal(text)
		return []responsesItem{{Role: "user", Content: content}}, err
	}
	var items []responsesItem
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, errors.New("at least one item is required")
	}
	return items, nil
}

// addTools collects tools; those of codex' own namespace "functions" are called without it.
func (c *conversation) addTools(namespace string, tools []responsesTool) {
	for _, t := range tools {
		if t.Type == "namespace" {
			c.addTools(t.Name, t.Tools)
			continue
		}
		if namespace == "functions" {
			namespace = ""
		}
		c.tools = append(c.tools, tool{name: orElse(t.Name, t.Type), namespace: namespace, custom: t.Type == "custom"})
	}
}

// entry reduces an item.
func (it responsesItem) entry() (entry, error) {
	switch {
	case it.Type == "function_call_output" || it.Type == "custom_tool_call_output":
		return entry{role: "tool", results: []result{{text: textOf(it.Output)}}}, nil
	case it.Type != "" && it.Type != "message":
		return entry{role: "assistant"}, nil
	}
	e := entry{role: it.Role}
	if e.role == "developer" {
		e.role = "system"
	}
	var text string
	if json.Unmarshal(it.Content, &text) == nil {
		e.texts = []string{text}
		return e, nil
	}
	var blocks []struct{ Type, Text string }
	if err := json.Unmarshal(it.Content, &blocks); err != nil {
		return e, fmt.Errorf("content: %w", err)
	}
	for _, b := range blocks {
		if b.Type == "input_image" {
			e.images++
		} else if b.Text != "" {
			e.texts = append(e.texts, b.Text)
		}
	}
	return e, nil
}

// compactResponses answers POST /v1/responses/compact.
func compactResponses([]byte) any {
	return map[string]any{"output": []any{map[string]any{
		"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": "Fake summary of the conversation."}},
	}}}
}

// A responseStream writes a reply as Responses API events, or as one response object.
type responseStream struct {
	sink   *sink
	model  string
	seq    int
	ids    int
	output []any // finished items
	st     step
	item   map[string]any // the open item
	text   strings.Builder
	parts  []string // finished summary parts of the open thinking item
}

func newResponseStream(s *sink, c *conversation) stream {
	return &responseStream{sink: s, model: c.model, output: []any{}}
}

// event sends one event; its type is also the name.
func (s *responseStream) event(kind string, fields map[string]any) {
	fields["type"], fields["sequence_number"] = kind, s.seq
	s.seq++
	s.sink.event(kind, fields)
}

// itemEvent sends an event about the open item.
func (s *responseStream) itemEvent(kind string, fields map[string]any) {
	fields["item_id"], fields["output_index"] = s.item["id"], len(s.output)
	s.event(kind, fields)
}

// id makes an id that is unique on this server: call number and a count within it.
func (s *responseStream) id(prefix string) string {
	s.ids++
	return fmt.Sprintf("%s_fake_%04d_%d", prefix, s.sink.call, s.ids)
}

// response is the response object.
func (s *responseStream) response(status string, extra map[string]any) map[string]any {
	body := map[string]any{
		"id": fmt.Sprintf("resp_fake_%04d", s.sink.call), "object": "response", "created_at": 1_780_000_000, "status": status,
		"model": s.model, "output": s.output, "parallel_tool_calls": true, "error": nil, "incomplete_details": nil,
	}
	for k, v := range extra {
		body[k] = v
	}
	return body
}

func (s *responseStream) begin(Usage) {
	s.event("response.created", map[string]any{"response": s.response("in_progress", nil)})
	s.event("response.in_progress", map[string]any{"response": s.response("in_progress", nil)})
}

func (s *responseStream) open(st step) {
	s.st, s.parts = st, nil
	s.text.Reset()
	s.item = s.newItem()
	s.event("response.output_item.added", map[string]any{"output_index": len(s.output), "item": s.item})
	switch st.kind {
	case kindText:
		s.itemEvent("response.content_part.added", map[string]any{"content_index": 0, "part": outputText("")})
	case kindThinking:
		s.openPart()
	}
}

// newItem is the item of the step, still empty.
func (s *responseStream) newItem() map[string]any {
	c := s.st.call
	switch {
	case s.st.kind == kindThinking:
		return map[string]any{"id": s.id("rs"), "type": "reasoning", "summary": []any{}, "encrypted_content": nil}
	case s.st.kind == kindItem:
		item := map[string]any{"id": s.id("it")}
		for k, v := range s.st.item {
			item[k] = v
		}
		return item
	case s.st.kind == kindTool && c.custom:
		return map[string]any{"id": s.id("ctc"), "type": "custom_tool_call", "status": "in_progress", "call_id": s.id("call"), "name": c.name, "input": ""}
	case s.st.kind == kindTool:
		item := map[string]any{"id": s.id("fc"), "type": "function_call", "status": "in_progress", "call_id": s.id("call"), "name": c.name, "arguments": ""}
		if c.namespace != "" {
			item["namespace"] = c.namespace
		}
		return item
	}
	phase := "commentary"
	if s.st.final {
		phase = "final_answer"
	}
	return map[string]any{"id": s.id("msg"), "type": "message", "status": "in_progress", "role": "assistant", "content": []any{}, "phase": phase}
}

func outputText(text string) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}}
}

func summaryText(text string) map[string]any {
	return map[string]any{"type": "summary_text", "text": text}
}

func (s *responseStream) delta(text string) {
	s.text.WriteString(text)
	switch {
	case s.st.kind == kindThinking:
		s.itemEvent("response.reasoning_summary_text.delta", map[string]any{"summary_index": len(s.parts), "delta": text})
	case s.st.kind == kindTool && s.st.call.custom:
		s.itemEvent("response.custom_tool_call_input.delta", map[string]any{"delta": text})
	case s.st.kind == kindTool:
		s.itemEvent("response.function_call_arguments.delta", map[string]any{"delta": text})
	default:
		s.itemEvent("response.output_text.delta", map[string]any{"content_index": 0, "delta": text})
	}
}

func (s *responseStream) openPart() {
	s.itemEvent("response.reasoning_summary_part.added", map[string]any{"summary_index": len(s.parts), "part": summaryText("")})
}

func (s *responseStream) closePart() {
	text := s.text.String()
	s.text.Reset()
	s.itemEvent("response.reasoning_summary_text.done", map[string]any{"summary_index": len(s.parts), "text": text})
	s.itemEvent("response.reasoning_summary_part.done", map[string]any{"summary_index": len(s.parts), "part": summaryText(text)})
	s.parts = append(s.parts, text)
}

func (s *responseStream) partBreak() {
	s.closePart()
	s.openPart()
}

func (s *responseStream) close() {
	text := s.text.String()
	switch {
	case s.st.kind == kindThinking:
		s.closeThinking()
	case s.st.kind == kindItem:
	case s.st.kind == kindTool && s.st.call.custom:
		s.itemEvent("response.custom_tool_call_input.done", map[string]any{"input": text})
		s.item["input"], s.item["status"] = text, "completed"
	case s.st.kind == kindTool:
		s.itemEvent("response.function_call_arguments.done", map[string]any{"arguments": text})
		s.item["arguments"], s.item["status"] = text, "completed"
	default:
		s.itemEvent("response.output_text.done", map[string]any{"content_index": 0, "text": text})
		s.itemEvent("response.content_part.done", map[string]any{"content_index": 0, "part": outputText(text)})
		s.item["content"], s.item["status"] = []any{outputText(text)}, "completed"
	}
	s.event("response.output_item.done", map[string]any{"output_index": len(s.output), "item": s.item})
	s.output = append(s.output, s.item)
}

// closeThinking ends the summary and adds the raw chain of thought.
func (s *responseStream) closeThinking() {
	s.closePart()
	summary := make([]any, len(s.parts))
	for i, p := range s.parts {
		summary[i] = summaryText(p)
	}
	s.item["summary"], s.item["encrypted_content"] = summary, "ZmFrZS1lbmNyeXB0ZWQ="
	if s.st.raw != "" {
		s.itemEvent("response.reasoning_text.delta", map[string]any{"content_index": 0, "delta": s.st.raw})
		s.item["content"] = []any{map[string]any{"type": "reasoning_text", "text": s.st.raw}}
	}
}

// end sends response.completed, or response.incomplete for what was cut; the other endings have no form of their own here.
func (s *responseStream) end(st stop, u Usage) {
	status, extra := "completed", map[string]any{"usage": openAIUsage(u)}
	switch st {
	case stopMaxTokens:
		status, extra["incomplete_details"] = "incomplete", map[string]any{"reason": "max_output_tokens"}
	case stopRefusal:
		status, extra["incomplete_details"] = "incomplete", map[string]any{"reason": "content_filter"}
	case stopContext:
		s.fail(namedFailures["context"])
		return
	}
	body := s.response(status, extra)
	s.event("response."+status, map[string]any{"response": body})
	s.sink.finish(body)
}

func (s *responseStream) fail(f failure) {
	message := f.message
	if f.code == "context_length_exceeded" {
		message = "Your input exceeds the context window of this model. Please adjust your input and try again."
	}
	body := s.response("failed", map[string]any{"error": map[string]any{"code": f.code, "message": message}})
	s.event("response.failed", map[string]any{"response": body})
	s.sink.finish(body)
}
