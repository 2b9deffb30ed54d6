package protocol

// The vocabularies. Those marked open accept unknown non-blank values and keep them; a value that starts with "_" is private to an adapter or
// a product. Values are snake_case, but for harness ids and [ModelSwitch].

// EventType is an event's discriminator (open: an unknown type decodes as [UnknownEvent]).
type EventType string

// The event types of spec section 3.
const (
	EventSessionCreated     EventType = "session.created"
	EventSessionEnded       EventType = "session.ended"
	EventSessionUsage       EventType = "session.usage"
	EventSessionCompaction  EventType = "session.compaction"
	EventSessionNotice      EventType = "session.notice"
	EventTurnStarted        EventType = "turn.started"
	EventTurnEnded          EventType = "turn.ended"
	EventMessageStarted     EventType = "message.started"
	EventMessagePart        EventType = "message.part"
	EventMessagePartDelta   EventType = "message.part.delta"
	EventMessageEnded       EventType = "message.ended"
	EventPermissionRequest  EventType = "permission.requested"
	EventPermissionResolved EventType = "permission.resolved"
	EventError              EventType = "error"
	EventRaw                EventType = "raw"
)

// PartType is a part's discriminator (open: an unknown type decodes as [UnknownPart]).
type PartType string

// The part types.
const (
	PartText      PartType = "text"
	PartReasoning PartType = "reasoning"
	PartTool      PartType = "tool"
	PartImage     PartType = "image"
	PartFile      PartType = "file"
)

// DeltaType is a delta's discriminator (open: an unknown type decodes as [UnknownDelta]).
type DeltaType string

// The delta types.
const (
	DeltaText      DeltaType = "text"
	DeltaReasoning DeltaType = "reasoning"
	DeltaToolInput DeltaType = "tool_input"
)

// Role says who speaks in a message (open).
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// PartState says whether a text or reasoning part still grows. Empty means that the sender did not say.
type PartState string

// The part states.
const (
	PartStreaming PartState = "streaming"
	PartDone      PartState = "done"
)

// ToolStatus is a tool state's discriminator. The set is closed: an unknown status is an error.
type ToolStatus string

// The tool statuses, in the order in which a tool walks through them.
const (
	ToolStatusPending    ToolStatus = "pending"
	ToolStatusInProgress ToolStatus = "in_progress"
	ToolStatusCompleted  ToolStatus = "completed"
	ToolStatusFailed     ToolStatus = "failed"
	ToolStatusCancelled  ToolStatus = "cancelled"
)

// Terminal reports whether no further status follows.
func (s ToolStatus) Terminal() bool {
	return s == ToolStatusCompleted || s == ToolStatusFailed || s == ToolStatusCancelled
}

// ToolKind sorts tools for display (open).
type ToolKind string

// The tool kinds.
const (
	ToolKindRead       ToolKind = "read"
	ToolKindEdit       ToolKind = "edit"
	ToolKindDelete     ToolKind = "delete"
	ToolKindMove       ToolKind = "move"
	ToolKindSearch     ToolKind = "search"
	ToolKindExecute    ToolKind = "execute"
	ToolKindThink      ToolKind = "think"
	ToolKindFetch      ToolKind = "fetch"
	ToolKindSwitchMode ToolKind = "switch_mode"
	ToolKindTask       ToolKind = "task"
	ToolKindOther      ToolKind = "other"
)

// StopReason says why a turn ended (open).
type StopReason string

// The stop reasons.
const (
	StopEndTurn         StopReason = "end_turn"
	StopMaxTokens       StopReason = "max_tokens"
	StopMaxTurnRequests StopReason = "max_turn_requests"
	StopRefusal         StopReason = "refusal"
	StopCancelled       StopReason = "cancelled"
	StopError           StopReason = "error"
)

// ErrorCategory sorts the errors of events, for machines (open).
type ErrorCategory string

