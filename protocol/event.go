package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"

	"agentserver/protocol/jsonscan"
)

// An Event is one entry of a session's history. The union is sealed: its members are the pointer types of the table below and
// [UnknownEvent]. Switch on the type, with a default for what is not handled.
type Event interface {
	// EventType is the event's discriminator.
	EventType() EventType
	// Header returns the fields that every event has.
	Header() *EventHeader
	member
}

// events is the one table that adding an event type touches.
var events = map[EventType]func() Event{
	EventSessionCreated:     func() Event { return new(SessionCreated) },
	EventSessionEnded:       func() Event { return new(SessionEnded) },
	EventSessionUsage:       func() Event { return new(SessionUsage) },
	EventSessionCompaction:  func() Event { return new(SessionCompaction) },
	EventSessionNotice:      func() Event { return new(SessionNotice) },
	EventTurnStarted:        func() Event { return new(TurnStarted) },
	EventTurnEnded:          func() Event { return new(TurnEnded) },
	EventMessageStarted:     func() Event { return new(MessageStarted) },
	EventMessagePart:        func() Event { return new(MessagePart) },
	EventMessagePartDelta:   func() Event { return new(MessagePartDelta) },
	EventMessageEnded:       func() Event { return new(MessageEnded) },
	EventPermissionRequest:  func() Event { return new(PermissionRequested) },
	EventPermissionResolved: func() Event { return new(PermissionResolved) },
	EventError:              func() Event { return new(ErrorEvent) },
	EventRaw:                func() Event { return new(Raw) },
}

// EventHeader holds what every event has. The envelope's session id is the authority; the event's own repeats it.
type EventHeader struct {
	wire
	SessionID SessionID `json:"sessionId,omitempty"`
	// Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it.
	Timestamp int64 `json:"timestamp"`
	Meta      Meta  `json:"_meta,omitempty"`
}

// Header returns h itself, so that every event has the method.
func (h *EventHeader) Header() *EventHeader { return h }

// UnknownEvent is an event of a type that this build does not know. It encodes back to the bytes it was decoded from.
type UnknownEvent struct {
	EventHeader
	// Type is the discriminator as it was sent.
	Type EventType `json:"-"`
}

// EventType returns the discriminator as it was sent.
func (e *UnknownEvent) EventType() EventType { return e.Type }

// JSON returns the whole event as it was sent. It must not be changed.
func (e *UnknownEvent) JSON() json.RawMessage { return e.raw }

// DecodeEvent decodes one event. An unknown type gives an [UnknownEvent]; a known type with a malformed body is an error that names the field.
// The event refers to data, which must not be changed afterwards.
func DecodeEvent(data []byte) (Event, error) {
	if !json.Valid(data) {
		return nil, fmt.Errorf("event: not valid JSON")
	}
	return decodeEvent(bytes.TrimSpace(data))
}

// decodeEvent decodes valid JSON.
func decodeEvent(data []byte) (Event, error) {
	if bytes.HasPrefix(data, plainDeltaPrefix) {
		if e := decodePlainDelta(data); e != nil {
			return e, nil
		}
	}
	typ, err := discriminatorOf(data, "type")
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	var e Event
	if mk, ok := events[EventType(typ)]; ok {
		e = mk()
	} else {
		e = &UnknownEvent{Type: EventType(typ)}
	}
	if err := decodeMember(data, e); err != nil {
		return nil, fmt.Errorf("event %s: %w", typ, err)
	}
	if e.EventType() != EventError && e.Header().SessionID == "" {
		return nil, fmt.Errorf("event %s: sessionId: is missing", typ)
	}
	return e, nil
}

// discriminatorOf returns the non-blank string member called key, which must stand exactly once.
func discriminatorOf(data []byte, key string) (string, error) {
	if len(data) == 0 || data[0] != '{' {
		return "", fmt.Errorf("must be an object")
	}
	var found []byte
	for o := jsonscan.NewObject(data); o.Next(); {
		if o.Is(key) {
			if found != nil {
				return "", fmt.Errorf("%s: given twice", key)
			}
			found = o.Value()
		}
	}
	if len(found) == 0 || found[0] != '"' {
		return "", fmt.Errorf("%s: must be a string", key)
	}
	s := jsonscan.String(found)
	return s, notBlank(key, s)
}

// EncodeEvent encodes e without HTML escaping. It fails on an event that its own decoder would refuse.
func EncodeEvent(e Event) ([]byte, error) {
	if h := e.Header(); h.raw == nil && h.SessionID == "" && e.EventType() != EventError {
		return nil, fmt.Errorf("event %s: sessionId: is missing", e.EventType())
	}
	m, ok := e.(json.Marshaler)
	if !ok {
		return nil, fmt.Errorf("event %s: cannot be encoded", e.EventType())
	}
	return m.MarshalJSON()
}
