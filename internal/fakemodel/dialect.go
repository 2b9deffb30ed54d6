package fakemodel

import (
	"net/http"
	"strings"
)

// A dialect is how one path of the server reads and answers.
type dialect struct {
	api    API
	decode func(r *http.Request, body []byte) (*conversation, error) // nil: not a model call
	stream func(s *sink, c *conversation) stream
	plain  func(body []byte) any // the JSON answer of a path that is not a model call
	fail   func(w http.ResponseWriter, requestID string, f failure) error
}

// dialectOf tells the dialect by method and path. Unknown paths fail in the form of the API that they look like.
func dialectOf(r *http.Request) dialect {
	path := r.URL.Path
	post := r.Method == http.MethodPost
	switch {
	case post && path == "/v1/messages":
		return dialect{api: Anthropic, decode: decodeMessages, stream: newMessageStream, fail: failMessages}
	case post && path == "/v1/messages/count_tokens":
		return dialect{api: Anthropic, plain: countTokens, fail: failMessages}
	case post && path == "/v1/responses":
		return dialect{api: OpenAIResponses, decode: decodeResponses, stream: newResponseStream, fail: failOpenAI}
	case post && path == "/v1/responses/compact":
		return dialect{api: OpenAIResponses, plain: compactResponses, fail: failOpenAI}
	case post && path == "/v1/chat/completions":
		return dialect{api: OpenAIChat, decode: decodeChat, stream: newChatStream, fail: failOpenAI}
	case strings.HasPrefix(path, "/v1beta/models"):
		return geminiDialect(r)
	case r.Method == http.MethodGet && strings.HasPrefix(path, "/v1/models"):
		return dialect{plain: listModels, fail: failMessages}
	}
	return dialect{fail: failMessages}
}

// listModels answers GET /v1/models for every client that asks: the shape is the union of Anthropic's, OpenAI's and codex'.
func listModels([]byte) any {
	return map[string]any{
		"object": "list", "has_more": false, "models": []any{},
		"data": []any{map[string]any{"id": "fake-model", "type": "model", "object": "model", "display_name": "Fake model", "created_at": "2026-01-01T00:00:00Z"}},
	}
}
