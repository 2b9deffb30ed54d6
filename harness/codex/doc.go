// Package codex drives the codex CLI, in two ways that share the mapping of items to parts.
//
// [NewAppServer] keeps one `codex app-server` for each session and speaks JSON-RPC with it: text streams, approvals become permissions, a turn can
// be steered and interrupted. [NewExec] runs `codex exec --json` once a turn, as the vendor's SDK does: whole items instead of deltas, no
// approvals. Prefer the former.
//
// # Layers
//
// The translator of each is a pure state machine: a line of codex in, harness events and lines for codex out; it knows no process, clock or
// goroutine, so that every recorded conversation is a table test. The session owns the process, feeds the translator and answers the engine.
//
// # The user's codex
//
// CODEX_HOME is where codex finds its login, its settings and the recorded threads. Nothing here writes to it, and codex is not given a reason to
// rewrite config.toml: see the sandbox in policy.go. An API key travels over stdin or in the environment, never in argv, and does not reach the
// commands that the agent runs. docs/harness-codex.md has the details.
//
// Verified with codex 0.171.0.
package codex
