package protocol

import (
	"encoding/json"
	"fmt"
)

// A Delta is what a [MessagePartDelta] appends. The union is sealed: its members are the types of the table below and [UnknownDelta].
type Delta interface {
	// DeltaType is the delta's discriminator.
	DeltaType() DeltaType
	member
}

// deltas is the one table that adding a delta type touches.
var deltas = map[DeltaType]func() Delta{
	DeltaText:      func() Delta { return new(TextDelta) },
	DeltaReasoning: func() Delta { return new(ReasoningDelta) },
	DeltaToolInput: func() Delta { return new(ToolInputDelta) },
}

// TextDelta appends to a [TextPart].
type TextDelta struct {
	wire
	Text string `json:"text"`
}

// ReasoningDelta appends to a [ReasoningPart].
type ReasoningDelta struct {
	wire
	Text string `json:"text"`
}

// ToolInputDelta appends Input, a piece of JSON text, to the partialInput of a pending [ToolPart].
type ToolInputDelta struct {
	wire
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`
	Input      string `json:"input"`
}

// UnknownDelta is a delta of a type that this build does not know. It encodes back to the bytes it was decoded from.
type UnknownDelta struct {
	wire
	// Type is the discriminator as it was sent.
	Type DeltaType `json:"-"`
}

// JSON returns the whole delta as it was sent. It must not be changed.
func (d *UnknownDelta) JSON() json.RawMessage { return d.raw }

// DeltaType implements [Delta].
func (*TextDelta) DeltaType() DeltaType { return DeltaText }

// DeltaType implements [Delta].
func (*ReasoningDelta) DeltaType() DeltaType { return DeltaReasoning }

// DeltaType implements [Delta].
func (*ToolInputDelta) DeltaType() DeltaType { return DeltaToolInput }

// DeltaType returns the discriminator as it was sent.
func (d *UnknownDelta) DeltaType() DeltaType { return d.Type }

func decodeDelta(data []byte) (Delta, error) {
	typ, err := discriminatorOf(data, "type")
	if err != nil {
		return nil, fmt.Errorf("delta: %w", err)
	}
	var d Delta
	if mk, ok := deltas[DeltaType(typ)]; ok {
		d = mk()
	} else {
		d = &UnknownDelta{Type: DeltaType(typ)}
	}
	if err := decodeMember(data, d); err != nil {
		return nil, fmt.Errorf("delta %s: %w", typ, err)
	}
	return d, nil
}
