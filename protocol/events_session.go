package protocol

import "fmt"

// SessionCreated reports the session's native id. It comes once a turn, when the harness first reports its id: normally mid-turn, after the echo.
type SessionCreated struct {
	EventHeader
	NativeSessionID string    `json:"nativeSessionId"`
	Harness         HarnessID `json:"harness"`
	Model           string    `json:"model,omitempty"`
	// Resumed is present only when the turn asked to resume; false says that the context was lost.
	Resumed *bool `json:"resumed,omitempty"`
}

// SessionEnded is the last event of a session's log.
type SessionEnded struct {
	EventHeader
	Reason EndReason `json:"reason"`
}

// SessionUsage is the context gauge: how much of the model's window the conversation fills. It is not the bill; see [TurnEnded.Tokens].
type SessionUsage struct {
	EventHeader
	TurnID TurnID `json:"turnId"`
	// Used is in tokens.
	Used int64 `json:"used"`
	// Size is the window, in tokens; 0 when it is not known.
	Size int64 `json:"size,omitempty"`
	// Cost is the session's so far, where the harness reports it.
	Cost *Cost `json:"cost,omitempty"`
}

// SessionCompaction says that the harness shortens, or shortened, its context. It is an upsert by CompactionID; the first one fixes its place.
type SessionCompaction struct {
	EventHeader
	TurnID       TurnID            `json:"turnId"`
	CompactionID CompactionID      `json:"compactionId"`
	Status       CompactionStatus  `json:"status"`
	Trigger      CompactionTrigger `json:"trigger,omitempty"`
	// PreTokens and PostTokens are the context's size before and after.
	PreTokens  *int64 `json:"preTokens,omitempty"`
	PostTokens *int64 `json:"postTokens,omitempty"`
	Summary    string `json:"summary,omitempty"`
	// AbstractsIDs are the ids of the messages that the summary stands for.
	AbstractsIDs []string `json:"abstractsIds,omitempty"`
}

// SessionNotice is something that a person may want to see while waiting; it is never needed to follow the conversation.
type SessionNotice struct {
	EventHeader
	TurnID   TurnID     `json:"turnId,omitempty"`
	Kind     NoticeKind `json:"kind"`
	Message  string     `json:"message"`
	Progress *Progress  `json:"progress,omitempty"`
}

// Progress is how far something has come. Total is 0 when it is not known; Unit is "bytes", "attempts", ….
type Progress struct {
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Unit  string `json:"unit"`
}

func (*SessionCreated) EventType() EventType    { return EventSessionCreated }
func (*SessionEnded) EventType() EventType      { return EventSessionEnded }
func (*SessionUsage) EventType() EventType      { return EventSessionUsage }
func (*SessionCompaction) EventType() EventType { return EventSessionCompaction }
func (*SessionNotice) EventType() EventType     { return EventSessionNotice }

func (e *SessionCreated) validate() error {
	return notBlank("nativeSessionId", e.NativeSessionID, "harness", string(e.Harness))
}
func (e *SessionEnded) validate() error { return notBlank("reason", string(e.Reason)) }
func (e *SessionUsage) validate() error {
	if e.Used < 0 || e.Size < 0 {
		return fmt.Errorf("used and size must not be negative")
	}
	return notBlank("turnId", string(e.TurnID))
}
func (e *SessionCompaction) validate() error {
	return firstError(notBlank("turnId", string(e.TurnID), "compactionId", string(e.CompactionID), "status", string(e.Status)),
		notBlankIf("trigger", string(e.Trigger)))
}
func (e *SessionNotice) validate() error { return notBlank("kind", string(e.Kind)) }
