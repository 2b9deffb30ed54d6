package conversation

import "agentserver/protocol"

// A Snapshot is a session's state after one event. It is immutable and safe to share; snapshots of one session share what they have in common.
type Snapshot struct {
	SessionID protocol.SessionID
	// Seq is the number of the last event that is folded in.
	Seq  uint64
	Gaps List[Gap]
	// Session is nil until session.created.
	Session  *Session
	Activity Activity
	// ActiveTurnID is the turn that runs, if one does.
	ActiveTurnID protocol.TurnID
	Timeline     List[Entry]
	Turns        List[*Turn]
	Permissions  List[*Permission]
	// Usage is nil until session.usage.
	Usage   *Usage
	Totals  Totals
	Errors  List[*Error]
	Notice  *Notice
	Unknown List[*Unknown]

	idx         *index
	pending     int // how many permissions are pending
	pendingFrom int // where to look for them
}

// Snapshot returns the state as it is. Until the next event the same one is returned.
func (s *State) Snapshot() *Snapshot {
	if s.shot == nil {
		s.settle()
		shot := s.cur
		s.shot = &shot
	}
	return s.shot
}

// FromSnapshot returns a state that goes on from a snapshot, which stays as it is. It takes time in proportion to the conversation.
func FromSnapshot(from *Snapshot) *State {
	s := New(from.SessionID)
	s.cur = *from
	s.cur.idx = newIndex()
	s.cur.Gaps, s.cur.Timeline, s.cur.Turns = from.Gaps.detached(), from.Timeline.detached(), from.Turns.detached()
	s.cur.Permissions, s.cur.Errors, s.cur.Unknown = from.Permissions.detached(), from.Errors.detached(), from.Unknown.detached()
	for i, t := range from.Turns.All() {
		s.cur.idx.turns[t.ID] = i
		own := *t
		own.entries = t.entries.detached()
		s.cur.Turns = s.cur.Turns.set(i, &own)
	}
	for i, p := range from.Permissions.All() {
		s.cur.idx.requests[p.RequestID] = i
	}
	for i, e := range from.Timeline.All() {
		if e.Compaction != nil {
			s.cur.idx.compacts[e.Compaction.ID] = i
			continue
		}
		s.takeMessage(i, e.Message)
	}
	return s
}

// takeMessage indexes a message of a snapshot.
func (s *State) takeMessage(place int, from *Message) {
	m := *from
	m.parts = from.parts.detached()
	s.cur.Timeline = s.cur.Timeline.set(place, Entry{Message: &m})
	s.cur.idx.messages[m.ID] = place
	s.cur.idx.putChild(m.ParentToolCallID, place)
	if m.Open {
		s.speaks[m.TurnID] = place
	}
	for i, p := range m.parts.All() {
		at := partPlace{place, i}
		s.cur.idx.putPart(p.Part, at)
		s.count(at, p.TurnID, kindClosed, kindOf(p.Part))
	}
}
