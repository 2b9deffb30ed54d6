package conversation

import (
	"agentserver/protocol"
)

// A State folds the events of one session. It belongs to one goroutine; what [State.Snapshot] returns does not. Create one with [New] or
// [FromSnapshot].
type State struct {
	cur  Snapshot
	shot *Snapshot // what Snapshot returned, while it is up to date

	growing map[protocol.PartID]*growth // parts that deltas append to
	dirty   []*growth                   // those of which cur does not hold all
	speaks  map[protocol.TurnID]int     // the open message of a turn, by its place in the timeline
	opened  []partPlace                 // parts of the active turn that are or were open
	open    [numKinds]int               // how many parts of the active turn are open, by kind

	seq     uint64 // the number of the event that is being applied; 0 without one
	changes []Change
}

// New returns the state of a session in which nothing has happened. With an empty id it becomes the session of the first envelope.
func New(session protocol.SessionID) *State {
	return &State{
		cur:     Snapshot{SessionID: session, Activity: Idle, idx: newIndex()},
		growing: make(map[protocol.PartID]*growth),
		speaks:  make(map[protocol.TurnID]int),
	}
}

// SessionID returns the session's id.
func (s *State) SessionID() protocol.SessionID { return s.cur.SessionID }

// Seq returns the number of the last event that was folded in, 0 before the first.
func (s *State) Seq() uint64 { return s.cur.Seq }

// Apply folds an event in and returns what it changed, in an order in which a view can follow. The slice is valid until the next call.
//
// An event whose number was passed, or of another session, changes nothing. A number that skips some is taken, and the skipped ones are noted as a
// gap: whoever wants to heal it holds the event back (package client does). A log that begins anew at 1 needs a new State.
func (s *State) Apply(env protocol.Envelope) []Change {
	if s.cur.SessionID == "" {
		s.cur.SessionID = env.SessionID
	}
	if env.SessionID != s.cur.SessionID || env.Seq <= s.cur.Seq {
		return nil
	}
	s.begin(env.Seq)
	if env.Seq > s.cur.Seq+1 {
		gap := Gap{s.cur.Seq + 1, env.Seq - 1}
		s.cur.Gaps = s.cur.Gaps.push(gap)
		s.changed(Change{Kind: GapFound, Gap: gap})
	}
	s.cur.Seq = env.Seq
	s.fold(env.Event)
	return s.changes
}

// ApplyEvent folds in an event that has no number. Upserts are idempotent then too; a delta, an error or an unknown event that is applied twice
// counts twice.
func (s *State) ApplyEvent(e protocol.Event) []Change {
	s.begin(0)
	s.fold(e)
	return s.changes
}

func (s *State) begin(seq uint64) {
	clear(s.changes)
	s.changes = s.changes[:0]
	s.seq = seq
	s.shot = nil
}

func (s *State) changed(c Change) { s.changes = append(s.changes, c) }

func (s *State) fold(e protocol.Event) {
	switch e := e.(type) {
	case *protocol.MessagePartDelta:
		s.delta(e)
	case *protocol.MessagePart:
		s.part(e)
	case *protocol.MessageStarted:
		s.messageStarted(e)
	case *protocol.MessageEnded:
		s.messageEnded(e)
	case *protocol.TurnStarted:
		s.turnStarted(e)
	case *protocol.TurnEnded:
		s.turnEnded(e)
	case *protocol.PermissionRequested:
		s.permissionRequested(e)
	case *protocol.PermissionResolved:
		s.permissionResolved(e)
	case *protocol.SessionCreated:
		s.sessionCreated(e)
	case *protocol.SessionEnded:
		s.sessionEnded(e)
	case *protocol.SessionUsage:
		s.cur.Usage = &Usage{TurnID: e.TurnID, Used: e.Used, Size: e.Size, Cost: e.Cost, At: e.Timestamp}
		s.changed(Change{Kind: UsageChanged, TurnID: e.TurnID, Usage: s.cur.Usage})
	case *protocol.SessionCompaction:
		s.compaction(e)
	case *protocol.SessionNotice:
		s.setNotice(&Notice{Seq: s.seq, TurnID: e.TurnID, At: e.Timestamp, Kind: e.Kind, Message: e.Message, Progress: e.Progress})
	case *protocol.ErrorEvent:
		added := &Error{Seq: s.seq, TurnID: e.TurnID, At: e.Timestamp, Category: e.Category, Message: e.Message, Recoverable: e.Recoverable, Stack: e.Stack}
		s.cur.Errors = s.cur.Errors.push(added)
		s.changed(Change{Kind: ErrorAdded, TurnID: e.TurnID, Error: added})
	case *protocol.Raw:
	default:
		s.unknown(e)
	}
	s.updateActivity()
}

