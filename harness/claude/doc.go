// Package claude drives the claude CLI (Claude Code) over its stream-json standard streams.
//
// It has two layers. The translator is a pure state machine: a line of the CLI in, harness events and lines for the CLI out; it knows no process,
// clock or goroutine, so that every recorded conversation is a table test. The session owns the child process, feeds the translator and
// answers the engine.
//
// # One turn
//
// The CLI answers a user message with a system/init line, then stream_event lines (what the model streams), assistant lines (one finished
// content block each), user lines (tool results), and a result line. Deltas are taken from the stream, the assistant lines are the final
// snapshots of the same parts, the result ends the turn. A can_use_tool control request becomes a harness.Permission.
//
// The CLI also starts turns by itself, when work in the background ends, and it merges messages that wait in its own queue. Therefore the
// driver sends one message at a time, gives each a uuid, and ends the engine's turn only at a result that belongs to that message.
//
// # Versions
//
// Verified with 2.1.197 and 2.1.332. What either of them does not know is not used without an alternative.
package claude
