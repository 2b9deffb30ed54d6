package client

import (
	"errors"
	"fmt"

	"agentserver/protocol"
)

// An error that the server answered is a [*protocol.Error]; compare with [errors.Is] and the protocol.Err values. The errors below are the client's own.
var (
	// ErrClosed: the client was closed, by [Client.Close].
	ErrClosed = errors.New("client: closed")
	// ErrConnectionLost: the connection dropped while the request was under way; whether it took effect is not known. The client reconnects by
	// itself, except where it cannot ([Attach], [Options.NoReconnect]): there it is over, and every later call fails with this too.
	ErrConnectionLost = errors.New("client: connection lost")
	// ErrInstanceChanged: the server is another process than before, and the logs that this client followed are gone. A turn that failed with
	// it may have run, or may still run, in the earlier process.
	ErrInstanceChanged = errors.New("client: the server is a new instance; its earlier logs are gone")
	// ErrTurnNotFound: the server knows nothing of the turn that was to be followed.
	ErrTurnNotFound = errors.New("client: the session's log holds no such turn")
)

// A GapError says that events were lost for good: the server no longer has them, or could not give them out. What follows the gap is delivered.
type GapError struct {
	SessionID protocol.SessionID
	// First and Last are the first and the last number lost. Last is 0 when it is not known how far the gap reaches.
	First, Last uint64
	// Err is why, where it is not eviction.
	Err error
}

// Error names the session and the lost range.
func (e *GapError) Error() string {
	what := fmt.Sprintf("client: session %q: events %d to %d are lost", e.SessionID, e.First, e.Last)
	switch {
	case e.Last == 0:
		what = fmt.Sprintf("client: session %q: events from %d on may be lost", e.SessionID, e.First)
	case e.First == e.Last:
		what = fmt.Sprintf("client: session %q: event %d is lost", e.SessionID, e.First)
	}
	if e.Err != nil {
		return what + ": " + e.Err.Error()
	}
	return what + ": the server has evicted them; take session/snapshot for the whole conversation, or give the server a larger buffer"
}

// Unwrap returns Err.
func (e *GapError) Unwrap() error { return e.Err }

// A DecodeError says that an event cannot be decoded: its type is known to this build and its body does not fit. The event is not delivered.
type DecodeError struct {
	SessionID protocol.SessionID
	Seq       uint64
	// JSON is the envelope as it came; nil when it was over [Options.MaxMessageBytes].
	JSON []byte
	Err  error
}

// Error names the event and what is wrong with it.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("client: session %q: event %d cannot be decoded (is the server newer than this client?): %v", e.SessionID, e.Seq, e.Err)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// A LagError says that a consumer fell too far behind ([Options.QueueLimit]) and gets no further events.
type LagError struct{ Limit int }

// Error names the limit.
func (e *LagError) Error() string {
	return fmt.Sprintf("client: the consumer is %d events behind and was cut off; consume faster or raise Options.QueueLimit", e.Limit)
}

// A PanicError says that a handler panicked. The handler stays registered.
type PanicError struct {
	// Value is what the handler panicked with.
	Value any
	// Stack is the goroutine's stack at the panic.
	Stack []byte
}

// Error names the value; the stack is in the Stack field.
func (e *PanicError) Error() string {
	return fmt.Sprintf("client: an event handler panicked: %v", e.Value)
}
