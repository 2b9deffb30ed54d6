package claude

import (
	"bytes"
	"encoding/json"

	"agentserver/protocol/jsonscan"
)

// The lines of the CLI, as far as they are used. Fields that it adds are ignored; kinds that are not known are kept for raw only.

// messageLine is an assistant or user line.
type messageLine struct {
	Message       apiMessage      `json:"message"`
	Parent        string          `json:"parent_tool_use_id"`
	UUID          string          `json:"uuid"`
	Error         string          `json:"error"`
	ErrorStatus   int             `json:"api_error_status"`
	IsReplay      bool            `json:"isReplay"`
	IsSynthetic   bool            `json:"isSynthetic"`
	ToolUseResult json.RawMessage `json:"tool_use_result"`
}

type apiMessage struct {
	ID      string   `json:"id"`
	Model   string   `json:"model"`
	Content blocks   `json:"content"`
	Usage   apiUsage `json:"usage"`
}

// blocks is a content: a list of blocks, or a plain string that stands for one text block.
type blocks []contentBlock

// UnmarshalJSON takes both forms.
func (b *blocks) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]contentBlock)(b))
	}
	if len(data) > 0 && data[0] == '"' {
		*b = blocks{{Type: "text", Text: jsonscan.String(data)}}
	}
	return nil
}

type contentBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	// Content is a tool result's: a string or blocks. The results of the provider's own tools hold objects of other shapes.
	Content json.RawMessage `json:"content"`
	IsError bool            `json:"is_error"`
	Source  *imageSource    `json:"source"`
}

type imageSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
	URL       string `json:"url"`
}

// apiUsage is the usage of one API call or one turn, as the provider counts: input excludes cached tokens.
type apiUsage struct {
	Input         int64 `json:"input_tokens"`
	Output        int64 `json:"output_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
	CacheWrite    int64 `json:"cache_creation_input_tokens"`
	CacheCreation struct {
		Ephemeral5m int64 `json:"ephemeral_5m_input_tokens"`
		Ephemeral1h int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	OutputDetails struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// context is how much of the window the call filled.
func (u apiUsage) context() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.Output }

// resultLine ends a turn of the CLI.
type resultLine struct {
	Subtype          string                `json:"subtype"`
	IsError          bool                  `json:"is_error"`
	APIErrorStatus   int                   `json:"api_error_status"`
	Result           string                `json:"result"`
	Errors           []string              `json:"errors"`
	StopReason       string                `json:"stop_reason"`
	TerminalReason   string                `json:"terminal_reason"`
	SessionID        string                `json:"session_id"`
	TotalCost        float64               `json:"total_cost_usd"`
	Usage            apiUsage              `json:"usage"`
	ModelUsage       map[string]modelUsage `json:"modelUsage"`
	StructuredOutput json.RawMessage       `json:"structured_output"`
	UserUUIDs        []string              `json:"user_message_uuids"`
	Origin           struct {
		Kind string `json:"kind"`
	} `json:"origin"`
}

// modelUsage is cumulative for the process, subagents and side calls included.
type modelUsage struct {
	Input       int64   `json:"inputTokens"`
	Output      int64   `json:"outputTokens"`
	CacheRead   int64   `json:"cacheReadInputTokens"`
	CacheWrite  int64   `json:"cacheCreationInputTokens"`
	Ephemeral5m int64   `json:"cacheCreationEphemeral5mInputTokens"`
	Ephemeral1h int64   `json:"cacheCreationEphemeral1hInputTokens"`
	Thinking    int64   `json:"thinkingTokens"`
	Cost        float64 `json:"costUSD"`
	Window      int64   `json:"contextWindow"`
	Canonical   string  `json:"canonicalModel"`
}

// systemLine is the union of the system lines' fields.
type systemLine struct {
	Subtype        string           `json:"subtype"`
	SessionID      string           `json:"session_id"`
	Model          string           `json:"model"`
	PermissionMode string           `json:"permissionMode"`
	MCPServers     []serverState    `json:"mcp_servers"`
	Status         string           `json:"status"`
	CompactResult  string           `json:"compact_result"`
	CompactError   string           `json:"compact_error"`
	Compact        *compactMetadata `json:"compact_metadata"`
	Attempt        int64            `json:"attempt"`
	MaxRetries     int64            `json:"max_retries"`
	RetryDelayMS   float64          `json:"retry_delay_ms"`
	ErrorStatus    int              `json:"error_status"`
	Error          json.RawMessage  `json:"error"`
	ToolName       string           `json:"tool_name"`
	DecisionReason string           `json:"decision_reason"`
	Message        json.RawMessage  `json:"message"`
	TaskID         string           `json:"task_id"`
	TaskType       string           `json:"task_type"`
	ToolUseID      string           `json:"tool_use_id"`
	SubagentType   string           `json:"subagent_type"`
	Description    string           `json:"description"`
	Summary        string           `json:"summary"`
	State          string           `json:"state"`
	Explanation    string           `json:"api_refusal_explanation"`
	OriginalModel  string           `json:"original_model"`
	FallbackModel  string           `json:"fallback_model"`
}

type serverState struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Error  string `json:"error"`
}

type compactMetadata struct {
	Trigger    string `json:"trigger"`
	PreTokens  *int64 `json:"pre_tokens"`
	PostTokens *int64 `json:"post_tokens"`
}

type rateLimitLine struct {
	Info struct {
		Status       string   `json:"status"`
		ResetsAt     int64    `json:"resetsAt"`
		Type         string   `json:"rateLimitType"`
		Utilization  *float64 `json:"utilization"`
		UsingOverage bool     `json:"isUsingOverage"`
	} `json:"rate_limit_info"`
}

type lifecycleLine struct {
	UUID  string `json:"command_uuid"`
	State string `json:"state"`
}

type controlRequestLine struct {
	RequestID string         `json:"request_id"`
	Request   controlRequest `json:"request"`
}

type controlRequest struct {
	Subtype  string          `json:"subtype"`
	ToolName string          `json:"tool_name"`
	Input    json.RawMessage `json:"input"`
	Title    string          `json:"title"`
	ToolID   string          `json:"tool_use_id"`
	AgentID  string          `json:"agent_id"`
	// of an elicitation
	Server  string          `json:"mcp_server_name"`
	Message json.RawMessage `json:"message"`
	Mode    string          `json:"mode"`
	URL     string          `json:"url"`
	Schema  json.RawMessage `json:"requested_schema"`
}

type controlResponseLine struct {
	Response struct {
		Subtype   string          `json:"subtype"`
		RequestID string          `json:"request_id"`
		Error     string          `json:"error"`
		Response  json.RawMessage `json:"response"`
	} `json:"response"`
}

type controlCancelLine struct {
	RequestID string `json:"request_id"`
}
