// Package client talks to an agent-server and heals what happens in between.
//
// There are three ways in, which give the same [Client]:
//
//	c, err := client.Dial(ctx, "ws://127.0.0.1:8722/ws", nil)                // a server that listens
//	c, err := client.Spawn(ctx, "agent-server", []string{"--stdio"}, nil)    // a child process of one's own
//	c, err := client.Attach(ctx, conn, nil)                                  // any pipe that is open already
//
// A turn is an iterator and a result:
//
//	turn, err := c.StartTurn(ctx, protocol.TurnStartParams{Input: protocol.Text("hello"), Config: cfg})
//	for event, err := range turn.Events(ctx) { … }
//	ended, err := turn.Result(ctx)
//
// # What is guaranteed
//
// Within a session, every handler and every turn handle gets the events in the order of their numbers, each once, whatever the connection does:
// duplicates are dropped, what is missing is fetched with `events/replay`, and what came too early is held back meanwhile. A lost connection is
// opened again, with exponential back-off and jitter, and what was missed is fetched without waiting for a new event. What cannot be healed is
// said and never passed over: a [*GapError] names events that the server no longer has, [ErrInstanceChanged] says that the server is another
// process and its logs are gone, a [*DecodeError] holds an event that this build cannot read.
//
// A request that was under way when the connection dropped fails with [ErrConnectionLost]: whether it took effect is not known. Only `turn/start`
// is sent again, since the server admits a turn once. A request that is made while the connection is down waits for the next one, until its
// context ends.
//
// # How it is built
//
// One goroutine, the core's loop, owns the connection, the cursor and all state; nothing of it is under a lock. Public methods hand it closures,
// a connection's reader hands it decoded messages, and it hands events to queues, one for each handler and each turn handle, so that a slow
// consumer costs only its own lag. The pieces:
//
//	core.go      the loop, requests and their answers
//	heal.go      cursor, held events, replay, gaps
//	connect.go   dial, initialize, back-off
//	link.go      one connection: reader and writer
//	queue.go     what stands between the loop and a consumer
package client
