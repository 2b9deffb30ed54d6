package protocol

import (
	"bytes"
	"encoding/json"
)

// The JSON methods of the unions' members. encoding/json finds a type's method before its fields, so each member encodes its fields under a
// local type without methods.

func (e *SessionCreated) discriminator() (string, string)      { return "type", string(e.EventType()) }
func (e *SessionEnded) discriminator() (string, string)        { return "type", string(e.EventType()) }
func (e *SessionUsage) discriminator() (string, string)        { return "type", string(e.EventType()) }
func (e *SessionCompaction) discriminator() (string, string)   { return "type", string(e.EventType()) }
func (e *SessionNotice) discriminator() (string, string)       { return "type", string(e.EventType()) }
func (e *TurnStarted) discriminator() (string, string)         { return "type", string(e.EventType()) }
func (e *TurnEnded) discriminator() (string, string)           { return "type", string(e.EventType()) }
func (e *MessageStarted) discriminator() (string, string)      { return "type", string(e.EventType()) }
func (e *MessagePart) discriminator() (string, string)         { return "type", string(e.EventType()) }
func (e *MessagePartDelta) discriminator() (string, string)    { return "type", string(e.EventType()) }
func (e *MessageEnded) discriminator() (string, string)        { return "type", string(e.EventType()) }
func (e *PermissionRequested) discriminator() (string, string) { return "type", string(e.EventType()) }
func (e *PermissionResolved) discriminator() (string, string)  { return "type", string(e.EventType()) }
func (e *ErrorEvent) discriminator() (string, string)          { return "type", string(e.EventType()) }
func (e *Raw) discriminator() (string, string)                 { return "type", string(e.EventType()) }
func (e *UnknownEvent) discriminator() (string, string)        { return "type", string(e.EventType()) }

func (p *TextPart) discriminator() (string, string)      { return "type", string(p.PartType()) }
func (p *ReasoningPart) discriminator() (string, string) { return "type", string(p.PartType()) }
func (p *ToolPart) discriminator() (string, string)      { return "type", string(p.PartType()) }
func (p *ImagePart) discriminator() (string, string)     { return "type", string(p.PartType()) }
func (p *FilePart) discriminator() (string, string)      { return "type", string(p.PartType()) }
func (p *UnknownPart) discriminator() (string, string)   { return "type", string(p.PartType()) }

func (d *TextDelta) discriminator() (string, string)      { return "type", string(d.DeltaType()) }
func (d *ReasoningDelta) discriminator() (string, string) { return "type", string(d.DeltaType()) }
func (d *ToolInputDelta) discriminator() (string, string) { return "type", string(d.DeltaType()) }
func (d *UnknownDelta) discriminator() (string, string)   { return "type", string(d.DeltaType()) }

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *SessionCreated) MarshalJSON() ([]byte, error) {
	type plain SessionCreated
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *SessionEnded) MarshalJSON() ([]byte, error) {
	type plain SessionEnded
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *SessionUsage) MarshalJSON() ([]byte, error) {
	type plain SessionUsage
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *SessionCompaction) MarshalJSON() ([]byte, error) {
	type plain SessionCompaction
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *SessionNotice) MarshalJSON() ([]byte, error) {
	type plain SessionNotice
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *TurnStarted) MarshalJSON() ([]byte, error) {
	type plain TurnStarted
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *TurnEnded) MarshalJSON() ([]byte, error) {
	type plain TurnEnded
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *MessageStarted) MarshalJSON() ([]byte, error) {
	type plain MessageStarted
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *MessagePart) MarshalJSON() ([]byte, error) {
	type plain MessagePart
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *MessagePartDelta) MarshalJSON() ([]byte, error) {
	type plain MessagePartDelta
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *MessageEnded) MarshalJSON() ([]byte, error) {
	type plain MessageEnded
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *PermissionRequested) MarshalJSON() ([]byte, error) {
	type plain PermissionRequested
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *PermissionResolved) MarshalJSON() ([]byte, error) {
	type plain PermissionResolved
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *ErrorEvent) MarshalJSON() ([]byte, error) {
	type plain ErrorEvent
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *Raw) MarshalJSON() ([]byte, error) {
	type plain Raw
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *UnknownEvent) MarshalJSON() ([]byte, error) {
	type plain UnknownEvent
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *TextPart) MarshalJSON() ([]byte, error) {
	type plain TextPart
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *ReasoningPart) MarshalJSON() ([]byte, error) {
	type plain ReasoningPart
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *ToolPart) MarshalJSON() ([]byte, error) {
	type plain ToolPart
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *ImagePart) MarshalJSON() ([]byte, error) {
	type plain ImagePart
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *FilePart) MarshalJSON() ([]byte, error) {
	type plain FilePart
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *UnknownPart) MarshalJSON() ([]byte, error) {
	type plain UnknownPart
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *ToolPending) MarshalJSON() ([]byte, error) {
	type plain ToolPending
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *ToolInProgress) MarshalJSON() ([]byte, error) {
	type plain ToolInProgress
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *ToolCompleted) MarshalJSON() ([]byte, error) {
	type plain ToolCompleted
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *ToolFailed) MarshalJSON() ([]byte, error) {
	type plain ToolFailed
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *ToolCancelled) MarshalJSON() ([]byte, error) {
	type plain ToolCancelled
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *TextDelta) MarshalJSON() ([]byte, error) {
	type plain TextDelta
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *ReasoningDelta) MarshalJSON() ([]byte, error) {
	type plain ReasoningDelta
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *ToolInputDelta) MarshalJSON() ([]byte, error) {
	type plain ToolInputDelta
	return marshalMember(v, (*plain)(v))
}

// MarshalJSON encodes the value with its discriminator: the bytes it was decoded from, if it was.
func (v *UnknownDelta) MarshalJSON() ([]byte, error) {
	type plain UnknownDelta
	return marshalMember(v, (*plain)(v))
}

// UnmarshalJSON decodes the fields, the part by its own type.
func (e *MessagePart) UnmarshalJSON(data []byte) error {
	type plain MessagePart
	aux := struct {
		*plain
		Part json.RawMessage `json:"part"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(data, &aux); err != nil {
		return err
	}
	var err error
	e.Part, err = decodePart(bytes.TrimSpace(aux.Part))
	return err
}

// UnmarshalJSON decodes the fields, the delta by its own type.
func (e *MessagePartDelta) UnmarshalJSON(data []byte) error {
	type plain MessagePartDelta
	aux := struct {
		*plain
		Delta json.RawMessage `json:"delta"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(data, &aux); err != nil {
		return err
	}
	var err error
	e.Delta, err = decodeDelta(bytes.TrimSpace(aux.Delta))
	return err
}

// UnmarshalJSON decodes the fields, the state by its own status.
func (p *ToolPart) UnmarshalJSON(data []byte) error {
	type plain ToolPart
	aux := struct {
		*plain
		State json.RawMessage `json:"state"`
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(data, &aux); err != nil {
		return err
	}
	var err error
	p.State, err = decodeToolState(bytes.TrimSpace(aux.State))
	return err
}
