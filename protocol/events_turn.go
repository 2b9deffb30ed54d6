package protocol

import (
	"encoding/json"
	"fmt"
)

// TurnStarted opens a turn. Its `_meta` holds [MetaOrigin] when the agent began the turn by itself.
type TurnStarted struct {
	EventHeader
	TurnID TurnID `json:"turnId"`
}

// TurnEnded ends a turn: exactly one per turn, and the turn's last event but for late tool parts.
type TurnEnded struct {
	EventHeader
	TurnID     TurnID     `json:"turnId"`
	StopReason StopReason `json:"stopReason"`
	// FinishReason is the provider's own word.
	FinishReason string `json:"finishReason,omitempty"`
	// Tokens is what this turn used, not a running total.
	Tokens *Tokens `json:"tokens,omitempty"`
	// Cost is what this turn cost, not a running total.
	Cost *Cost `json:"cost,omitempty"`
	// Error is present when StopReason is "error".
	Error *TurnError `json:"error,omitempty"`
}

// TurnError says why a turn failed.
type TurnError struct {
	Category ErrorCategory `json:"category"`
	Message  string        `json:"message"`
}

// Error returns the category and the message, so that a TurnError can travel as a Go error.
func (e *TurnError) Error() string { return string(e.Category) + ": " + e.Message }

// Tokens counts a turn's tokens. Billed input is Input + Cache.Read + Cache.Write; Reasoning is part of Output.
type Tokens struct {
	// Input excludes cached tokens.
	Input     int64        `json:"input"`
	Output    int64        `json:"output"`
	Reasoning int64        `json:"reasoning,omitempty"`
	Cache     *CacheTokens `json:"cache,omitempty"`
}

// CacheTokens counts tokens read from and written to the provider's prompt cache; the ephemeral counts are parts of Write.
type CacheTokens struct {
	Read             int64 `json:"read"`
	Write            int64 `json:"write"`
	WriteEphemeral5m int64 `json:"writeEphemeral5m,omitempty"`
	WriteEphemeral1h int64 `json:"writeEphemeral1h,omitempty"`
}

// Cost is an amount of money: {amount, currency}, as ACP writes it (RFD 0002).
type Cost struct {
	Amount float64 `json:"amount"`
	// Currency is an ISO 4217 code; "USD" when absent.
	Currency string `json:"currency,omitempty"`
}

// USD returns an amount of US dollars.
func USD(amount float64) *Cost { return &Cost{Amount: amount, Currency: "USD"} }

// UnmarshalJSON takes the object, and a bare number as US dollars.
func (c *Cost) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] != '{' {
		*c = Cost{Currency: "USD"}
		return json.Unmarshal(data, &c.Amount)
	}
	type plain Cost
	return decodeStrict(data, (*plain)(c))
}

// MessageStarted opens a message. One message is open at a time.
type MessageStarted struct {
	EventHeader
	TurnID    TurnID    `json:"turnId"`
	MessageID MessageID `json:"messageId"`
	// OutputIndex orders the messages of a turn; the user echo is 0.
	OutputIndex int  `json:"outputIndex"`
	Role        Role `json:"role"`
	// ParentToolCallID is the tool call under which a sub-agent speaks.
	ParentToolCallID string `json:"parentToolCallId,omitempty"`
	Model            string `json:"model,omitempty"`
}

// MessagePart is a full snapshot of a part: an upsert by the part's id. It replaces what deltas built.
type MessagePart struct {
	EventHeader
	TurnID      TurnID    `json:"turnId"`
	MessageID   MessageID `json:"messageId"`
	OutputIndex int       `json:"outputIndex"`
	PartIndex   int       `json:"partIndex"`
	Part        Part      `json:"part"`
}

// MessagePartDelta appends to an open part.
type MessagePartDelta struct {
	EventHeader
	TurnID      TurnID    `json:"turnId"`
	MessageID   MessageID `json:"messageId"`
	OutputIndex int       `json:"outputIndex"`
	PartIndex   int       `json:"partIndex"`
	PartID      PartID    `json:"partId"`
	Delta       Delta     `json:"delta"`
}

// MessageEnded closes a message.
type MessageEnded struct {
	EventHeader
	TurnID    TurnID    `json:"turnId"`
	MessageID MessageID `json:"messageId"`
}

// ErrorEvent reports an error. Recoverable says that the turn goes on; the end of a turn is always [TurnEnded].
type ErrorEvent struct {
	EventHeader
	TurnID      TurnID        `json:"turnId,omitempty"`
	Category    ErrorCategory `json:"category"`
	Message     string        `json:"message"`
	Recoverable bool          `json:"recoverable"`
	Stack       string        `json:"stack,omitempty"`
}

// Raw is a message of the agent as it came; only with [RunConfig.IncludeRaw], and with no promise of stability.
type Raw struct {
	EventHeader
	TurnID  TurnID          `json:"turnId"`
	Harness HarnessID       `json:"harness"`
	Data    json.RawMessage `json:"data"`
}

func (*TurnStarted) EventType() EventType      { return EventTurnStarted }
func (*TurnEnded) EventType() EventType        { return EventTurnEnded }
func (*MessageStarted) EventType() EventType   { return EventMessageStarted }
func (*MessagePart) EventType() EventType      { return EventMessagePart }
func (*MessagePartDelta) EventType() EventType { return EventMessagePartDelta }
func (*MessageEnded) EventType() EventType     { return EventMessageEnded }
func (*ErrorEvent) EventType() EventType       { return EventError }
func (*Raw) EventType() EventType              { return EventRaw }

func (e *TurnStarted) validate() error { return notBlank("turnId", string(e.TurnID)) }
func (e *TurnEnded) validate() error {
	if e.Error != nil {
		if err := notBlank("error.category", string(e.Error.Category)); err != nil {
			return err
		}
	}
	return notBlank("turnId", string(e.TurnID), "stopReason", string(e.StopReason))
}
func (e *MessageStarted) validate() error {
	return firstError(notBlank("turnId", string(e.TurnID), "messageId", string(e.MessageID), "role", string(e.Role)),
		notNegative("outputIndex", e.OutputIndex))
}
func (e *MessagePart) validate() error {
	if e.Part == nil {
		return fmt.Errorf("part: is missing")
	}
	return firstError(notBlank("turnId", string(e.TurnID), "messageId", string(e.MessageID)),
		notNegative("outputIndex", e.OutputIndex), notNegative("partIndex", e.PartIndex))
}
func (e *MessagePartDelta) validate() error {
	if e.Delta == nil {
		return fmt.Errorf("delta: is missing")
	}
	return firstError(notBlank("turnId", string(e.TurnID), "messageId", string(e.MessageID), "partId", string(e.PartID)),
		notNegative("outputIndex", e.OutputIndex), notNegative("partIndex", e.PartIndex))
}
func (e *MessageEnded) validate() error {
	return notBlank("turnId", string(e.TurnID), "messageId", string(e.MessageID))
}
func (e *ErrorEvent) validate() error { return notBlank("category", string(e.Category)) }
func (e *Raw) validate() error {
	return notBlank("turnId", string(e.TurnID), "harness", string(e.Harness))
}

func notNegative(name string, n int) error {
	if n < 0 {
		return fmt.Errorf("%s: must not be negative", name)
	}
	return nil
}
