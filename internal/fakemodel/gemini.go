package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// geminiRequest is the part of a generateContent request that scripts look at.
type geminiRequest struct {
	Contents          []geminiContent `json:"contents"`
	SystemInstruction geminiContent   `json:"systemInstruction"`
	Tools             []struct {
		FunctionDeclarations []struct {
			Name string `json:"name"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	GenerationConfig struct {
		ResponseSchema     json.RawMessage `json:"responseSchema"`
		ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
		ThinkingConfig     json.RawMessage `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

// geminiContent is one message.
type geminiContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text             string          `json:"text"`
		InlineData       json.RawMessage `json:"inlineData"`
		FunctionResponse *struct {
			Response map[string]json.RawMessage `json:"response"`
		} `json:"functionResponse"`
	} `json:"parts"`
}

// geminiDialect reads the verb of a path /v1beta/models/<model>:<verb>.
func geminiDialect(r *http.Request) dialect {
	d := dialect{api: Gemini, fail: failGemini}
	_, verb, _ := strings.Cut(r.URL.Path, ":")
	switch {
	case r.Method == http.MethodGet:
		d.plain = func([]byte) any {
			return map[string]any{"models": []any{map[string]any{"name": "models/fake-model", "displayName": "Fake model"}}}
		}
	case verb == "streamGenerateContent" || verb == "generateContent":
		d.decode, d.stream = decodeGemini, newGeminiStream
	case verb == "countTokens":
		d.plain = func(body []byte) any { return map[string]any{"totalTokens": (len(body) + 3) / 4} }
	}
	return d
}

// decodeGemini reads a generateContent request. Only with alt=sse is the reply an event stream: the JSON array that the API
// streams without it is sent in one go.
func decodeGemini(r *http.Request, body []byte) (*conversation, error) {
	var req geminiRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	if len(req.Contents) == 0 {
		return nil, errors.New("contents: at least one content is required")
	}
	model, verb, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1beta/models/"), ":")
	conv := &conversation{
		api: Gemini, model: model, stream: verb == "streamGenerateContent" && r.URL.Query().Get("alt") == "sse",
		system: strings.Join(req.SystemInstruction.entry().texts, "\n"),
		schema: req.GenerationConfig.ResponseJSONSchema, detail: "thinking=" + orElse(string(req.GenerationConfig.ThinkingConfig), "none"),
	}
	if conv.schema == nil {
		conv.schema = req.GenerationConfig.ResponseSchema
	}
	for _, t := range req.Tools {
		for _, f := range t.FunctionDeclarations {
			conv.tools = append(conv.tools, tool{name: f.Name})
		}
	}
	for _, c := range req.Contents {
		conv.entries = append(conv.entries, c.entry())
	}
	return conv, nil
}

// entry reduces a message.
func (c geminiContent) entry() entry {
	e := entry{role: "user"}
	if c.Role == "model" {
		e.role = "assistant"
	}
	for _, p := range c.Parts {
		switch {
		case p.FunctionResponse != nil:
			e.results = append(e.results, geminiResult(p.FunctionResponse.Response))
		case p.InlineData != nil:
			e.images++
		case p.Text != "":
			e.texts = append(e.texts, p.Text)
		}
	}
	return e
}

// geminiResult reads a function response: its error or output member, else all of it.
func geminiResult(response map[string]json.RawMessage) result {
	if raw, ok := response["error"]; ok {
		return result{text: textOf(raw), isError: true}
	}
	if raw, ok := response["output"]; ok {
		return result{text: textOf(raw)}
	}
	return result{text: toJSON(response)}
}

// geminiStatus are the status names by HTTP status.
var geminiStatus = map[int]string{
	400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED",
	500: "INTERNAL", 503: "UNAVAILABLE",
}

// geminiError is the error body of f.
func geminiError(f failure) map[string]any {
	status := f.status
	if status == 529 {
		status = http.StatusServiceUnavailable // 529 is Anthropic's own
	}
	return map[string]any{"error": map[string]any{"code": status, "message": f.message, "status": orElse(geminiStatus[status], "UNKNOWN")}}
}

// failGemini answers with a Google error body.
func failGemini(w http.ResponseWriter, _ string, f failure) error {
	body := geminiError(f)
	return writeJSON(w, body["error"].(map[string]any)["code"].(int), body)
}

// A geminiStream writes a reply as generateContent chunks, or as one response. Function calls have no deltas: they are sent whole.
type geminiStream struct {
	sink  *sink
	model string
	st    step
	text  strings.Builder
	parts []any
	calls int
}

func newGeminiStream(s *sink, c *conversation) stream { return &geminiStream{sink: s, model: c.model} }

// body is a response or a chunk of one; finish "" leaves the candidate open.
func (s *geminiStream) body(parts []any, finish string) map[string]any {
	candidate := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	return map[string]any{
		"candidates": []any{candidate}, "modelVersion": s.model, "responseId": fmt.Sprintf("resp_fake_%04d", s.sink.call),
	}
}

func (s *geminiStream) begin(Usage) { s.sink.flush() }

func (s *geminiStream) open(st step) {
	s.st = st
	s.text.Reset()
}

// part is text as a part of the open block.
func (s *geminiStream) part(text string) map[string]any {
	if s.st.kind == kindThinking {
		return map[string]any{"text": text, "thought": true}
	}
	return map[string]any{"text": text}
}

func (s *geminiStream) delta(text string) {
	s.text.WriteString(text)
	if s.st.kind != kindTool {
		s.sink.event("", s.body([]any{s.part(text)}, ""))
	}
}

func (s *geminiStream) partBreak() { s.delta("\n\n") }

func (s *geminiStream) close() {
	text := s.text.String()
	if s.st.kind != kindTool {
		s.parts = append(s.parts, s.part(text))
		return
	}
	args := json.RawMessage("{}")
	if json.Valid([]byte(text)) {
		args = json.RawMessage(text)
	}
	part := map[string]any{"functionCall": map[string]any{
		"id": fmt.Sprintf("call_fake_%04d_%d", s.sink.call, s.calls), "name": s.st.call.name, "args": args,
	}}
	s.calls++
	s.parts = append(s.parts, part)
	s.sink.event("", s.body([]any{part}, ""))
}

// geminiStops are the finish reasons; the API has no form of its own for a pause or a full context window.
var geminiStops = map[stop]string{
	stopEnd: "STOP", stopTool: "STOP", stopMaxTokens: "MAX_TOKENS", stopRefusal: "SAFETY", stopPause: "STOP", stopContext: "MAX_TOKENS",
}

// geminiUsage counts tokens as the Gemini API does: candidates exclude thoughts.
func geminiUsage(u Usage) map[string]any {
	prompt := u.Input + u.CacheCreation + u.CacheRead
	return map[string]any{
		"promptTokenCount": prompt, "cachedContentTokenCount": u.CacheRead, "candidatesTokenCount": max(u.Output-u.Reasoning, 0),
		"thoughtsTokenCount": u.Reasoning, "totalTokenCount": prompt + u.Output,
	}
}

func (s *geminiStream) end(st stop, u Usage) {
	tail := s.body([]any{map[string]any{"text": ""}}, geminiStops[st])
	tail["usageMetadata"] = geminiUsage(u)
	s.sink.event("", tail)

	parts := s.parts
	if parts == nil {
		parts = []any{}
	}
	whole := s.body(parts, geminiStops[st])
	whole["usageMetadata"] = geminiUsage(u)
	s.sink.finish(whole)
}

func (s *geminiStream) fail(f failure) {
	s.sink.event("", geminiError(f))
	s.sink.finish(geminiError(f))
}
