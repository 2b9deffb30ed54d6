package protocol

import (
	"encoding/json"
	"fmt"
)

// PermissionRequested asks whether a tool may run. It is answered with `permission/respond` and resolved by exactly one [PermissionResolved]
// before its turn ends.
type PermissionRequested struct {
	EventHeader
	TurnID    TurnID             `json:"turnId"`
	RequestID RequestID          `json:"requestId"`
	Title     string             `json:"title"`
	ToolCall  *PermissionTool    `json:"toolCall,omitempty"`
	Options   []PermissionOption `json:"options"`
}

// PermissionTool describes the call that wants to run. ToolCallID is the [ToolPart.ToolCallID] of the part that shows it, where there is one.
type PermissionTool struct {
	ToolCallID string          `json:"toolCallId,omitempty"`
	ToolName   string          `json:"toolName"`
	Kind       ToolKind        `json:"kind,omitempty"`
	Title      string          `json:"title,omitempty"`
	Locations  []Location      `json:"locations,omitempty"`
	RawInput   json.RawMessage `json:"rawInput,omitempty"`
}

// A PermissionOption is one possible answer.
type PermissionOption struct {
	OptionID string     `json:"optionId"`
	Name     string     `json:"name"`
	Kind     OptionKind `json:"kind"`
}

// PermissionResolved says how a request was settled, by whomever: a client, a standing rule that came to be, a timeout, the turn's end.
type PermissionResolved struct {
	EventHeader
	TurnID    TurnID            `json:"turnId"`
	RequestID RequestID         `json:"requestId"`
	Outcome   PermissionOutcome `json:"outcome"`
}

// PermissionOutcome is {outcome:"selected", optionId, updatedInput?} or {outcome:"cancelled"}. UpdatedInput is what runs in place of the
// requested input; the call is denied where the harness cannot express that.
type PermissionOutcome struct {
	Outcome      OutcomeKind     `json:"outcome"`
	OptionID     string          `json:"optionId,omitempty"`
	UpdatedInput json.RawMessage `json:"updatedInput,omitempty"`
}

// The ids of the four options that the engine offers.
const (
	OptionIDAllow        = "allow"
	OptionIDAllowAlways  = "allow_always"
	OptionIDReject       = "reject"
	OptionIDRejectAlways = "reject_always"
)

// Options returns the four options that the engine offers with every request.
func Options() []PermissionOption {
	return []PermissionOption{
		{OptionIDAllow, "Allow", OptionAllowOnce},
		{OptionIDAllowAlways, "Always allow", OptionAllowAlways},
		{OptionIDReject, "Reject", OptionRejectOnce},
		{OptionIDRejectAlways, "Always reject", OptionRejectAlways},
	}
}

// Selected returns the outcome that chooses an option.
func Selected(optionID string) PermissionOutcome {
	return PermissionOutcome{Outcome: OutcomeSelected, OptionID: optionID}
}

// Cancelled returns the outcome of a request that nobody answered.
func Cancelled() PermissionOutcome { return PermissionOutcome{Outcome: OutcomeCancelled} }

func (*PermissionRequested) EventType() EventType { return EventPermissionRequest }
func (*PermissionResolved) EventType() EventType  { return EventPermissionResolved }

func (e *PermissionRequested) validate() error {
	if err := notBlank("turnId", string(e.TurnID), "requestId", string(e.RequestID)); err != nil {
		return err
	}
	if e.ToolCall != nil {
		if err := notBlank("toolCall.toolName", e.ToolCall.ToolName); err != nil {
			return err
		}
	}
	if len(e.Options) == 0 {
		return fmt.Errorf("options: must not be empty")
	}
	for i, o := range e.Options {
		if o.OptionID == "" || o.Kind == "" {
			return fmt.Errorf("options[%d]: optionId and kind must not be blank", i)
		}
	}
	return nil
}

func (e *PermissionResolved) validate() error {
	return firstError(notBlank("turnId", string(e.TurnID), "requestId", string(e.RequestID)), e.Outcome.validate())
}

func (o *PermissionOutcome) validate() error {
	switch o.Outcome {
	case OutcomeSelected:
		return notBlank("outcome.optionId", o.OptionID)
	case OutcomeCancelled:
		return nil
	}
	return fmt.Errorf("outcome.outcome: must be %q or %q", OutcomeSelected, OutcomeCancelled)
}
