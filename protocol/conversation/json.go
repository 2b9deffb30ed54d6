package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"agentserver/protocol"
)

// Version is the version of the JSON form. Members are added within a version, never changed or removed.
const Version = 1

// snapshotJSON is ConversationState.
type snapshotJSON struct {
	Version      int                `json:"version"`
	SessionID    protocol.SessionID `json:"sessionId"`
	Seq          uint64             `json:"seq"`
	Gaps         []Gap              `json:"gaps,omitempty"`
	Session      *Session           `json:"session,omitempty"`
	Activity     Activity           `json:"activity"`
	ActiveTurnID protocol.TurnID    `json:"activeTurnId,omitempty"`
	Timeline     []Entry            `json:"timeline"`
	Turns        []*Turn            `json:"turns"`
	Permissions  []*Permission      `json:"permissions"`
	Usage        *Usage             `json:"usage,omitempty"`
	Totals       Totals             `json:"totals"`
	Errors       []*Error           `json:"errors,omitempty"`
	Notice       *Notice            `json:"notice,omitempty"`
	Unknown      []*Unknown         `json:"unknown,omitempty"`
}

// MarshalJSON writes ConversationState, as the package comment describes it. Equal states give equal bytes.
func (s *Snapshot) MarshalJSON() ([]byte, error) {
	return encode(snapshotJSON{
		Version: Version, SessionID: s.SessionID, Seq: s.Seq, Gaps: s.Gaps.Slice(), Session: s.Session, Activity: s.Activity,
		ActiveTurnID: s.ActiveTurnID, Timeline: s.Timeline.Slice(), Turns: s.Turns.Slice(), Permissions: s.Permissions.Slice(), Usage: s.Usage,
		Totals: s.Totals, Errors: s.Errors.Slice(), Notice: s.Notice, Unknown: s.Unknown.Slice(),
	})
}

// encode writes JSON without HTML escaping.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Parse reads what [Snapshot.MarshalJSON] wrote. An error names what cannot be read.
func Parse(data []byte) (*Snapshot, error) {
	var w snapshotJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, fmt.Errorf("conversation state: %w", err)
	}
	if w.Version != Version {
		return nil, fmt.Errorf("conversation state: version %d cannot be read, only %d; fold the session's events instead", w.Version, Version)
	}
	s := &Snapshot{SessionID: w.SessionID, Seq: w.Seq, Session: w.Session, Activity: w.Activity, ActiveTurnID: w.ActiveTurnID, Usage: w.Usage,
		Totals: w.Totals, Notice: w.Notice, Gaps: listOf(w.Gaps), idx: newIndex()}
	if err := s.take(&w); err != nil {
		return nil, fmt.Errorf("conversation state: %w", err)
	}
	return FromSnapshot(s).Snapshot(), nil
}

// take fills the lists, after a check that a state can be built on them.
func (s *Snapshot) take(w *snapshotJSON) error {
	turns := make(map[protocol.TurnID]int)
	for i, t := range w.Turns {
		if t == nil || t.ID == "" {
			return fmt.Errorf("turns[%d]: turnId is missing", i)
		}
		if _, twice := turns[t.ID]; twice {
			return fmt.Errorf("turns[%d]: %q is there twice", i, t.ID)
		}
		turns[t.ID] = i
	}
	if place, known := turns[w.ActiveTurnID]; w.ActiveTurnID != "" && (!known || w.Turns[place].Status != TurnRunning) {
		return fmt.Errorf("activeTurnId: %q is no running turn", w.ActiveTurnID)
	}
	if err := s.takeTimeline(w, turns); err != nil {
		return err
	}
	requests := make(map[protocol.RequestID]bool)
	s.pendingFrom = len(w.Permissions)
	for i, p := range w.Permissions {
		if p == nil || p.RequestID == "" || requests[p.RequestID] {
			return fmt.Errorf("permissions[%d]: requestId is missing or there twice", i)
		}
		requests[p.RequestID] = true
		if p.Pending() {
			s.pending++
			s.pendingFrom = min(s.pendingFrom, i)
		}
	}
	for i, e := range w.Errors {
		if e == nil {
			return fmt.Errorf("errors[%d]: must not be null", i)
		}
	}
	for i, u := range w.Unknown {
		if u == nil {
			return fmt.Errorf("unknown[%d]: must not be null", i)
		}
	}
	s.Turns, s.Permissions, s.Errors, s.Unknown = listOf(w.Turns), listOf(w.Permissions), listOf(w.Errors), listOf(w.Unknown)
	return nil
}

