package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A Part is a piece of a message. The union is sealed: its members are the pointer types of the table below and [UnknownPart].
type Part interface {
	// PartType is the part's discriminator.
	PartType() PartType
	// Header returns the fields that every part has.
	Header() *PartHeader
	member
}

// parts is the one table that adding a part type touches.
var parts = map[PartType]func() Part{
	PartText:      func() Part { return new(TextPart) },
	PartReasoning: func() Part { return new(ReasoningPart) },
	PartTool:      func() Part { return new(ToolPart) },
	PartImage:     func() Part { return new(ImagePart) },
	PartFile:      func() Part { return new(FilePart) },
}

// PartHeader holds what every part has. A part has no ordering field: its place is the event's outputIndex and partIndex.
type PartHeader struct {
	wire
	ID        PartID    `json:"id"`
	SessionID SessionID `json:"sessionId"`
	MessageID MessageID `json:"messageId"`
	// ParentToolCallID is the tool call under which a sub-agent made the part.
	ParentToolCallID string `json:"parentToolCallId,omitempty"`
	Meta             Meta   `json:"_meta,omitempty"`
}

// Header returns h itself, so that every part has the method.
func (h *PartHeader) Header() *PartHeader { return h }

// TextPart is text of the model, or of the user in an echo.
type TextPart struct {
	PartHeader
	Text  string    `json:"text"`
	State PartState `json:"state,omitempty"`
}

// ReasoningPart is a thought of the model. ProviderMetadata is {"redacted":true} for a redacted one.
type ReasoningPart struct {
	PartHeader
	Text             string          `json:"text"`
	State            PartState       `json:"state,omitempty"`
	Time             *TimeSpan       `json:"time,omitempty"`
	ProviderMetadata json.RawMessage `json:"providerMetadata,omitempty"`
}

// TimeSpan is when something began and ended, in milliseconds since the Unix epoch. End is 0 while it goes on.
type TimeSpan struct {
	Start int64 `json:"start"`
	End   int64 `json:"end,omitempty"`
}

// ToolPart is a tool call and its result.
type ToolPart struct {
	PartHeader
	// ToolCallID is the provider's id of the call.
	ToolCallID string `json:"toolCallId"`
	// ToolName is the provider's own name.
	ToolName  string     `json:"toolName"`
	Kind      ToolKind   `json:"kind,omitempty"`
	Title     string     `json:"title,omitempty"`
	Locations []Location `json:"locations,omitempty"`
	// Subagent is present when the call runs a sub-agent; the kind is then [ToolKindTask].
	Subagent *Subagent `json:"subagent,omitempty"`
	State    ToolState `json:"state"`
}

// Location is a place that a tool works on. Line counts from 1; 0 means the whole file.
type Location struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"`
}

// Subagent describes the agent that a tool call runs.
type Subagent struct {
	Type        string `json:"type,omitempty"`
	Description string `json:"description,omitempty"`
	Model       string `json:"model,omitempty"`
	AgentID     string `json:"agentId,omitempty"`
}

// ImagePart is a picture: exactly one of Data (base64) and URL is set.
type ImagePart struct {
	PartHeader
	Data     string `json:"data,omitempty"`
	URL      string `json:"url,omitempty"`
	MimeType string `json:"mimeType"`
}

// FilePart is a file: exactly one of Data (base64) and URL is set.
type FilePart struct {
	PartHeader
	Data     string `json:"data,omitempty"`
	URL      string `json:"url,omitempty"`
	MimeType string `json:"mimeType"`
	Filename string `json:"filename,omitempty"`
}

// UnknownPart is a part of a type that this build does not know. It encodes back to the bytes it was decoded from.
type UnknownPart struct {
	PartHeader
	// Type is the discriminator as it was sent.
	Type PartType `json:"-"`
}

// JSON returns the whole part as it was sent. It must not be changed.
func (p *UnknownPart) JSON() json.RawMessage { return p.raw }

// PartType implements [Part].
func (*TextPart) PartType() PartType { return PartText }

// PartType implements [Part].
func (*ReasoningPart) PartType() PartType { return PartReasoning }

// PartType implements [Part].
func (*ToolPart) PartType() PartType { return PartTool }

// PartType implements [Part].
func (*ImagePart) PartType() PartType { return PartImage }

// PartType implements [Part].
func (*FilePart) PartType() PartType { return PartFile }

// PartType returns the discriminator as it was sent.
func (p *UnknownPart) PartType() PartType { return p.Type }

func (p *PartHeader) validate() error { return notBlank("id", string(p.ID)) }

func (p *ToolPart) validate() error {
	if p.State == nil {
		return fmt.Errorf("state: is missing")
	}
	if p.Subagent != nil && p.Kind != ToolKindTask {
		return fmt.Errorf("kind: must be %q on a part with a subagent", ToolKindTask)
	}
	return firstError(p.PartHeader.validate(), notBlank("toolCallId", p.ToolCallID, "toolName", p.ToolName), notBlankIf("kind", string(p.Kind)))
}

func (p *ImagePart) validate() error {
	return firstError(p.PartHeader.validate(), oneSource(p.Data, p.URL), notBlank("mimeType", p.MimeType))
}

func (p *FilePart) validate() error {
	return firstError(p.PartHeader.validate(), oneSource(p.Data, p.URL), notBlank("mimeType", p.MimeType))
}

func oneSource(data, url string) error {
	if (data == "") == (url == "") {
		return fmt.Errorf("exactly one of data and url must be given")
	}
	return nil
}

// DecodePart decodes one part. An unknown type gives an [UnknownPart]; a known type with a malformed body is an error that names the field. The
// part refers to data, which must not be changed afterwards.
func DecodePart(data []byte) (Part, error) {
	if !json.Valid(data) {
		return nil, fmt.Errorf("part: not valid JSON")
	}
	return decodePart(bytes.TrimSpace(data))
}

func decodePart(data []byte) (Part, error) {
	typ, err := discriminatorOf(data, "type")
	if err != nil {
		return nil, fmt.Errorf("part: %w", err)
	}
	var p Part
	if mk, ok := parts[PartType(typ)]; ok {
		p = mk()
	} else {
		p = &UnknownPart{Type: PartType(typ)}
	}
	if err := decodeMember(data, p); err != nil {
		return nil, fmt.Errorf("part %s: %w", typ, err)
	}
	return p, nil
}

// Fresh forgets the wire form of a decoded part and returns the part, so that a changed copy can be encoded: c := *part; c.Text = ...; Fresh(&c).
func Fresh[P Part](p P) P {
	p.wireForm().raw = nil
	return p
}
