package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A ToolState is where a tool call stands. The union is sealed and closed: an unknown status is an error. A tool walks
// pending → in_progress → one of completed, failed and cancelled, and may skip steps.
type ToolState interface {
	// Status is the state's discriminator.
	Status() ToolStatus
	member
}

// toolStates is the one table of the states.
var toolStates = map[ToolStatus]func() ToolState{
	ToolStatusPending:    func() ToolState { return new(ToolPending) },
	ToolStatusInProgress: func() ToolState { return new(ToolInProgress) },
	ToolStatusCompleted:  func() ToolState { return new(ToolCompleted) },
	ToolStatusFailed:     func() ToolState { return new(ToolFailed) },
	ToolStatusCancelled:  func() ToolState { return new(ToolCancelled) },
}

// ToolPending is a call whose input still streams. PartialInput is JSON text that may be cut anywhere; deltas of type tool_input append to it.
type ToolPending struct {
	wire
	PartialInput string `json:"partialInput"`
	Meta         Meta   `json:"_meta,omitempty"`
}

// ToolInProgress is a call that waits for permission or runs. Input is any JSON value.
type ToolInProgress struct {
	wire
	Input json.RawMessage `json:"input"`
	Title string          `json:"title,omitempty"`
	Time  TimeSpan        `json:"time"`
	Meta  Meta            `json:"_meta,omitempty"`
}

// ToolCompleted is a call that succeeded. Output is the text that the model saw, Content is for display, Metadata for machines (exitCode, …).
type ToolCompleted struct {
	wire
	Input    json.RawMessage `json:"input"`
	Output   string          `json:"output"`
	Content  []ToolContent   `json:"content,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Title    string          `json:"title,omitempty"`
	Time     TimeSpan        `json:"time"`
	Meta     Meta            `json:"_meta,omitempty"`
}

// ToolFailed is a call that failed or was refused. Error is the text that the model saw.
type ToolFailed struct {
	wire
	Input json.RawMessage `json:"input"`
	Error string          `json:"error"`
	Time  TimeSpan        `json:"time"`
	Meta  Meta            `json:"_meta,omitempty"`
}

// ToolCancelled is a call that was stopped. When its input was never whole, Input is {} and `_meta` holds [MetaPartialInput].
type ToolCancelled struct {
	wire
	Input json.RawMessage `json:"input"`
	Time  TimeSpan        `json:"time"`
	Meta  Meta            `json:"_meta,omitempty"`
}

// Status implements [ToolState].
func (*ToolPending) Status() ToolStatus { return ToolStatusPending }

// Status implements [ToolState].
func (*ToolInProgress) Status() ToolStatus { return ToolStatusInProgress }

// Status implements [ToolState].
func (*ToolCompleted) Status() ToolStatus { return ToolStatusCompleted }

// Status implements [ToolState].
func (*ToolFailed) Status() ToolStatus { return ToolStatusFailed }

// Status implements [ToolState].
func (*ToolCancelled) Status() ToolStatus { return ToolStatusCancelled }

// The types of [ToolContent].
const (
	ContentText     = "text"
	ContentImage    = "image"
	ContentDiff     = "diff"
	ContentTerminal = "terminal"
)

// ToolContent is one item of what a tool shows: {type:"text",text}, {type:"image",data,mimeType}, {type:"diff",path,oldText?,newText} or
// {type:"terminal",terminalId}. An item of another type is kept and encodes back to the same bytes.
type ToolContent struct {
	wire
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	Data     string `json:"data,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Path     string `json:"path,omitempty"`
	// OldText is nil for a file that was created.
	OldText    *string `json:"oldText,omitempty"`
	NewText    *string `json:"newText,omitempty"`
	TerminalID string  `json:"terminalId,omitempty"`
}

// TextContent returns a text item.
func TextContent(text string) ToolContent { return ToolContent{Type: ContentText, Text: text} }

// ImageContent returns an image item; data is base64.
func ImageContent(data, mimeType string) ToolContent {
	return ToolContent{Type: ContentImage, Data: data, MimeType: mimeType}
}

// DiffContent returns a diff item; oldText is nil for a file that was created.
func DiffContent(path string, oldText *string, newText string) ToolContent {
	return ToolContent{Type: ContentDiff, Path: path, OldText: oldText, NewText: &newText}
}

// MarshalJSON encodes the item: the required fields of its type even when they are empty.
func (c ToolContent) MarshalJSON() ([]byte, error) {
	if c.raw != nil {
		return c.raw, nil
	}
	switch c.Type {
	case ContentText:
		return marshal(struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{c.Type, c.Text})
	case ContentImage, ContentDiff, ContentTerminal:
		type plain ToolContent
		if err := c.validate(); err != nil {
			return nil, err
		}
		return marshal(plain(c))
	}
	return nil, fmt.Errorf("tool content: type %q cannot be encoded", c.Type)
}

// UnmarshalJSON decodes the item and keeps its bytes.
func (c *ToolContent) UnmarshalJSON(data []byte) error {
	type plain ToolContent
	if err := decodeStrict(data, (*plain)(c)); err != nil {
		return fmt.Errorf("content: %w", err)
	}
	c.raw = bytes.Clone(data)
	if c.Type == ContentText {
		return nil
	}
	return c.validate()
}

func (c *ToolContent) validate() error {
	switch c.Type {
	case ContentImage:
		return notBlank("content.data", c.Data, "content.mimeType", c.MimeType)
	case ContentDiff:
		if c.NewText == nil {
			return fmt.Errorf("content.newText: is missing")
		}
		return notBlank("content.path", c.Path)
	case ContentTerminal:
		return notBlank("content.terminalId", c.TerminalID)
	}
	return notBlank("content.type", c.Type)
}

func decodeToolState(data []byte) (ToolState, error) {
	status, err := discriminatorOf(data, "status")
	if err != nil {
		return nil, err
	}
	mk, ok := toolStates[ToolStatus(status)]
	if !ok {
		return nil, fmt.Errorf("status: %q is not a tool status", status)
	}
	s := mk()
	return s, decodeMember(data, s)
}

func (s *ToolPending) discriminator() (string, string)    { return "status", string(s.Status()) }
func (s *ToolInProgress) discriminator() (string, string) { return "status", string(s.Status()) }
func (s *ToolCompleted) discriminator() (string, string)  { return "status", string(s.Status()) }
func (s *ToolFailed) discriminator() (string, string)     { return "status", string(s.Status()) }
func (s *ToolCancelled) discriminator() (string, string)  { return "status", string(s.Status()) }
