package conversation

import "agentserver/protocol"

// ChangeKind says what a [Change] is about.
type ChangeKind string

// The kinds of changes, with the fields that they set.
const (
	// SessionChanged: Session.
	SessionChanged ChangeKind = "session"
	// TurnChanged: TurnID, Turn. Store it under its id.
	TurnChanged ChangeKind = "turn"
	// MessageChanged: TurnID, MessageID, Message. Its parts have changes of their own.
	MessageChanged ChangeKind = "message"
	// PartChanged: TurnID, MessageID, PartID, Part. Store it under the part's id.
	PartChanged ChangeKind = "part"
	// PartAppended: TurnID, MessageID, PartID, Text, which comes behind the part's text (or a pending tool's partial input).
	PartAppended ChangeKind = "append"
	// CompactionChanged: TurnID, Compaction.
	CompactionChanged ChangeKind = "compaction"
	// PermissionChanged: TurnID, Permission.
	PermissionChanged ChangeKind = "permission"
	// UsageChanged: TurnID, Usage.
	UsageChanged ChangeKind = "usage"
	// TotalsChanged: Totals.
	TotalsChanged ChangeKind = "totals"
	// ErrorAdded: TurnID, Error.
	ErrorAdded ChangeKind = "error"
	// NoticeChanged: Notice, which is nil when there is none any more.
	NoticeChanged ChangeKind = "notice"
	// UnknownAdded: Unknown.
	UnknownAdded ChangeKind = "unknown"
	// GapFound: Gap. What was built before it may lack something.
	GapFound ChangeKind = "gap"
	// ActivityChanged: Activity.
	ActivityChanged ChangeKind = "activity"
)

// A Change says what an event changed: one thing that a view or a database has to update. The values that it points to are immutable and are the
// whole of the thing, so that storing them twice does no harm; only PartAppended is a difference.
type Change struct {
	Kind      ChangeKind
	TurnID    protocol.TurnID
	MessageID protocol.MessageID
	PartID    protocol.PartID

	Session    *Session
	Turn       *Turn
	Message    *Message
	Part       *Part
	Text       string
	Compaction *Compaction
	Permission *Permission
	Usage      *Usage
	Totals     *Totals
	Error      *Error
	Notice     *Notice
	Unknown    *Unknown
	Gap        Gap
	Activity   Activity
}
