package eventlog

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"agentserver/protocol"
)

// An Entry is one appended event. Its methods are safe for concurrent use, also after the entry was evicted.
type Entry struct {
	log *sessionLog
	seq uint64
	pos uint64 // place in the process-wide order, from 1

	// Guarded by Store.mu.
	slot int // index in the order's slots
	size int // bytes accounted; -1 once evicted

	encoded atomic.Bool // set after frame, so that a reader that sees it sees the frame
	mu      sync.Mutex
	event   protocol.Event // nil once encoded
	frame   []byte
}

// entryOverhead is what an entry costs beside its JSON, in bytes.
const entryOverhead = 128

// SessionID returns the session that the entry belongs to.
func (e *Entry) SessionID() protocol.SessionID { return e.log.id }

// Seq returns the entry's number in its session.
func (e *Entry) Seq() uint64 { return e.seq }

// Event returns the event. It is shared and must not be changed. Before the entry is encoded this is the value that was appended, afterwards one
// decoded from the frame.
func (e *Entry) Event() protocol.Event {
	e.mu.Lock()
	event := e.event
	e.mu.Unlock()
	if event != nil {
		return event
	}
	env, err := protocol.DecodeEnvelope(e.frame[len(framePrefix) : len(e.frame)-1])
	if err != nil {
		return unencodable(e.log.id, e.seq, err)
	}
	return env.Event
}

// Envelope returns the entry as a row of its session's log.
func (e *Entry) Envelope() protocol.Envelope {
	return protocol.Envelope{SessionID: e.log.id, Seq: e.seq, Event: e.Event()}
}

// Frame returns the JSON of the whole `event` notification, made at most once. It is shared and must not be changed. An event that cannot be
// encoded becomes an `error` event, so that the session's numbers have no hole on the wire either.
func (e *Entry) Frame() []byte {
	if e.encoded.Load() {
		return e.frame
	}
	if e.encode() {
		e.log.store.resize(e, entryOverhead+len(e.frame))
	}
	return e.frame
}

// EnvelopeJSON returns the part of [Entry.Frame] that is the envelope.
func (e *Entry) EnvelopeJSON() []byte {
	f := e.Frame()
	return f[len(framePrefix) : len(f)-1]
}

const framePrefix = `{"jsonrpc":"2.0","method":"event","params":`

var scratch = sync.Pool{New: func() any { return new([]byte) }}

// encode reports whether it was this call that made the frame.
func (e *Entry) encode() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.encoded.Load() {
		return false
	}
	buf := scratch.Get().(*[]byte)
	env := protocol.Envelope{SessionID: e.log.id, Seq: e.seq, Event: e.event}
	b, err := appendNotification((*buf)[:0], env)
	if err != nil {
		env.Event = unencodable(e.log.id, e.seq, err)
		if b, err = appendNotification((*buf)[:0], env); err != nil {
			panic("eventlog: " + err.Error()) // a session id and two constants
		}
	}
	e.frame = bytes.Clone(b)
	if cap(b) <= 1<<20 { // a rare large event must not stay in the pool
		*buf = b[:0]
		scratch.Put(buf)
	}
	e.event = nil
	e.encoded.Store(true)
	return true
}

// appendNotification guards against a marshaler that panics on a malformed value.
func appendNotification(dst []byte, env protocol.Envelope) (b []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("encoding panicked: %v", r)
		}
	}()
	return protocol.AppendNotification(dst, env)
}

// unencodable stands in for an event whose JSON cannot be made.
func unencodable(id protocol.SessionID, seq uint64, err error) protocol.Event {
	return &protocol.ErrorEvent{
		EventHeader: protocol.EventHeader{SessionID: id},
		Category:    protocol.CategoryInternal,
		Message:     "event " + strconv.FormatUint(seq, 10) + " could not be encoded: " + err.Error(),
		Recoverable: true,
	}
}