// The error categories.
const (
	CategoryAuth           ErrorCategory = "auth"
	CategoryRateLimit      ErrorCategory = "rate_limit"
	CategoryUsageLimit     ErrorCategory = "usage_limit"
	CategoryContextLimit   ErrorCategory = "context_limit"
	CategoryNetwork        ErrorCategory = "network"
	CategoryAbort          ErrorCategory = "abort"
	CategoryInvalidRequest ErrorCategory = "invalid_request"
	CategoryProcessExit    ErrorCategory = "process_exit"
	CategoryInternal       ErrorCategory = "internal"
)

// EndReason says why a session ended (open).
type EndReason string

// The end reasons.
const (
	EndIdle     EndReason = "idle"
	EndReplaced EndReason = "replaced"
	EndReleased EndReason = "released"
	EndShutdown EndReason = "shutdown"
)

// CompactionStatus is where a compaction stands (open).
type CompactionStatus string

// The compaction statuses.
const (
	CompactionInProgress CompactionStatus = "in_progress"
	CompactionCompleted  CompactionStatus = "completed"
	CompactionFailed     CompactionStatus = "failed"
	CompactionCancelled  CompactionStatus = "cancelled"
)

// CompactionTrigger says what started a compaction (open).
type CompactionTrigger string

// The compaction triggers.
const (
	TriggerAuto   CompactionTrigger = "auto"
	TriggerManual CompactionTrigger = "manual"
)

// NoticeKind sorts notices (open).
type NoticeKind string

// The notice kinds.
const (
	NoticeProvisioning NoticeKind = "provisioning"
	NoticeRetry        NoticeKind = "retry"
	NoticeRateLimit    NoticeKind = "rate_limit"
	NoticeWarning      NoticeKind = "warning"
)

// OptionKind says what a permission option means (open: an unknown kind is never an approval).
type OptionKind string

// The permission option kinds.
const (
	OptionAllowOnce    OptionKind = "allow_once"
	OptionAllowAlways  OptionKind = "allow_always"
	OptionRejectOnce   OptionKind = "reject_once"
	OptionRejectAlways OptionKind = "reject_always"
)

// Allows reports whether choosing an option of this kind approves.
func (k OptionKind) Allows() bool { return k == OptionAllowOnce || k == OptionAllowAlways }

// OutcomeKind says how a permission request was resolved. The set is closed.
type OutcomeKind string

// The outcomes of a permission request.
const (
	OutcomeSelected  OutcomeKind = "selected"
	OutcomeCancelled OutcomeKind = "cancelled"
)

// ThinkingLevel is how much the model may think. The set is closed.
type ThinkingLevel string

// The thinking levels.
const (
	ThinkingOff    ThinkingLevel = "off"
	ThinkingLow    ThinkingLevel = "low"
	ThinkingMedium ThinkingLevel = "medium"
	ThinkingHigh   ThinkingLevel = "high"
	ThinkingXHigh  ThinkingLevel = "xhigh"
)

// PermissionMode is how freely an agent may act without asking. The set is closed.
type PermissionMode string

// The permission modes.
const (
	ModeDefault           PermissionMode = "default"
	ModePlan              PermissionMode = "plan"
	ModeAcceptEdits       PermissionMode = "accept_edits"
	ModeDontAsk           PermissionMode = "dont_ask"
	ModeBypassPermissions PermissionMode = "bypass_permissions"
)

// ModelSwitch says what a change of model costs (open).
type ModelSwitch string

// The ways to switch models.
const (
	ModelSwitchInSession   ModelSwitch = "in-session"
	ModelSwitchRestart     ModelSwitch = "restart-session"
	ModelSwitchUnsupported ModelSwitch = "unsupported"
)

// Well-known keys of `_meta`. Extensions live under namespaced keys only.
const (
	// MetaOrigin is "agent" on the turn.started of a turn that the agent began by itself.
	MetaOrigin = "agent-server/origin"
	// MetaPartialInput holds the streamed input of a tool call that was cut off before its input was whole.
	MetaPartialInput = "agent-server/partialInput"
)
