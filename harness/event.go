package harness

import (
	"encoding/json"

	"agentserver/protocol"
)

// An Event is something that an agent said, in words that all harnesses share. The union is sealed: its members are the types of this file.
//
// Parts are addressed by a key that the driver chooses: unique within one opened [Session], and the same for everything that belongs to one part. For a
// tool the key is the provider's tool call id. The engine gives the part its ids, message and indices at the key's first event and keeps them.
type Event interface{ harnessEvent() }

// SessionStarted reports the agent's native session id; also when it changes. Once a turn is enough, repeats of the same are dropped.
type SessionStarted struct {
	NativeSessionID string
	// Model is the model in use, when known.
	Model string
	// Resumed says whether the session that Spec.Resume named was really continued; nil when none was named.
	Resumed *bool
}

// MessageStarted opens a message. It is optional: a part that comes without one opens its own. While a message of the same parent is open it
// closes that one.
type MessageStarted struct {
	ParentToolCallID string
	Model            string
}

// MessageEnded closes the open message. It is optional: the next message or the turn's end closes it too.
type MessageEnded struct{}

// PartUpdate is a full snapshot of a part, opening it at its first event.
//
// The driver fills the content fields only; ids, ParentToolCallID on the header and times are the engine's: a tool state's zero Time is filled
// in, and a terminal tool state without Input takes over the one that came before. While deltas are to follow, a snapshot carries no text.
type PartUpdate struct {
	Key string
	// ParentToolCallID is the tool call under which a sub-agent made the part; "" for the main agent.
	ParentToolCallID string
	Part             protocol.Part
}

// Delta appends to the open part under Key. For a key that is not open it opens a text, reasoning or (with Tool set) tool part.
type Delta struct {
	Key              string
	ParentToolCallID string
	Type             protocol.DeltaType
	Text             string
	// ToolName names the tool for deltas of type tool_input.
	ToolName string
}

// Usage is the context gauge.
type Usage struct {
	Used, Size int64
	Cost       *protocol.Cost
}

// Compaction reports on a compaction; Key is the driver's name for it.
type Compaction struct {
	Key                   string
	Status                protocol.CompactionStatus
	Trigger               protocol.CompactionTrigger
	PreTokens, PostTokens *int64
	Summary               string
}

// Permission asks whether a tool may run. The engine answers by calling Decide exactly once, from any goroutine, unless a
// [PermissionWithdrawn] with the same Key comes first.
type Permission struct {
	Key string
	// ParentToolCallID is set when a sub-agent asks.
	ParentToolCallID string
	Title            string
	Tool             protocol.PermissionTool
	// NoRules says that standing rules must not answer: the request is a question to the person (AskUserQuestion, ExitPlanMode, an elicitation).
	NoRules bool
	// Decide hands the answer to the agent. It must not block on the engine.
	Decide func(Decision) error
}

// PermissionWithdrawn says that the agent no longer wants an answer.
type PermissionWithdrawn struct{ Key string }

// Decision answers a [Permission].
type Decision struct {
	// Allow approves; everything else is a refusal.
	Allow bool
	// Always says that the answer was an `*_always` one. The engine keeps the standing rule itself.
	Always bool
	// UpdatedInput is what shall run instead of the requested input; nil means that. A driver that cannot express it refuses the call and says
	// why to the model.
	UpdatedInput json.RawMessage
	// Message tells the model why it was refused; may be empty.
	Message string
	// Cancelled says that nobody answered (the turn is being cancelled, or time ran out).
	Cancelled bool
}

// Notice is something that a person may want to see while waiting.
type Notice struct {
	Kind     protocol.NoticeKind
	Message  string
	Progress *protocol.Progress
}

// Failure reports an error after which the turn goes on (an API retry, a field that cannot be honoured).
type Failure struct {
	Category protocol.ErrorCategory
	Message  string
}

// Raw is a message of the agent as it came. Drivers yield it only when Config.IncludeRaw is set, and redact secrets first.
type Raw struct{ Data json.RawMessage }

// TurnEnd ends the turn that runs.
type TurnEnd struct {
	StopReason protocol.StopReason
	// FinishReason is the provider's own word.
	FinishReason string
	// Tokens and Cost are this turn's, not running totals.
	Tokens *protocol.Tokens
	Cost   *protocol.Cost
	// Error is set when StopReason is [protocol.StopError].
	Error *protocol.TurnError
	// Background lists the keys of tool parts that go on after the turn; the engine leaves them open.
	Background []string
	// Meta goes to turn.ended as it is.
	Meta protocol.Meta
	// Own says that what ended is a turn that the agent began by itself. It never ends a turn that was sent: that may be on its way to the agent,
	// or have reached it, while this end is on its way to the engine. A driver whose agent begins turns by itself sets it on their ends.
	Own bool
}

// Exit says that the agent's process is gone. A turn that runs ends with Error, or as cancelled when it was being cancelled. It is the last event.
type Exit struct {
	// Error says how it ended, with the exit status and the last lines of stderr, redacted. Nil for an exit that was asked for.
	Error *protocol.TurnError
}

func (SessionStarted) harnessEvent()      {}
func (MessageStarted) harnessEvent()      {}
func (MessageEnded) harnessEvent()        {}
func (PartUpdate) harnessEvent()          {}
func (Delta) harnessEvent()               {}
func (Usage) harnessEvent()               {}
func (Compaction) harnessEvent()          {}
func (Permission) harnessEvent()          {}
func (PermissionWithdrawn) harnessEvent() {}
func (Notice) harnessEvent()              {}
func (Failure) harnessEvent()             {}
func (Raw) harnessEvent()                 {}
func (TurnEnd) harnessEvent()             {}
func (Exit) harnessEvent()                {}
