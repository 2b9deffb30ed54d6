package fakemodel

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A failure is an API error: an HTTP status with an error body or, for the kinds that the Responses API reports
// inside a stream, a code.
type failure struct {
	status     int
	code       string // machine-readable code of the OpenAI dialects, or the error type of Anthropic's
	kind       string // "type" of the OpenAI error object
	message    string
	retryAfter int
	inStream   bool // Responses only: response.failed instead of a status
	drop       bool // cut the connection without an answer
	extra      map[string]any
}

// namedFailures are the failures with a name instead of a status.
var namedFailures = map[string]failure{
	"usage":         {status: 429, code: "rate_limit_error", kind: "usage_limit_reached", message: "The usage limit has been reached"},
	"quota":         {status: 429, code: "insufficient_quota", kind: "insufficient_quota", message: "You exceeded your current quota, please check your plan and billing details."},
	"credit":        {status: 400, code: "invalid_request_error", kind: "insufficient_quota", message: "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."},
	"context":       {status: 400, code: "context_length_exceeded", kind: "invalid_request_error", message: "prompt is too long: 210000 tokens > 200000 maximum", inStream: true},
	"overloaded":    {status: 529, code: "server_is_overloaded", kind: "server_error", message: "Overloaded", inStream: true},
	"policy":        {status: 400, code: "cyber_policy", kind: "invalid_request_error", message: "This request was flagged.", inStream: true},
	"modelnotfound": {status: 404, code: "model_not_found", kind: "invalid_request_error", message: "The model `nope` does not exist or you do not have access to it."},
	"badreq":        {status: 400, code: "unsupported_parameter", kind: "invalid_request_error", message: "Unsupported parameter: fake."},
	"drop":          {drop: true},
}

// statusMessages are the texts that CLIs recognise, used when a script gives none.
var statusMessages = map[int]string{
	400: "Scripted bad request", 401: "invalid x-api-key", 403: "Forbidden by policy.", 404: "model: not found",
	413: "Request exceeds the maximum size", 429: "Rate limit reached for this model.",
	500: "The server had an error while processing your request.", 503: "Overloaded", 529: "Overloaded",
}

// openAICodes are the code and type members of an OpenAI error by status.
var openAICodes = map[int][2]string{
	401: {"invalid_api_key", "invalid_request_error"}, 403: {"forbidden", "invalid_request_error"},
	404: {"model_not_found", "invalid_request_error"}, 429: {"rate_limit_exceeded", "requests"},
	500: {"", "server_error"}, 503: {"server_is_overloaded", "server_error"}, 529: {"server_is_overloaded", "server_error"},
}

// parseFailure reads "code message" where code is an HTTP status or a name.
func parseFailure(arg string) failure {
	word, message, _ := strings.Cut(arg, " ")
	message = strings.TrimSpace(message)
	if f, ok := namedFailures[word]; ok {
		if message != "" {
			f.message = message
		}
		if word == "usage" {
			f.extra = map[string]any{"plan_type": "plus", "resets_at": time.Now().Add(time.Hour).Unix()}
		}
		return f
	}
	status, err := strconv.Atoi(word)
	if err != nil || status < 400 || status > 599 {
		return failure{status: 400, message: fmt.Sprintf("ERR %q: write a status from 400 to 599 or one of %s",
			word, strings.Join(slices.Sorted(maps.Keys(namedFailures)), ", "))}
	}
	if message == "" {
		message = statusMessages[status]
	}
	if message == "" {
		message = "Scripted error"
	}
	f := failure{status: status, message: message}
	if c, ok := openAICodes[status]; ok {
		f.code, f.kind = c[0], c[1]
	} else {
		f.kind = "invalid_request_error"
	}
	if status == 429 {
		f.retryAfter = 1
	}
	return f
}
