package fakemodel

import (
	"net/http"
	"strconv"
)

// failOpenAI answers with an OpenAI error body; both OpenAI dialects have the same.
func failOpenAI(w http.ResponseWriter, requestID string, f failure) error {
	w.Header().Set("X-Request-Id", requestID)
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	status := f.status
	if status == 529 {
		status = http.StatusServiceUnavailable // 529 is Anthropic's own
	}
	return writeJSON(w, status, map[string]any{"error": openAIError(f)})
}

// openAIError is the error object of f.
func openAIError(f failure) map[string]any {
	body := map[string]any{"message": f.message, "type": orElse(f.kind, "invalid_request_error"), "param": nil, "code": nil}
	if f.code != "" {
		body["code"] = f.code
	}
	for k, v := range f.extra {
		body[k] = v
	}
	return body
}

// openAIUsage counts tokens as the Responses API does: input includes what came from the cache.
func openAIUsage(u Usage) map[string]any {
	input := u.Input + u.CacheCreation + u.CacheRead
	return map[string]any{
		"input_tokens": input, "input_tokens_details": map[string]any{"cached_tokens": u.CacheRead},
		"output_tokens": u.Output, "output_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
		"total_tokens": input + u.Output,
	}
}
