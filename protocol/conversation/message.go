package conversation

import "agentserver/protocol"

func (s *State) messageStarted(e *protocol.MessageStarted) {
	turn := s.turnOf(e.TurnID)
	place, known := s.cur.idx.messages[e.MessageID]
	if known {
		s.fillMessage(place, e)
		return
	}
	m := &Message{ID: e.MessageID, TurnID: e.TurnID, Seq: s.seq, OutputIndex: e.OutputIndex, Role: e.Role, ParentToolCallID: e.ParentToolCallID,
		Model: e.Model, StartedAt: e.Timestamp, Meta: e.Meta}
	if s.cur.Turns.At(turn).Status == TurnRunning {
		if before, open := s.speaks[e.TurnID]; open {
			s.closeMessage(before, e.Timestamp)
		}
		m.Open = true
	}
	s.addMessage(turn, m)
}

// fillMessage adds what message.started tells to a message that a part has opened.
func (s *State) fillMessage(place int, e *protocol.MessageStarted) {
	m := *s.cur.Timeline.At(place).Message
	if m.StartedAt != 0 {
		return
	}
	if m.ParentToolCallID != e.ParentToolCallID && m.ParentToolCallID == "" {
		s.cur.idx.putChild(e.ParentToolCallID, place)
		m.ParentToolCallID = e.ParentToolCallID
	}
	m.StartedAt, m.Role, m.Model, m.Meta = e.Timestamp, e.Role, e.Model, e.Meta
	s.setMessage(place, m)
}

// implyMessage opens the message of a part that came without.
func (s *State) implyMessage(id protocol.MessageID, turnID protocol.TurnID, outputIndex int, parent string) int {
	turn := s.turnOf(turnID)
	m := &Message{ID: id, TurnID: turnID, Seq: s.seq, OutputIndex: outputIndex, Role: protocol.RoleAssistant, ParentToolCallID: parent}
	if id == protocol.EchoMessageID(turnID) {
		m.Role = protocol.RoleUser
	}
	_, other := s.speaks[turnID]
	m.Open = !other && s.cur.Turns.At(turn).Status == TurnRunning
	return s.addMessage(turn, m)
}

func (s *State) addMessage(turn int, m *Message) int {
	place := s.addEntry(turn, Entry{Message: m})
	put(s.cur.idx, s.cur.idx.messages, m.ID, place)
	s.cur.idx.putChild(m.ParentToolCallID, place)
	if m.Open {
		s.speaks[m.TurnID] = place
	}
	s.changed(Change{Kind: MessageChanged, TurnID: m.TurnID, MessageID: m.ID, Message: m})
	return place
}

func (s *State) messageEnded(e *protocol.MessageEnded) {
	if place, ok := s.cur.idx.messages[e.MessageID]; ok {
		s.closeMessage(place, e.Timestamp)
	}
}

// closeMessage closes a message, unless it is closed.
func (s *State) closeMessage(place int, at int64) {
	m := *s.cur.Timeline.At(place).Message
	if !m.Open {
		return
	}
	m.Open, m.EndedAt = false, at
	if s.speaks[m.TurnID] == place {
		delete(s.speaks, m.TurnID)
	}
	s.setMessage(place, m)
}

func (s *State) setMessage(place int, m Message) {
	s.cur.Timeline = s.cur.Timeline.set(place, Entry{Message: &m})
	s.changed(Change{Kind: MessageChanged, TurnID: m.TurnID, MessageID: m.ID, Message: &m})
}
