package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"agentserver/internal/transport"
)

// The messages of ACP, as far as they are used. A field of an unexpected type is left at zero, as the protocol asks of a receiver.

type object = map[string]any

const version = 1 // of the protocol

// The error codes of ACP.
const (
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeAuthRequired   = -32000
	codeNotFound       = -32002
	codeCancelled      = -32800
)

// lenient decodes raw into v and reports whether it is JSON at all.
func lenient(raw []byte, v any) bool {
	if len(raw) == 0 {
		return false
	}
	err := json.Unmarshal(raw, v)
	if err == nil {
		return true
	}
	_, wrongType := errors.AsType[*json.UnmarshalTypeError](err)
	return wrongType
}

// present reports whether a capability marker is given: anything but null and false.
func present(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "null" && string(raw) != "false"
}

type initializeResult struct {
	ProtocolVersion int               `json:"protocolVersion"`
	Capabilities    agentCapabilities `json:"agentCapabilities"`
	AuthMethods     []authMethod      `json:"authMethods"`
	Agent           struct {
		Name    string `json:"name"`
		Title   string `json:"title"`
		Version string `json:"version"`
	} `json:"agentInfo"`
	Meta struct {
		Steering struct {
			Supported bool `json:"supported"`
		} `json:"steering"`
	} `json:"_meta"`
}

type agentCapabilities struct {
	LoadSession bool `json:"loadSession"`
	Prompt      struct {
		Image           bool `json:"image"`
		Audio           bool `json:"audio"`
		EmbeddedContext bool `json:"embeddedContext"`
	} `json:"promptCapabilities"`
	MCP struct {
		HTTP bool `json:"http"`
		SSE  bool `json:"sse"`
	} `json:"mcpCapabilities"`
	Session struct {
		Resume                json.RawMessage `json:"resume"`
		AdditionalDirectories json.RawMessage `json:"additionalDirectories"`
	} `json:"sessionCapabilities"`
}

// authMethod is a way to log in. Type is empty or "agent" for what authenticate starts.
type authMethod struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"type"`
	Meta struct {
		Type string `json:"type"` // where qwen hides it
	} `json:"_meta"`
}

func (m authMethod) automatic() bool {
	return (m.Type == "" || m.Type == "agent") && (m.Meta.Type == "" || m.Meta.Type == "agent")
}

// sessionResult answers session/new, session/load and session/resume.
type sessionResult struct {
	SessionID     string         `json:"sessionId"`
	Modes         *modeState     `json:"modes"`
	Models        *modelState    `json:"models"`
	ConfigOptions []configOption `json:"configOptions"`
}

type modeState struct {
	Current   string `json:"currentModeId"`
	Available []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"availableModes"`
}

// modelState belongs to session/set_model, which was removed before it was stable but is what some agents have.
type modelState struct {
	Current   string `json:"currentModelId"`
	Available []struct {
		ID   string `json:"modelId"`
		Name string `json:"name"`
	} `json:"availableModels"`
}

type configOption struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Category string          `json:"category"`
	Type     string          `json:"type"`
	Current  json.RawMessage `json:"currentValue"`
	Options  []configValue   `json:"options"`
}

// configValue is a value, or a group of them.
type configValue struct {
	Value   string        `json:"value"`
	Name    string        `json:"name"`
	Options []configValue `json:"options"`
}

// updateParams are those of session/update.
type updateParams struct {
	SessionID string          `json:"sessionId"`
	Update    json.RawMessage `json:"update"`
}

// update is the union of the updates' fields.
type update struct {
	Kind string `json:"sessionUpdate"`
	toolFields
	MessageID string `json:"messageId"`
	// of a plan
	Entries []planEntry `json:"entries"`
	// of commands, modes and options
	Commands      []command       `json:"availableCommands"`
	CurrentModeID string          `json:"currentModeId"`
	ModeID        string          `json:"modeId"`
	ConfigOptions json.RawMessage `json:"configOptions"`
	// of usage
	Used *int64 `json:"used"`
	Size int64  `json:"size"`
	Cost *struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	} `json:"cost"`
	// of a notice
	Severity    string `json:"severity"`
	Description string `json:"description"`
	// of a compaction
	CompactionID string          `json:"compactionId"`
	Summary      json.RawMessage `json:"summary"`
}

// toolFields are those of a tool call, in updates and in permission requests. Content is a list there, and one block in a message chunk.
type toolFields struct {
	ToolCallID string          `json:"toolCallId"`
	Title      json.RawMessage `json:"title"` // null clears that of a session
	Name       string          `json:"name"`
	ToolKind   string          `json:"kind"`
	Status     string          `json:"status"`
	Content    json.RawMessage `json:"content"`
	Locations  json.RawMessage `json:"locations"`
	RawInput   json.RawMessage `json:"rawInput"`
	RawOutput  json.RawMessage `json:"rawOutput"`
	Meta       json.RawMessage `json:"_meta"`
}

type planEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority,omitempty"`
	Status   string `json:"status"`
}

type command struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Input       *struct {
		Hint string `json:"hint,omitempty"`
	} `json:"input,omitempty"`
}

// contentBlock is a ContentBlock.
type contentBlock struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MimeType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Resource struct {
		URI      string  `json:"uri"`
		MimeType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     string  `json:"blob"`
	} `json:"resource"`
}

// toolContent is one item of a tool call's content.
type toolContent struct {
	Type       string       `json:"type"`
	Content    contentBlock `json:"content"`
	Path       string       `json:"path"`
	OldText    *string      `json:"oldText"`
	NewText    *string      `json:"newText"`
	TerminalID string       `json:"terminalId"`
}

type location struct {
	Path string `json:"path"`
	Line int    `json:"line"`
}

type permissionParams struct {
	SessionID string             `json:"sessionId"`
	ToolCall  toolFields         `json:"toolCall"`
	Options   []permissionOption `json:"options"`
}

type permissionOption struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// tokenCount holds the counts under all the names that agents use.
type tokenCount struct {
	Total       int64 `json:"totalTokens"`
	Input       int64 `json:"inputTokens"`
	Output      int64 `json:"outputTokens"`
	Thought     int64 `json:"thoughtTokens"`
	CachedRead  int64 `json:"cachedReadTokens"`
	CachedWrite int64 `json:"cachedWriteTokens"`
	// as gemini writes it
	SnakeInput  int64 `json:"input_tokens"`
	SnakeOutput int64 `json:"output_tokens"`
}

type promptResult struct {
	StopReason string      `json:"stopReason"`
	Usage      *tokenCount `json:"usage"`
	Meta       struct {
		Quota struct {
			Tokens *tokenCount `json:"token_count"`
		} `json:"quota"`
	} `json:"_meta"`
}

// errorText returns what an agent's error says to a person.
func errorText(e *transport.Error) string {
	message := strings.TrimPrefix(strings.TrimSpace(e.Message), "Internal error: ")
	detail := ""
	var data struct {
		Details string `json:"details"`
		Message string `json:"message"`
	}
	if json.Unmarshal(e.Data, &detail) != nil && lenient(e.Data, &data) {
		detail = data.Details
		if detail == "" {
			detail = data.Message
		}
	}
	if detail = strings.TrimSpace(detail); detail == "" || strings.Contains(message, detail) {
		return message
	}
	if message == "" || message == "Internal error" {
		return detail
	}
	return message + ": " + detail
}

// str decodes a JSON string; anything else is empty.
func str(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// encode is json.Marshal without HTML escaping, for values that always encode.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
