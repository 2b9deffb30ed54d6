// Package protocol is the wire contract of agent-server, version 2: methods, errors, the envelope, events, parts, input, config, and the
// pure functions that both ends share ([SeqCursor], [EchoMessageID], [Classify]). It holds data and pure functions only: no I/O, no goroutine,
// no logging.
//
// # Unions
//
// [Event], [Part], [ToolState] and [Delta] are sealed unions. Each has one table, in the file named after it, and adding a member touches that
// table and nothing else. An event, part or delta type that this build does not know decodes as [UnknownEvent], [UnknownPart] or
// [UnknownDelta] and encodes back to the same bytes. A known type with a malformed body is an error and never an unknown.
//
// # Decoded values are immutable
//
// A decoded event or part keeps its wire form and encodes back to exactly the bytes it was decoded from, members that this build does not know
// included. Whoever changes a field of a decoded value calls its Touch method first, which forgets the wire form (and with it the unknown
// members). Values built in Go have no wire form and need no call.
//
// Values are safe for concurrent reading.
package protocol

// Version is the protocol version that this package models, and the only one that `initialize` accepts.
const Version = 2
