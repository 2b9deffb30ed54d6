// Package wire serves an [engine.Runtime] over JSON-RPC 2.0: WebSocket, stdio, a connection that the server itself dials, or any pipe
// (spec sections 1 and 2).
//
//	srv := wire.New(rt, wire.Options{})
//	http.Handle("/ws", srv.Handler())       // in a server of one's own
//	err = srv.ServeStdio(ctx, in, out)      // as a child process
//	err = srv.ServeListener(ctx, listener)  // WebSocket, with /healthz
//	err = srv.DialOut(ctx, url, nil)        // to a relay
//	…
//	srv.Shutdown(ctx)                       // drains the runtime, then closes every connection with 1001
//
// # A connection
//
// A connection has a reader, on which requests are handled in the order in which they came (what may wait for an agent goes to a goroutine of its
// own), and a pump, which copies what the session logs get, in batches, to the connection. Replies and events share one queue, and what stands in
// it is written together. [engine.Admission.Begin] is called when the answer to turn/start stands in the queue, so that no event of the turn can
// overtake it.
//
// Nobody waits for a slow connection: its pump lags, which costs nothing (package eventlog), and a peer that takes no byte for
// [Options.WriteTimeout] is closed with 4408.
//
// # The methods
//
// methods.go has one table with one row for each; adding a method is adding a row.
package wire
