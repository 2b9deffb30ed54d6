package protocol

import "strings"

// Classify sorts a provider's failure into a category: by the HTTP status where there is one (0 when not), else by what the text says. It never
// returns an empty category: what it cannot place is [CategoryInternal].
func Classify(status int, text string) ErrorCategory {
	t := strings.ToLower(text)
	for _, r := range classifiers {
		if containsAny(t, r.first...) {
			return r.category
		}
	}
	switch {
	case status == 401 || status == 403:
		return CategoryAuth
	case status == 402:
		return CategoryUsageLimit
	case status == 429 || status == 529:
		return CategoryRateLimit
	case status == 408 || status == 502 || status == 503 || status == 504:
		return CategoryNetwork
	case status >= 500:
		return CategoryInternal
	case status >= 400:
		return CategoryInvalidRequest
	}
	for _, r := range classifiers {
		if containsAny(t, r.then...) {
			return r.category
		}
	}
	return CategoryInternal
}

// classifiers is the one table of the texts. Words under first outweigh the status (a 400 that says "prompt is too long" is a context limit);
// words under then count only where no status is known.
var classifiers = []struct {
	category    ErrorCategory
	first, then []string
}{
	{CategoryContextLimit,
		[]string{"prompt is too long", "context_length_exceeded", "context window", "context length", "contextwindowexceeded", "input is too long", "maximum context"}, nil},
	{CategoryUsageLimit,
		[]string{"credit balance", "insufficient_quota", "usage limit", "usagelimitexceeded", "quota exceeded", "exceeded your current quota", "billing"}, []string{"budget"}},
	{CategoryAuth, nil,
		[]string{"invalid api key", "invalid x-api-key", "not logged in", "authentication", "unauthorized", "oauth", "api key", "please run /login", "401", "403"}},
	{CategoryRateLimit, nil,
		[]string{"rate limit", "rate_limit", "too many requests", "429", "529", "overloaded"}},
	{CategoryNetwork, nil,
		[]string{"unable to connect", "connection refused", "connectionrefused", "econnrefused", "econnreset", "enotfound", "etimedout", "connection reset",
			"connection closed", "stream disconnected", "network", "socket hang up", "timed out", "timeout", "dns", "no such host"}},
	{CategoryAbort, nil, []string{"aborted", "interrupted", "cancelled", "canceled"}},
	{CategoryInvalidRequest, nil,
		[]string{"invalid request", "invalid_request", "bad request", "not_found", "model_not_found", "selected model", "does not exist", "unknown model", "no conversation found",
			"no rollout found", "unsupported"}},
}

func containsAny(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
