// Package transport moves JSON-RPC 2.0 messages between two processes: a [Pipe] carries texts, a [Conn] gives them meaning.
//
//	engine/wire ─┐                                   ┌─ Accept, Dial   WebSocket, one message a text frame
//	client       ├─ Conn ── jsonrpc2.Conn ── stream ─┼─ NewLines       NDJSON on a child's or our own stdio
//	harness/*   ─┘                                   └─ Memory         a pair in one process, for tests
//
// # Order
//
// Everything inbound is seen by one goroutine, the read loop, in the order of the wire: [Options].Handle for requests,
// [Options].Notify for notifications, and the callback of [Conn.Start] for responses. Who needs one total order, such as a driver for which
// a prompt's response ends a turn, takes all three. [Conn.Call] returns after every hook for what came before its response has returned.
//
// Everything outbound goes through one queue: replies, calls, notifications and the pre-encoded frames of [Conn.Send]. What was queued first
// is written first, and what waits is written together. At any time at most one goroutine writes; no lock is held while it does.
//
// # What is left to sourcegraph/jsonrpc2, and what is not
//
// jsonrpc2 correlates calls with responses, hands requests out and tears down. It would, however, re-encode params (sorting keys, escaping
// HTML), close the connection on the first malformed text, answer a negative id under another one, and keep the entry of a call that was
// given up. So the stream under it shows it skeletons: `{"id":7,"method":"turn/start"}` with a number of ours for an id and no params. The
// bytes wait in the [Conn] under that number: params reach the handler as the peer wrote them, results go out as the handler gave them, and
// the answer carries the very token that the peer used as id.
package transport
