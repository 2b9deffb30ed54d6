package main

import (
	"reflect"

	"agentserver/protocol"
	"agentserver/protocol/conversation"
)

// The types of this file stand for those whose JSON form package conversation keeps to itself. A test holds their tags to its own.

// ConversationState is a session's conversation after the event with the number seq. A member with the name seq is the number of the event that
// made the thing: sort by it, never by an instant.
type ConversationState struct {
	// Version is 1. Members are added within a version, never changed or removed.
	Version   int                `json:"version"`
	SessionID protocol.SessionID `json:"sessionId"`
	// Seq is the number of the last event that is folded in: go on with the next one.
	Seq uint64 `json:"seq"`
	// Gaps are the numbers that were not seen.
	Gaps    []conversation.Gap    `json:"gaps,omitempty"`
	Session *conversation.Session `json:"session,omitempty"`
	// Activity is what the session does now.
	Activity conversation.Activity `json:"activity"`
	// ActiveTurnID is the turn that runs, if one does.
	ActiveTurnID protocol.TurnID `json:"activeTurnId,omitempty"`
	// Timeline holds messages and compactions, in the order of their first events.
	Timeline []conversation.Entry `json:"timeline"`
	// Turns are in the order of their first events.
	Turns []*conversation.Turn `json:"turns"`
	// Permissions are in the order of their first events; those without outcome wait for an answer.
	Permissions []*conversation.Permission `json:"permissions"`
	Usage       *conversation.Usage        `json:"usage,omitempty"`
	Totals      conversation.Totals        `json:"totals"`
	Errors      []*conversation.Error      `json:"errors,omitempty"`
	// Notice is the latest, until its turn ends.
	Notice *conversation.Notice `json:"notice,omitempty"`
	// Unknown holds the events, and deltas, of types that the server does not know, as they were sent.
	Unknown []*conversation.Unknown `json:"unknown,omitempty"`
}

// ConversationMessage is a message with its parts.
type ConversationMessage struct {
	ID          protocol.MessageID `json:"messageId"`
	TurnID      protocol.TurnID    `json:"turnId"`
	Seq         uint64             `json:"seq"`
	OutputIndex int                `json:"outputIndex"`
	Role        protocol.Role      `json:"role"`
	// ParentToolCallID is the tool call under which a sub-agent speaks.
	ParentToolCallID string `json:"parentToolCallId,omitempty"`
	Model            string `json:"model,omitempty"`
	// StartedAt is 0 when the beginning was not seen.
	StartedAt int64 `json:"startedAt"`
	EndedAt   int64 `json:"endedAt,omitempty"`
	// Open says that more parts may come.
	Open bool          `json:"open,omitempty"`
	Meta protocol.Meta `json:"_meta,omitempty"`
	// Parts are sorted by partIndex.
	Parts []*conversation.Part `json:"parts"`
}

// ConversationUnknown is an event of a type that the server does not know, or a message.part.delta with such a delta.
type ConversationUnknown struct {
	Seq   uint64         `json:"seq"`
	Event protocol.Event `json:"event"`
}

// standIns maps types to those that describe their JSON, and mirrored names the types whose tags must be the same.
var (
	standIns = map[reflect.Type]reflect.Type{
		reflect.TypeFor[conversation.Snapshot](): reflect.TypeFor[ConversationState](),
		reflect.TypeFor[conversation.Message]():  reflect.TypeFor[ConversationMessage](),
		reflect.TypeFor[conversation.Unknown]():  reflect.TypeFor[ConversationUnknown](),
	}
	mirrored = map[string]string{
		"conversation.snapshotJSON": "schemagen.ConversationState",
		"conversation.messageJSON":  "schemagen.ConversationMessage",
		"conversation.unknownJSON":  "schemagen.ConversationUnknown",
	}
)

// conversationEntry defines a line of the timeline.
func (s *schema) conversationEntry() *node {
	if s.known["ConversationEntry"] == nil {
		message, compaction := s.of(reflect.TypeFor[conversation.Message]()), s.of(reflect.TypeFor[conversation.Compaction]())
		s.define("ConversationEntry", nil, new(node).set("description", "A line of the timeline.").set("oneOf", []any{
			object(field{"type", constant("message")}, field{"message", message}),
			object(field{"type", constant("compaction")}, field{"compaction", compaction}),
		}))
	}
	return ref("ConversationEntry")
}
