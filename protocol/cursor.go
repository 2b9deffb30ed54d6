package protocol

import (
	"maps"
	"slices"
)

// A Verdict says what [SeqCursor.Advance] made of a number.
type Verdict int

// The four verdicts of spec section 6.
const (
	// Deliver: the next event; the cursor moved to it.
	Deliver Verdict = iota
	// Duplicate: already seen; the cursor stays.
	Duplicate
	// Reset: number 1 of a fresh log; the cursor is 1.
	Reset
	// Gap: events before this one are missing; the cursor stays.
	Gap
)

// String returns the verdict's name in lower case.
func (v Verdict) String() string { return [...]string{"deliver", "duplicate", "reset", "gap"}[v] }

// A SeqCursor follows the numbers of many sessions. The zero value has seen none. It is not safe for concurrent use.
type SeqCursor struct{ seen map[SessionID]uint64 }

// Advance judges seq, the number of an event of session that has just come, and moves the cursor when the event is to be delivered.
func (c *SeqCursor) Advance(session SessionID, seq uint64) Verdict {
	last := c.seen[session]
	switch {
	case seq == last+1:
		c.Seek(session, seq)
		return Deliver
	case seq == 1 && last >= 2:
		c.Seek(session, 1)
		return Reset
	case seq <= last:
		return Duplicate
	}
	return Gap
}

// Last returns the number of the last event delivered, 0 for a session never seen.
func (c *SeqCursor) Last(session SessionID) uint64 { return c.seen[session] }

// Seek sets the number of the last event delivered.
func (c *SeqCursor) Seek(session SessionID, seq uint64) {
	if c.seen == nil {
		c.seen = make(map[SessionID]uint64)
	}
	c.seen[session] = seq
}

// Sessions returns the sessions that have a cursor, sorted.
func (c *SeqCursor) Sessions() []SessionID { return slices.Sorted(maps.Keys(c.seen)) }

// Reset forgets a session.
func (c *SeqCursor) Reset(session SessionID) { delete(c.seen, session) }
