// Package engine runs agents' sessions and turns: the part of agent-server that has no wire. Embed a [Runtime] to use it as a library; package
// engine/wire serves one over JSON-RPC.
//
//	registry, _ := harness.NewRegistry(mock.New())
//	rt, _ := engine.New(engine.Options{Registry: registry})
//	defer rt.Shutdown(context.Background())
//	events := rt.Follow()
//	ack, _ := rt.StartTurn(ctx, protocol.TurnStartParams{Input: protocol.Text("hi"), Config: config})
//	for env, err := range events.All(ctx) { … }
//
// The methods of a Runtime are the methods of the wire, with the same params, results and errors ([*protocol.Error]).
//
// # How it works
//
// A session is an actor: one goroutine owns its state, takes commands from an inbox and events from the agent. It never calls a driver itself:
// what may block (Open, Apply, Send, Interrupt, Close, an answer to a permission request) runs on a goroutine of its own and reports back to the
// inbox, stamped with the turn that it was for. So the actor always answers, whatever a driver does, and what comes late finds its turn gone and
// does nothing.
//
//	admit ─ack─► begin ─► turn.started, echo ─► Apply or Open ─► Send ─► events … ─► end
//
// A turn is a value of the session. Whatever ends it (a result, the agent's exit, a cancel that had to escalate, a failed Open, a panic in a
// driver, shutdown) goes through one function, which settles the permissions, closes the open parts and appends turn.ended.
//
// The processor turns a driver's words ([harness.Event]) into the events of the protocol: ids, indices, message brackets, times, full snapshots.
// What it makes is appended to the session's log (package eventlog), which is how it becomes visible.
package engine
