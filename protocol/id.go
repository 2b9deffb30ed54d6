package protocol

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Ids are opaque. A client may choose a [SessionID] and a [TurnID] (see [CheckID]); every other id is minted by the engine.
type (
	// SessionID names a session within one server process.
	SessionID string
	// TurnID names a turn within its session.
	TurnID string
	// MessageID names a message within its session.
	MessageID string
	// PartID names a part within its session; [MessagePart] is an upsert by it.
	PartID string
	// RequestID names a permission request within its session.
	RequestID string
	// CompactionID names a compaction within its session.
	CompactionID string
	// HarnessID names a harness: "claude-code", "codex-app-server", "acp", …
	HarnessID string
)

// MaxIDBytes is the greatest length of an id that a client gives, in bytes.
const MaxIDBytes = 256

// NewID mints an id: a UUIDv7, so that ids sort by the time they were made. Never take order from them: that is what seq is for.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// EchoMessageID is the id of the message that echoes a turn's input, derived so that whoever chose the turn id can predict it (RFD 0001).
func EchoMessageID(turn TurnID) MessageID { return MessageID("echo-" + string(turn)) }

// EchoPartID is the id of the part that echoes the input part at index, which counts from 0.
func EchoPartID(turn TurnID, index int) PartID {
	return PartID("echo-" + string(turn) + "-" + strconv.Itoa(index))
}

// CheckID reports why id cannot be used as a client's id: it is empty, longer than [MaxIDBytes], not UTF-8, or holds a control character.
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("must not be empty")
	case len(id) > MaxIDBytes:
		return fmt.Errorf("is %d bytes long; at most %d are allowed", len(id), MaxIDBytes)
	case !utf8.ValidString(id):
		return fmt.Errorf("is not valid UTF-8")
	}
	for _, r := range id {
		if unicode.IsControl(r) {
			return fmt.Errorf("holds the control character %U", r)
		}
	}
	return nil
}
