// Package acp drives any agent that speaks version 1 of the Agent Client Protocol (ACP): JSON-RPC 2.0, one object a line, on the agent's
// standard streams.
//
// It has two layers. The translator is a state machine: what the agent says in, harness events and answers out; it knows no process, clock or
// goroutine, so that recorded conversations are table tests. The session owns the process and its connection, feeds the translator in the order
// of the wire, and answers the engine.
//
// # One turn
//
// A session/prompt request begins it. session/update notifications stream what the agent says and does, session/request_permission asks, and
// the response to the prompt ends it. Agents send more after that response (the tail of a text, the end of a tool call); the turn stays open for
// [Options.Settle] to take it in. What comes later still opens a turn of the engine's own.
//
// # What an agent decides
//
// Models, modes and thinking levels are the agent's own words. They are taken from what it lists: its config options by category, else its
// modes, else its models (session/set_model, which was never stable but is all that some agents have). What a turn's configuration asks for and the agent does
// not list is reported as a recoverable error that names the field; the permission modes that a client can bring about by its own answers are.
//
// # The field
//
// Nothing of the agent's output is trusted: junk between messages, fields of the wrong type, unknown updates, updates before the session is known
// and after the turn, updates of tool calls that were never announced, lines of any length below 64 MiB. The package comment of
// internal/transport says how messages are found; the table of known agents is [Known].
package acp
