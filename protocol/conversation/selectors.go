package conversation

import (
	"iter"
	"slices"
	"strings"

	"agentserver/protocol"
)

// Turn returns a turn, or nil.
func (s *Snapshot) Turn(id protocol.TurnID) *Turn {
	if i, ok := find(s.idx, s.idx.turns, id, s.Turns.Len()); ok {
		return s.Turns.At(i)
	}
	return nil
}

// ActiveTurn returns the turn that runs, or nil.
func (s *Snapshot) ActiveTurn() *Turn { return s.Turn(s.ActiveTurnID) }

// Message returns a message, or nil.
func (s *Snapshot) Message(id protocol.MessageID) *Message {
	if i, ok := find(s.idx, s.idx.messages, id, s.Timeline.Len()); ok {
		return s.Timeline.At(i).Message
	}
	return nil
}

// Compaction returns a compaction, or nil.
func (s *Snapshot) Compaction(id protocol.CompactionID) *Compaction {
	if i, ok := find(s.idx, s.idx.compacts, id, s.Timeline.Len()); ok {
		return s.Timeline.At(i).Compaction
	}
	return nil
}

// Permission returns a permission request, or nil.
func (s *Snapshot) Permission(id protocol.RequestID) *Permission {
	if i, ok := find(s.idx, s.idx.requests, id, s.Permissions.Len()); ok {
		return s.Permissions.At(i)
	}
	return nil
}

// Part returns a part, or nil.
func (s *Snapshot) Part(id protocol.PartID) *Part {
	s.idx.mu.RLock()
	at, ok := s.idx.parts[id]
	s.idx.mu.RUnlock()
	return s.partAt(at, ok)
}

// ToolCall returns the tool part of a provider's tool call id, or nil.
func (s *Snapshot) ToolCall(id string) *Part {
	s.idx.mu.RLock()
	at, ok := s.idx.calls[id]
	s.idx.mu.RUnlock()
	return s.partAt(at, ok)
}

func (s *Snapshot) partAt(at partPlace, ok bool) *Part {
	if !ok || at.message >= s.Timeline.Len() {
		return nil
	}
	if m := s.Timeline.At(at.message).Message; at.part < m.parts.Len() {
		return m.parts.At(at.part)
	}
	return nil
}

// Messages ranges over all messages, in the order of the timeline.
func (s *Snapshot) Messages() iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		for _, e := range s.Timeline.All() {
			if e.Message != nil && !yield(e.Message) {
				return
			}
		}
	}
}

// Pending returns the permission requests that wait for an answer, oldest first.
func (s *Snapshot) Pending() []*Permission {
	var out []*Permission
	for _, p := range s.Permissions.From(s.pendingFrom) {
		if len(out) == s.pending {
			break
		}
		if p.Pending() {
			out = append(out, p)
		}
	}
	return out
}

// Subagent returns the messages under a tool call, in the order of the timeline, those of later turns included.
func (s *Snapshot) Subagent(toolCallID string) []*Message {
	var out []*Message
	for _, i := range s.idx.childrenOf(toolCallID, s.Timeline.Len()) {
		if m := s.Timeline.At(i).Message; m.ParentToolCallID == toolCallID {
			out = append(out, m)
		}
	}
	return out
}

// Len returns how many parts the message has.
func (m *Message) Len() int { return m.parts.Len() }

// Parts ranges over the message's parts, by their index.
func (m *Message) Parts() iter.Seq[*Part] {
	return func(yield func(*Part) bool) {
		for _, p := range m.ordered().All() {
			if !yield(p) {
				return
			}
		}
	}
}

func (m *Message) ordered() List[*Part] {
	if !m.unsorted {
		return m.parts
	}
	all := m.parts.Slice()
	slices.SortStableFunc(all, func(a, b *Part) int { return a.Index - b.Index })
	return listOf(all)
}

// Text returns the text of the message's text parts, one after the other.
func (m *Message) Text() string {
	var b strings.Builder
	for p := range m.Parts() {
		if t, ok := p.Part.(*protocol.TextPart); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// A Group is a turn as a view shows it.
type Group struct {
	Turn *Turn
	// Prompt is the echo of the turn's input; nil for a turn that the agent began by itself.
	Prompt *Message
	// Items are the turn's other messages and its compactions. What a sub-agent said stands under its tool call; under none when that is not in the turn.
	Items []Item
}

// An Item is a message with its parts, or a compaction.
type Item struct {
	Entry
	Parts []Node
}

// A Node is a part and, for a tool call that runs a sub-agent, what that said.
type Node struct {
	Part     *Part
	Subagent []Item
}

// Groups ranges over all turns, oldest first.
func (s *Snapshot) Groups() iter.Seq[Group] {
	return func(yield func(Group) bool) {
		for _, t := range s.Turns.All() {
			if !yield(s.group(t)) {
				return
			}
		}
	}
}

// Group returns one turn as a view shows it; its Turn is nil when the turn is not known.
func (s *Snapshot) Group(id protocol.TurnID) Group {
	t := s.Turn(id)
	if t == nil {
		return Group{}
	}
	return s.group(t)
}

func (s *Snapshot) group(t *Turn) Group {
	g := Group{Turn: t}
	b := grouping{calls: make(map[string]bool), under: make(map[string][]Entry)}
	entries := make([]Entry, 0, t.entries.Len())
	for _, place := range t.entries.All() {
		e := s.Timeline.At(place)
		entries = append(entries, e)
		if e.Message == nil {
			continue
		}
		for _, p := range e.Message.parts.All() {
			if tool, ok := p.Part.(*protocol.ToolPart); ok {
				b.calls[tool.ToolCallID] = true
			}
		}
	}
	var top []Entry
	for _, e := range entries {
		switch {
		case e.Message != nil && g.Prompt == nil && e.Message.ID == protocol.EchoMessageID(t.ID):
			g.Prompt = e.Message
		case e.Message != nil && b.calls[e.Message.ParentToolCallID]:
			b.under[e.Message.ParentToolCallID] = append(b.under[e.Message.ParentToolCallID], e)
		default:
			top = append(top, e)
		}
	}
	g.Items = b.items(top)
	return g
}

// A grouping puts the messages of sub-agents under their tool calls. Each is used once, so that calls that name each other do no harm.
type grouping struct {
	calls map[string]bool
	under map[string][]Entry
}

func (b *grouping) items(entries []Entry) []Item {
	out := make([]Item, 0, len(entries))
	for _, e := range entries {
		item := Item{Entry: e}
		if e.Message != nil {
			for p := range e.Message.Parts() {
				node := Node{Part: p}
				if tool, ok := p.Part.(*protocol.ToolPart); ok {
					if under := b.under[tool.ToolCallID]; under != nil {
						delete(b.under, tool.ToolCallID)
						node.Subagent = b.items(under)
					}
				}
				item.Parts = append(item.Parts, node)
			}
		}
		out = append(out, item)
	}
	return out
}
