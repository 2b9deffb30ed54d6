// Package eventlog holds the session logs of one process (RFD 0003).
//
// Appending an event to a session's log is the only way that it becomes visible. There is no queue per reader: a [Follower] is a cursor into the
// process-wide order of appended entries, and costs nothing but its own lag. [Store.Append] never waits for a reader.
//
//   - The JSON of an event is made at most once, when the first reader asks for it ([Entry.Frame]), and is shared by all. It then replaces the Go
//     value, so that an event is held once.
//   - Logs are bounded in events and bytes, each by itself and all together ([Limits]). Evicting an entry is O(1). Of all logs together, what
//     closed sessions left behind goes first, then the oldest of the session that was quiet for longest. The newest entry of an open log stays.
//   - A follower whose next entry was evicted goes on at the oldest that it can still have, and [Batch.Gap] says so.
//   - A session's numbers go on when it is closed and opened again.
package eventlog