func (s *State) unknown(e protocol.Event) {
	u := &Unknown{Seq: s.seq, Event: e}
	s.cur.Unknown = s.cur.Unknown.push(u)
	s.changed(Change{Kind: UnknownAdded, Unknown: u})
}

func (s *State) setNotice(n *Notice) {
	s.cur.Notice = n
	s.changed(Change{Kind: NoticeChanged, Notice: n})
}

func (s *State) sessionCreated(e *protocol.SessionCreated) {
	next := Session{CreatedAt: e.Timestamp}
	if s.cur.Session != nil {
		next = *s.cur.Session
	}
	next.Harness, next.NativeSessionID, next.Ended = e.Harness, e.NativeSessionID, nil
	if e.Model != "" {
		next.Model = e.Model
	}
	if e.Resumed != nil {
		next.Resumed = e.Resumed
	}
	s.setSession(next)
}

func (s *State) sessionEnded(e *protocol.SessionEnded) {
	var next Session
	if s.cur.Session != nil {
		next = *s.cur.Session
	}
	next.Ended = &SessionEnd{Reason: e.Reason, At: e.Timestamp}
	s.setSession(next)
}

func (s *State) setSession(next Session) {
	s.cur.Session = &next
	s.changed(Change{Kind: SessionChanged, Session: &next})
}

func (s *State) compaction(e *protocol.SessionCompaction) {
	turn := s.turnOf(e.TurnID)
	next := Compaction{ID: e.CompactionID, TurnID: e.TurnID, Seq: s.seq, At: e.Timestamp}
	place, known := s.cur.idx.compacts[e.CompactionID]
	if known {
		next = *s.cur.Timeline.At(place).Compaction
	}
	next.Status = e.Status
	if e.Trigger != "" {
		next.Trigger = e.Trigger
	}
	if e.PreTokens != nil {
		next.PreTokens = e.PreTokens
	}
	if e.PostTokens != nil {
		next.PostTokens = e.PostTokens
	}
	if e.Summary != "" {
		next.Summary = e.Summary
	}
	if e.AbstractsIDs != nil {
		next.AbstractsIDs = e.AbstractsIDs
	}
	if known {
		s.cur.Timeline = s.cur.Timeline.set(place, Entry{Compaction: &next})
	} else {
		place = s.addEntry(turn, Entry{Compaction: &next})
		put(s.cur.idx, s.cur.idx.compacts, e.CompactionID, place)
	}
	s.changed(Change{Kind: CompactionChanged, TurnID: e.TurnID, Compaction: &next})
}

// addEntry puts an entry at the end of the timeline, as one of the turn at that place, and returns its own place.
func (s *State) addEntry(turn int, e Entry) int {
	place := s.cur.Timeline.Len()
	s.cur.Timeline = s.cur.Timeline.push(e)
	t := *s.cur.Turns.At(turn)
	t.entries = t.entries.push(place)
	s.cur.Turns = s.cur.Turns.set(turn, &t)
	return place
}

func (s *State) updateActivity() {
	if a := s.activity(); a != s.cur.Activity {
		s.cur.Activity = a
		s.changed(Change{Kind: ActivityChanged, Activity: a})
	}
}

func (s *State) activity() Activity {
	switch {
	case s.cur.pending > 0:
		return WaitingForPermission
	case s.cur.ActiveTurnID == "":
		if n := s.cur.Turns.Len(); n > 0 && s.cur.Turns.At(n-1).StopReason == protocol.StopError {
			return Failed
		}
		return Idle
	case s.open[kindText]+s.open[kindPending] > 0:
		return Generating
	case s.open[kindReasoning] > 0:
		return Thinking
	case s.open[kindRunning] > 0:
		return ToolRunning
	}
	return Thinking
}