func (s *Snapshot) takeTimeline(w *snapshotJSON, turns map[protocol.TurnID]int) error {
	messages, parts := make(map[protocol.MessageID]bool), make(map[protocol.PartID]bool)
	compactions := make(map[protocol.CompactionID]bool)
	for i, e := range w.Timeline {
		var id protocol.TurnID
		if c := e.Compaction; c != nil {
			if c.ID == "" || compactions[c.ID] {
				return fmt.Errorf("timeline[%d]: compactionId is missing or there twice", i)
			}
			compactions[c.ID] = true
			id = c.TurnID
		} else {
			if e.Message.ID == "" || messages[e.Message.ID] {
				return fmt.Errorf("timeline[%d]: messageId is missing or there twice", i)
			}
			messages[e.Message.ID] = true
			id = e.Message.TurnID
			for _, p := range e.Message.parts.All() {
				if part := p.Part.Header().ID; parts[part] {
					return fmt.Errorf("timeline[%d]: part %q is there twice", i, part)
				} else {
					parts[part] = true
				}
			}
		}
		turn, known := turns[id]
		if !known {
			return fmt.Errorf("timeline[%d]: turn %q is not among the turns", i, id)
		}
		w.Turns[turn].entries = w.Turns[turn].entries.push(i)
	}
	s.Timeline = listOf(w.Timeline)
	return nil
}

// listOf returns a list of the elements.
func listOf[T any](all []T) List[T] {
	var l List[T]
	for _, x := range all {
		l = l.push(x)
	}
	return l
}

// entryJSON is an [Entry] on the wire.
type entryJSON struct {
	Type       string      `json:"type"`
	Message    *Message    `json:"message,omitempty"`
	Compaction *Compaction `json:"compaction,omitempty"`
}

// MarshalJSON writes {type:"message",message} or {type:"compaction",compaction}.
func (e Entry) MarshalJSON() ([]byte, error) {
	w := entryJSON{"message", e.Message, e.Compaction}
	if e.Message == nil {
		w.Type = "compaction"
	}
	return encode(w)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *Entry) UnmarshalJSON(data []byte) error {
	var w entryJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	if (w.Message == nil) == (w.Compaction == nil) {
		return errors.New("an entry of the timeline must hold a message or a compaction")
	}
	*e = Entry{w.Message, w.Compaction}
	return nil
}

// messageJSON is a [Message] on the wire.
type messageJSON struct {
	ID               protocol.MessageID `json:"messageId"`
	TurnID           protocol.TurnID    `json:"turnId"`
	Seq              uint64             `json:"seq"`
	OutputIndex      int                `json:"outputIndex"`
	Role             protocol.Role      `json:"role"`
	ParentToolCallID string             `json:"parentToolCallId,omitempty"`
	Model            string             `json:"model,omitempty"`
	StartedAt        int64              `json:"startedAt"`
	EndedAt          int64              `json:"endedAt,omitempty"`
	Open             bool               `json:"open,omitempty"`
	Meta             protocol.Meta      `json:"_meta,omitempty"`
	Parts            []*Part            `json:"parts"`
}

// MarshalJSON writes the message with its parts, sorted by index.
func (m *Message) MarshalJSON() ([]byte, error) {
	return encode(messageJSON{m.ID, m.TurnID, m.Seq, m.OutputIndex, m.Role, m.ParentToolCallID, m.Model, m.StartedAt, m.EndedAt, m.Open, m.Meta,
		m.ordered().Slice()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Message) UnmarshalJSON(data []byte) error {
	var w messageJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*m = Message{ID: w.ID, TurnID: w.TurnID, Seq: w.Seq, OutputIndex: w.OutputIndex, Role: w.Role, ParentToolCallID: w.ParentToolCallID, Model: w.Model,
		StartedAt: w.StartedAt, EndedAt: w.EndedAt, Open: w.Open, Meta: w.Meta}
	for i, p := range w.Parts {
		if p == nil || p.Part == nil {
			return fmt.Errorf("parts[%d]: part is missing", i)
		}
		p.TurnID, p.MessageID = w.TurnID, w.ID
		m.unsorted = m.unsorted || i > 0 && w.Parts[i-1].Index > p.Index
		m.parts = m.parts.push(p)
	}
	return nil
}

// UnmarshalJSON reads {partIndex,seq,part}.
func (p *Part) UnmarshalJSON(data []byte) error {
	var w struct {
		Index int             `json:"partIndex"`
		Seq   uint64          `json:"seq"`
		Part  json.RawMessage `json:"part"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	part, err := protocol.DecodePart(w.Part)
	if err != nil {
		return err
	}
	*p = Part{Index: w.Index, Seq: w.Seq, Part: part}
	return nil
}

// unknownJSON is an [Unknown] on the wire.
type unknownJSON struct {
	Seq   uint64          `json:"seq"`
	Event json.RawMessage `json:"event"`
}

// MarshalJSON writes {seq,event}.
func (u *Unknown) MarshalJSON() ([]byte, error) {
	event, err := protocol.EncodeEvent(u.Event)
	if err != nil {
		return nil, err
	}
	return encode(unknownJSON{u.Seq, event})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (u *Unknown) UnmarshalJSON(data []byte) error {
	var w unknownJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	event, err := protocol.DecodeEvent(w.Event)
	if err != nil {
		return err
	}
	*u = Unknown{w.Seq, event}
	return nil
}
