package conversation

import "agentserver/protocol"

// The values of this file are immutable once a [Snapshot] or a [Change] holds them: do not write to them.

// Session is what session.created and session.ended say.
type Session struct {
	Harness         protocol.HarnessID `json:"harness"`
	NativeSessionID string             `json:"nativeSessionId"`
	Model           string             `json:"model,omitempty"`
	// Resumed is the last answer to a turn that asked to resume; false says that the context was lost.
	Resumed   *bool `json:"resumed,omitempty"`
	CreatedAt int64 `json:"createdAt"`
	// Ended is set while the session has ended; the next turn clears it.
	Ended *SessionEnd `json:"ended,omitempty"`
}

// SessionEnd says why a session ended.
type SessionEnd struct {
	Reason protocol.EndReason `json:"reason"`
	At     int64              `json:"at"`
}

// A Gap is a range of numbers, both inclusive, that were not seen.
type Gap struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// TurnStatus says where a turn stands.
type TurnStatus string

// The statuses of a turn.
const (
	TurnRunning TurnStatus = "running"
	TurnEnded   TurnStatus = "ended"
	// TurnLost: another turn began, and the end of this one was not seen.
	TurnLost TurnStatus = "lost"
)

// A Turn is one run of the agent.
type Turn struct {
	ID     protocol.TurnID `json:"turnId"`
	Seq    uint64          `json:"seq"`
	Status TurnStatus      `json:"status"`
	// Origin is "agent" when the agent began the turn by itself.
	Origin string `json:"origin,omitempty"`
	// StartedAt is 0 when the beginning was not seen.
	StartedAt    int64               `json:"startedAt"`
	EndedAt      int64               `json:"endedAt,omitempty"`
	StopReason   protocol.StopReason `json:"stopReason,omitempty"`
	FinishReason string              `json:"finishReason,omitempty"`
	Tokens       *protocol.Tokens    `json:"tokens,omitempty"`
	Cost         *protocol.Cost      `json:"cost,omitempty"`
	Error        *protocol.TurnError `json:"error,omitempty"`
	// Meta is the `_meta` of turn.started, EndMeta that of turn.ended.
	Meta    protocol.Meta `json:"_meta,omitempty"`
	EndMeta protocol.Meta `json:"endMeta,omitempty"`

	// entries are the places of the turn's messages and compactions in the timeline.
	entries List[int]
}

// An Entry is one line of the timeline: exactly one of the fields is set.
type Entry struct {
	Message    *Message
	Compaction *Compaction
}

// A Message holds parts of one speaker.
type Message struct {
	ID               protocol.MessageID
	TurnID           protocol.TurnID
	Seq              uint64
	OutputIndex      int
	Role             protocol.Role
	ParentToolCallID string
	Model            string
	// StartedAt is 0 when message.started was not seen.
	StartedAt, EndedAt int64
	// Open says that more parts may come.
	Open bool
	Meta protocol.Meta

	parts    List[*Part]
	unsorted bool // a part came after one of a higher index
}

// A Part is a part of a message and where it stands. Its text is what snapshot and deltas have made of it so far. A part that deltas have changed
// carries no unknown fields until its next snapshot.
type Part struct {
	TurnID    protocol.TurnID    `json:"-"`
	MessageID protocol.MessageID `json:"-"`
	Index     int                `json:"partIndex"`
	Seq       uint64             `json:"seq"`
	Part      protocol.Part      `json:"part"`
}

// A Compaction is a shortening of the agent's context.
type Compaction struct {
	ID           protocol.CompactionID      `json:"compactionId"`
	TurnID       protocol.TurnID            `json:"turnId"`
	Seq          uint64                     `json:"seq"`
	At           int64                      `json:"at"`
	Status       protocol.CompactionStatus  `json:"status"`
	Trigger      protocol.CompactionTrigger `json:"trigger,omitempty"`
	PreTokens    *int64                     `json:"preTokens,omitempty"`
	PostTokens   *int64                     `json:"postTokens,omitempty"`
	Summary      string                     `json:"summary,omitempty"`
	AbstractsIDs []string                   `json:"abstractsIds,omitempty"`
}

// A Permission is a permission request and, once it is settled, its outcome.
type Permission struct {
	RequestID protocol.RequestID          `json:"requestId"`
	TurnID    protocol.TurnID             `json:"turnId"`
	Seq       uint64                      `json:"seq"`
	At        int64                       `json:"at"`
	Title     string                      `json:"title"`
	ToolCall  *protocol.PermissionTool    `json:"toolCall,omitempty"`
	Options   []protocol.PermissionOption `json:"options"`
	// Outcome is nil while the request is pending.
	Outcome    *protocol.PermissionOutcome `json:"outcome,omitempty"`
	ResolvedAt int64                       `json:"resolvedAt,omitempty"`
}

// Pending reports whether the request waits for an answer.
func (p *Permission) Pending() bool { return p.Outcome == nil }

// Usage is the context gauge.
type Usage struct {
	TurnID protocol.TurnID `json:"turnId"`
	Used   int64           `json:"used"`
	Size   int64           `json:"size,omitempty"`
	Cost   *protocol.Cost  `json:"cost,omitempty"`
	At     int64           `json:"at"`
}

// Totals sum what turns reported at their end.
type Totals struct {
	// Turns counts those that ended.
	Turns  int             `json:"turns"`
	Tokens protocol.Tokens `json:"tokens"`
	// Costs holds one sum for each currency, in the order in which they came up.
	Costs []protocol.Cost `json:"costs,omitempty"`
}

// An Error is an error event.
type Error struct {
	Seq         uint64                 `json:"seq"`
	TurnID      protocol.TurnID        `json:"turnId,omitempty"`
	At          int64                  `json:"at"`
	Category    protocol.ErrorCategory `json:"category"`
	Message     string                 `json:"message"`
	Recoverable bool                   `json:"recoverable"`
	Stack       string                 `json:"stack,omitempty"`
}

// A Notice is a session.notice.
type Notice struct {
	Seq      uint64              `json:"seq"`
	TurnID   protocol.TurnID     `json:"turnId,omitempty"`
	At       int64               `json:"at"`
	Kind     protocol.NoticeKind `json:"kind"`
	Message  string              `json:"message"`
	Progress *protocol.Progress  `json:"progress,omitempty"`
}

// An Unknown is an event of a type that this build does not know, or a message.part.delta with such a delta, kept in order.
type Unknown struct {
	Seq   uint64
	Event protocol.Event
}

// Activity says what a session does.
type Activity string

// The activities. Of several, the first of waiting_for_permission, generating, thinking, tool_running is told.
const (
	Idle Activity = "idle"
	// Thinking: the agent reasons, or nothing of it is to be seen yet.
	Thinking Activity = "thinking"
	// Generating: text or the input of a tool call is being written.
	Generating           Activity = "generating"
	ToolRunning          Activity = "tool_running"
	WaitingForPermission Activity = "waiting_for_permission"
	// Failed: no turn runs, and the last one ended in an error.
	Failed Activity = "failed"
)
