package streamcheck

import "fmt"

// A Violation is one breach of the contract.
type Violation struct {
	// Seq is the number of the event that made the breach known; for what is missing at the end of the stream, that of the last event.
	Seq  uint64
	Rule Rule
	// Message says what is wrong, for a person.
	Message string
}

// String returns "seq: rule: message".
func (v Violation) String() string { return fmt.Sprintf("%d: %s: %s", v.Seq, v.Rule, v.Message) }

// A Rule names a part of the contract.
type Rule string

// The rules.
const (
	// RuleEvent: the event can be decoded.
	RuleEvent Rule = "event"
	// RuleSeq: numbers go up by one.
	RuleSeq Rule = "seq"
	// RuleSession: all events, and the parts in them, are of one session.
	RuleSession Rule = "session"
	// RuleIDReused: ids of turns, messages, parts, permission requests and compactions are unique.
	RuleIDReused Rule = "id_reused"

	// RuleTurnOverlap: a turn starts when the one before it has ended.
	RuleTurnOverlap Rule = "turn_overlap"
	// RuleOutsideTurn: an event names the turn that runs. Late tool parts alone name a turn that has ended.
	RuleOutsideTurn Rule = "outside_turn"
	// RuleSecondEnd: a turn ends once.
	RuleSecondEnd Rule = "second_end"
	// RuleNoEnd: a turn ends.
	RuleNoEnd Rule = "no_end"
	// RuleOpenAtEnd: when a turn ends, its message, its texts and its permission requests are closed.
	RuleOpenAtEnd Rule = "open_at_end"
	// RuleTurnError: turn.ended has an error when the stop reason is "error", and only then.
	RuleTurnError Rule = "turn_error"
	// RuleAfterEnd: after its end, a turn has nothing but updates of tools that were open.
	RuleAfterEnd Rule = "after_end"
	// RuleSessionEnded: no turn runs when a session ends, but for one that replaces the agent.
	RuleSessionEnded Rule = "session_ended"
	// RuleCreatedTwice: session.created is not repeated within a turn, unless something in it has changed.
	RuleCreatedTwice Rule = "created_twice"

	// RuleEcho: a turn begins with the echo of its input, whole, under the derived ids; a turn of the agent's own has none.
	RuleEcho Rule = "echo"
	// RuleBracket: one message is open at a time, and is closed once; new parts belong to the open message.
	RuleBracket Rule = "bracket"
	// RuleOutputIndex: messages of a turn count their outputIndex up: 0 for the echo, then from 1.
	RuleOutputIndex Rule = "output_index"
	// RulePartIndex: new parts of a message count their partIndex up, from 0.
	RulePartIndex Rule = "part_index"
	// RuleAddress: a part keeps turn, message and indices of its first emission, in every snapshot and delta.
	RuleAddress Rule = "address"
	// RuleParent: a part has the parentToolCallId of its message.
	RuleParent Rule = "parent"
	// RulePartType: a part keeps its type, a tool call its toolCallId.
	RulePartType Rule = "part_type"
	// RuleToolState: a tool goes forward through its states, and keeps the one in which it ended; a text that is done stays done.
	RuleToolState Rule = "tool_state"

	// RuleDeltaWithoutPart: a delta follows its part.
	RuleDeltaWithoutPart Rule = "delta_without_part"
	// RuleDeltaClosed: a delta appends to an open part: a text that is not done, a tool that is pending.
	RuleDeltaClosed Rule = "delta_closed"
	// RuleDeltaType: a delta has the type of its part.
	RuleDeltaType Rule = "delta_type"
	// RuleSnapshotDisagrees: a snapshot says what the deltas before it have built.
	RuleSnapshotDisagrees Rule = "snapshot_disagrees"
	// RuleSnapshotRepeated: text that a snapshot of an open part carries is not sent as later deltas.
	RuleSnapshotRepeated Rule = "snapshot_repeated"

	// RuleResolveUnknown: what is resolved was requested, in the same turn.
	RuleResolveUnknown Rule = "resolve_unknown"
	// RuleResolveTwice: a request is resolved once.
	RuleResolveTwice Rule = "resolve_twice"
	// RuleOption: the option that is selected was offered.
	RuleOption Rule = "option"
	// RuleCompaction: a compaction that is over does not go on.
	RuleCompaction Rule = "compaction"

	// RuleFold: applying every upsert twice gives the same state.
	RuleFold Rule = "fold"
)

// Rules returns all rules.
func Rules() []Rule {
	return []Rule{RuleEvent, RuleSeq, RuleSession, RuleIDReused, RuleTurnOverlap, RuleOutsideTurn, RuleSecondEnd, RuleNoEnd, RuleOpenAtEnd, RuleTurnError,
		RuleAfterEnd, RuleSessionEnded, RuleCreatedTwice, RuleEcho, RuleBracket, RuleOutputIndex, RulePartIndex, RuleAddress, RuleParent, RulePartType,
		RuleToolState, RuleDeltaWithoutPart, RuleDeltaClosed, RuleDeltaType, RuleSnapshotDisagrees, RuleSnapshotRepeated, RuleResolveUnknown,
		RuleResolveTwice, RuleOption, RuleCompaction, RuleFold}
}
