package codex

import (
	"encoding/json"
	"strings"

	"agentserver/harness"
	"agentserver/harness/internal/redact"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// turnError is codex's error of a turn. Info is a word, or an object with one.
type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

// errorWords sorts codex's words. What is not here goes by the status and the text.
var errorWords = map[string]protocol.ErrorCategory{
	"contextWindowExceeded":      protocol.CategoryContextLimit,
	"sessionBudgetExceeded":      protocol.CategoryUsageLimit,
	"usageLimitExceeded":         protocol.CategoryUsageLimit,
	"rateLimitExceeded":          protocol.CategoryRateLimit,
	"serverOverloaded":           protocol.CategoryRateLimit,
	"unauthorized":               protocol.CategoryAuth,
	"badRequest":                 protocol.CategoryInvalidRequest,
	"modelNotFound":              protocol.CategoryInvalidRequest,
	"cyberPolicy":                protocol.CategoryInvalidRequest,
	"internalServerError":        protocol.CategoryInternal,
	"responseStreamDisconnected": protocol.CategoryNetwork,
}

// word splits the info into codex's word and the HTTP status, if it has one.
func (e *turnError) word() (word string, status int) {
	if word = jsonscan.String(e.Info); word != "" {
		return word, 0
	}
	for o := jsonscan.NewObject(e.Info); o.Next(); {
		n, _ := jsonscan.Int(jsonscan.Get(o.Value(), "httpStatusCode"))
		return o.Key(), int(n)
	}
	return "", 0
}

// text is what the error says to a person: the provider's own message where codex gives its whole JSON body.
func (e *turnError) text() string {
	message := e.Message
	if strings.HasPrefix(message, "{") && json.Valid([]byte(message)) {
		if inner := jsonscan.String(jsonscan.Get(jsonscan.Get([]byte(message), "error"), "message")); inner != "" {
			message = inner
		}
	}
	return message
}

func (e *turnError) category() protocol.ErrorCategory {
	word, status := e.word()
	if status >= 400 && status != 404 {
		return protocol.Classify(status, e.Message)
	}
	if c, ok := errorWords[word]; ok {
		return c
	}
	return categoryOf(status, e.Message+" "+e.Details)
}

// categoryOf sorts by the text, where codex has no better word than "other".
func categoryOf(status int, text string) protocol.ErrorCategory {
	switch {
	case strings.Contains(text, "Missing environment variable"):
		return protocol.CategoryAuth
	case strings.Contains(text, "invalid_request_error"):
		return protocol.CategoryInvalidRequest
	case strings.Contains(text, "high demand"):
		return protocol.CategoryInternal
	case strings.Contains(text, "at capacity"):
		return protocol.CategoryRateLimit
	case strings.Contains(text, "ran out of room"):
		return protocol.CategoryContextLimit
	case strings.Contains(text, "unexpected status 401"), strings.Contains(text, "unexpected status 403"):
		return protocol.CategoryAuth
	}
	return protocol.Classify(status, text)
}

// failedEnd is the end of a turn that codex calls failed. A reply that was cut by a limit is no error to the protocol.
func failedEnd(e *turnError, hide redact.Redactor) harness.TurnEnd {
	word, _ := e.word()
	switch {
	case strings.Contains(e.Message, "reason: max_output_tokens"):
		return harness.TurnEnd{StopReason: protocol.StopMaxTokens, FinishReason: "max_output_tokens"}
	case strings.Contains(e.Message, "reason: content_filter"):
		return harness.TurnEnd{StopReason: protocol.StopRefusal, FinishReason: "content_filter"}
	}
	message := hide.Text(e.text())
	if message == "" {
		message = "codex ended the turn without saying why; send it again"
	}
	category := e.category()
	if advice := advice(category, word, message); advice != "" {
		message += " (" + advice + ")"
	}
	return harness.TurnEnd{StopReason: protocol.StopError, FinishReason: word, Error: &protocol.TurnError{Category: category, Message: message}}
}

// advice says what to do, where codex speaks to a person at its terminal or not at all.
func advice(category protocol.ErrorCategory, word, message string) string {
	switch {
	case strings.Contains(message, "Missing environment variable"):
		return "set it for the server, or give config.apiKey"
	case category == protocol.CategoryAuth:
		return "check config.apiKey, or log in with `codex login` on the server's machine"
	case word == "modelNotFound":
		return "check config.model"
	case category == protocol.CategoryNetwork:
		return "check the server's network and the provider's address, then send the turn again"
	case category == protocol.CategoryRateLimit:
		return "wait a moment and send the turn again"
	}
	return ""
}
