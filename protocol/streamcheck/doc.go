// Package streamcheck checks a session's recorded stream against the contract of the protocol.
//
//	for _, v := range streamcheck.Check(stream) {
//		fmt.Println(v) // 17: delta_closed: part p3 is done, and takes no deltas
//	}
//
// A [Checker] is fed one envelope at a time and takes streams of any length in bounded memory: it keeps the open turn, the parts that can still change,
// and of what is over only the newest ids. What it has forgotten it does not judge. A stream that starts in the middle is judged from its first
// turn.started on.
//
// # The rules
//
// Each [Rule] has a constant, which says what it demands. Beyond single events, the checker folds the stream (package conversation) twice, once with every
// upsert applied two times, and demands that both states are equal.
package streamcheck
