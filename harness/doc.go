// Package harness is what the engine and the agents' drivers agree on: the [Harness] and [Session] interfaces, the harness-neutral events that a
// session yields, and the registry.
//
// A driver translates one kind of agent (the claude CLI, codex, any ACP agent). What differs between agents is the driver's business: how the
// process is started, what the provider calls things, how permissions are answered. What all share is the engine's: ids, indices, message
// brackets, timestamps, the user echo, ownership, JSON.
//
// # What a driver must keep to
//
//	| rule | |
//	|---|---|
//	| One stream | everything that the agent says comes through Recv, in the agent's order, permission requests and turn ends included |
//	| One end | every Send that returned nil is followed by exactly one [TurnEnd], also after an Interrupt; or by an [Exit], which ends the turn in its stead |
//	| Exit is last | the agent's end is [Exit], then io.EOF; nothing follows |
//	| Close joins | Close returns when the agent's whole process tree is gone and the driver's goroutines have ended |
//	| Nothing waits for the engine | a Permission may stay unanswered for ever; Interrupt, Apply and Close work meanwhile |
//	| Honest Interrupt | Interrupt with nothing running is nil and has no effect on a later turn |
//
// The suite in harness/harnesstest checks these for any driver.
package harness
