package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"agentserver/protocol/jsonscan"
)

// An Envelope is one row of a session's log: `{sessionId, seq, event}`.
type Envelope struct {
	// SessionID is the authority on the session, above the event's own.
	SessionID SessionID
	// Seq numbers the session's events from 1, without holes.
	Seq   uint64
	Event Event
}

// MarshalJSON encodes the envelope as [AppendEnvelope] does.
func (e Envelope) MarshalJSON() ([]byte, error) { return AppendEnvelope(nil, e) }

// UnmarshalJSON decodes the envelope from a copy of data.
func (e *Envelope) UnmarshalJSON(data []byte) error {
	env, err := decodeEnvelope(bytes.Clone(data))
	if err == nil {
		*e = env
	}
	return err
}

// DecodeEnvelope decodes one envelope. The event refers to data, which must not be changed afterwards.
func DecodeEnvelope(data []byte) (Envelope, error) {
	if !json.Valid(data) {
		return Envelope{}, fmt.Errorf("envelope: not valid JSON")
	}
	return decodeEnvelope(bytes.TrimSpace(data))
}

func decodeEnvelope(data []byte) (Envelope, error) {
	var env Envelope
	var event []byte
	for o := jsonscan.NewObject(data); o.Next(); {
		switch {
		case o.Is("sessionId"):
			env.SessionID = SessionID(jsonscan.String(o.Value()))
		case o.Is("seq"):
			n, err := strconv.ParseUint(string(o.Value()), 10, 64)
			if err != nil || n == 0 {
				return Envelope{}, fmt.Errorf("envelope: seq: must be an integer above 0")
			}
			env.Seq = n
		case o.Is("event"):
			event = o.Value()
		}
	}
	switch {
	case env.SessionID == "":
		return Envelope{}, fmt.Errorf("envelope: sessionId: is missing")
	case env.Seq == 0:
		return Envelope{}, fmt.Errorf("envelope: seq: is missing")
	case event == nil:
		return Envelope{}, fmt.Errorf("envelope: event: is missing")
	}
	var err error
	if env.Event, err = decodeEvent(event); err != nil {
		return Envelope{}, fmt.Errorf("envelope %s/%d: %w", env.SessionID, env.Seq, err)
	}
	return env, nil
}

// AppendEnvelope appends the JSON of env to dst, without HTML escaping.
func AppendEnvelope(dst []byte, env Envelope) ([]byte, error) {
	start := len(dst)
	dst = append(dst, `{"sessionId":`...)
	dst = appendString(dst, string(env.SessionID))
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendUint(dst, env.Seq, 10)
	dst = append(dst, `,"event":`...)
	if delta, ok := env.Event.(*MessagePartDelta); ok {
		if dst, ok = appendDelta(dst, delta); ok {
			return append(dst, '}'), nil
		}
	}
	event, err := EncodeEvent(env.Event)
	if err != nil {
		return dst[:start], err
	}
	dst = append(dst, event...)
	return append(dst, '}'), nil
}

// AppendNotification appends the whole JSON-RPC notification that carries env.
func AppendNotification(dst []byte, env Envelope) ([]byte, error) {
	dst = append(dst, `{"jsonrpc":"2.0","method":"event","params":`...)
	dst, err := AppendEnvelope(dst, env)
	return append(dst, '}'), err
}
