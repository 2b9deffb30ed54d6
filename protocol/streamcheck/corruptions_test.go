package streamcheck_test

import (
	"encoding/json"
	"math/rand/v2"

	"agentserver/protocol"
	"agentserver/protocol/conversation/conversationtest"
	. "agentserver/protocol/streamcheck"
)

// A tape is a stream that can be cut.
type tape struct {
	stream []protocol.Envelope
	rng    *rand.Rand
}

func newTape(seed uint64) *tape {
	return &tape{conversationtest.Stream(seed, 160), rand.New(rand.NewPCG(seed, 11))}
}

// pick returns a random place whose event is an E that fits.
func pick[E protocol.Event](s *tape, fits func(e E, at int) bool) (e E, at int, ok bool) {
	var all []int
	for i, env := range s.stream {
		if e, is := env.Event.(E); is && (fits == nil || fits(e, i)) {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return e, 0, false
	}
	at = all[s.rng.IntN(len(all))]
	return s.stream[at].Event.(E), at, true
}

func (s *tape) renumber() {
	for i := range s.stream {
		s.stream[i].Seq = uint64(i + 1)
	}
}

func (s *tape) drop(at int) bool {
	s.stream = append(s.stream[:at:at], s.stream[at+1:]...)
	s.renumber()
	return true
}

// insert puts an event before the place.
func (s *tape) insert(at int, e protocol.Event) bool {
	e.Header().SessionID = s.stream[0].SessionID
	rest := append([]protocol.Envelope{{SessionID: s.stream[0].SessionID, Event: e}}, s.stream[at:]...)
	s.stream = append(s.stream[:at:at], rest...)
	s.renumber()
	return true
}

func (s *tape) replace(at int, e protocol.Event) bool { s.stream[at].Event = e; return true }

// change replaces an event that fits by a changed copy.
func change[T any, E interface {
	*T
	protocol.Event
}](fits func(e E, s *tape, at int) bool, edit func(e E)) func(*tape) bool {
	return func(s *tape) bool {
		e, at, ok := pick(s, func(e E, at int) bool { return fits == nil || fits(e, s, at) })
		if !ok {
			return false
		}
		c := *e
		edit(E(&c))
		return s.replace(at, E(&c))
	}
}

func drop[E protocol.Event](fits func(e E, s *tape, at int) bool) func(*tape) bool {
	return func(s *tape) bool {
		_, at, ok := pick(s, func(e E, at int) bool { return fits == nil || fits(e, s, at) })
		return ok && s.drop(at)
	}
}

func double[E protocol.Event](fits func(e E, s *tape, at int) bool) func(*tape) bool {
	return func(s *tape) bool {
		e, at, ok := pick(s, func(e E, at int) bool { return fits == nil || fits(e, s, at) })
		return ok && s.insert(at+1, e)
	}
}

// first reports whether the snapshot at a place is its part's first.
func (s *tape) first(e *protocol.MessagePart, at int) bool {
	for _, env := range s.stream[:at] {
		if p, ok := env.Event.(*protocol.MessagePart); ok && p.Part.Header().ID == e.Part.Header().ID {
			return false
		}
	}
	return true
}

func isFirst(e *protocol.MessagePart, s *tape, at int) bool { return s.first(e, at) }
func isLater(e *protocol.MessagePart, s *tape, at int) bool { return !s.first(e, at) }

// deltas counts the text of the deltas of a part.
func (s *tape) deltas(id protocol.PartID) (n int) {
	for _, env := range s.stream {
		if d, ok := env.Event.(*protocol.MessagePartDelta); ok && d.PartID == id {
			n++
		}
	}
	return n
}

func isEcho(e *protocol.MessageStarted, _ *tape, _ int) bool {
	return e.MessageID == protocol.EchoMessageID(e.TurnID)
}
func notEcho(e *protocol.MessageStarted, s *tape, at int) bool { return !isEcho(e, s, at) }

// endOf is the place of a turn's end.
func (s *tape) endOf(turn protocol.TurnID) int {
	for i, env := range s.stream {
		if e, ok := env.Event.(*protocol.TurnEnded); ok && e.TurnID == turn {
			return i
		}
	}
	return -1
}

func isStatus(status protocol.ToolStatus) func(*protocol.MessagePart, *tape, int) bool {
	return func(e *protocol.MessagePart, _ *tape, _ int) bool {
		tool, ok := e.Part.(*protocol.ToolPart)
		return ok && tool.State.Status() == status
	}
}

func isText(state protocol.PartState) func(*protocol.MessagePart, *tape, int) bool {
	return func(e *protocol.MessagePart, s *tape, _ int) bool {
		text, ok := e.Part.(*protocol.TextPart)
		return ok && text.State == state && s.deltas(text.ID) > 0
	}
}

// editPart changes a copy of the part of type P in a snapshot.
func editPart[T any, P interface {
	*T
	protocol.Part
}](e *protocol.MessagePart, edit func(P)) {
	c := *e.Part.(P)
	edit(P(&c))
	e.Part = P(&c)
}

// editHeader changes the header of a copy of the part.
func editHeader(e *protocol.MessagePart, edit func(*protocol.PartHeader)) {
	switch e.Part.(type) {
	case *protocol.TextPart:
		editPart(e, func(p *protocol.TextPart) { edit(&p.PartHeader) })
	case *protocol.ReasoningPart:
		editPart(e, func(p *protocol.ReasoningPart) { edit(&p.PartHeader) })
	case *protocol.ToolPart:
		editPart(e, func(p *protocol.ToolPart) { edit(&p.PartHeader) })
	case *protocol.ImagePart:
		editPart(e, func(p *protocol.ImagePart) { edit(&p.PartHeader) })
	}
}

func known(e *protocol.MessagePart, _ *tape, _ int) bool {
	_, unknown := e.Part.(*protocol.UnknownPart)
	return !unknown
}

var corruptions = []corruption{
	{"an event is lost", []Rule{RuleSeq}, func(s *tape) bool {
		at := 1 + s.rng.IntN(len(s.stream)-2)
		s.stream = append(s.stream[:at:at], s.stream[at+1:]...)
		return true
	}},
	{"a row comes twice", []Rule{RuleSeq}, func(s *tape) bool {
		at := s.rng.IntN(len(s.stream))
		s.stream = append(s.stream[:at+1:at+1], s.stream[at:]...)
		return true
	}},
	{"two rows change places", []Rule{RuleSeq}, func(s *tape) bool {
		at := 1 + s.rng.IntN(len(s.stream)-1)
		s.stream[at], s.stream[at-1] = s.stream[at-1], s.stream[at]
		return true
	}},
	{"a row of another session", []Rule{RuleSession}, func(s *tape) bool { s.stream[1+s.rng.IntN(len(s.stream)-1)].SessionID = "other"; return true }},
	{"an event of another session", []Rule{RuleSession}, change(nil, func(e *protocol.TurnEnded) { e.SessionID = "other" })},
	{"a part of another session", []Rule{RuleSession}, change(known, func(e *protocol.MessagePart) {
		editHeader(e, func(h *protocol.PartHeader) { h.SessionID = "other" })
	})},

	{"a turn does not start", []Rule{RuleOutsideTurn, RuleEcho}, drop(func(e *protocol.TurnStarted, _ *tape, at int) bool { return at > 0 })},
	{"a turn does not end", []Rule{RuleTurnOverlap, RuleNoEnd}, drop[*protocol.TurnEnded](nil)},
	{"the last turn does not end", []Rule{RuleNoEnd}, func(s *tape) bool {
		for at := len(s.stream) - 1; ; at-- {
			if _, ok := s.stream[at].Event.(*protocol.TurnEnded); ok {
				s.stream = s.stream[:at]
				return true
			}
		}
	}},
	{"a turn ends twice", []Rule{RuleSecondEnd}, double[*protocol.TurnEnded](nil)},
	{"a turn starts twice", []Rule{RuleTurnOverlap}, double[*protocol.TurnStarted](nil)},
	{"a turn id comes again", []Rule{RuleIDReused}, func(s *tape) bool {
		e, _, _ := pick[*protocol.TurnEnded](s, nil)
		return s.insert(len(s.stream), &protocol.TurnStarted{TurnID: e.TurnID})
	}},
	{"a failed turn without error", []Rule{RuleTurnError}, change(nil, func(e *protocol.TurnEnded) { e.StopReason, e.Error = protocol.StopError, nil })},
	{"an error without the stop reason", []Rule{RuleTurnError}, change(nil, func(e *protocol.TurnEnded) {
		e.StopReason, e.Error = protocol.StopEndTurn, &protocol.TurnError{Category: protocol.CategoryAuth}
	})},
	{"usage after the end", []Rule{RuleAfterEnd}, func(s *tape) bool {
		e, at, ok := pick[*protocol.TurnEnded](s, nil)
		return ok && s.insert(at+1, &protocol.SessionUsage{TurnID: e.TurnID, Used: 1})
	}},
	{"usage of no turn", []Rule{RuleOutsideTurn}, change(nil, func(e *protocol.SessionUsage) { e.TurnID = "other" })},
	{"a message after the end", []Rule{RuleAfterEnd}, func(s *tape) bool {
		e, at, ok := pick[*protocol.TurnEnded](s, nil)
		return ok && s.insert(at+1, &protocol.MessageStarted{TurnID: e.TurnID, MessageID: "late", OutputIndex: 99, Role: protocol.RoleAssistant})
	}},
	{"a text after the end", []Rule{RuleAfterEnd}, func(s *tape) bool {
		e, at, ok := pick(s, func(e *protocol.MessagePart, at int) bool {
			return isText(protocol.PartDone)(e, s, at) && s.endOf(e.TurnID) > at
		})
		_ = at
		return ok && s.insert(s.endOf(e.TurnID)+1, e)
	}},
	{"an ended tool after the end", []Rule{RuleAfterEnd}, func(s *tape) bool {
		e, _, ok := pick(s, func(e *protocol.MessagePart, at int) bool {
			return isStatus(protocol.ToolStatusCompleted)(e, s, at) && s.endOf(e.TurnID) > at
		})
		return ok && s.insert(s.endOf(e.TurnID)+1, e)
	}},
	{"a session ends in a turn", []Rule{RuleSessionEnded}, func(s *tape) bool {
		_, at, ok := pick[*protocol.TurnStarted](s, nil)
		return ok && s.insert(at+1, &protocol.SessionEnded{Reason: protocol.EndReleased})
	}},
	{"a session is created twice in a turn", []Rule{RuleCreatedTwice}, double[*protocol.SessionCreated](nil)},

	{"the echo is another message", []Rule{RuleEcho}, change(isEcho, func(e *protocol.MessageStarted) { e.MessageID = "other" })},
	{"the echo does not start", []Rule{RuleBracket}, drop(isEcho)},
	{"the echo is an assistant's", []Rule{RuleEcho}, change(isEcho, func(e *protocol.MessageStarted) { e.Role = protocol.RoleAssistant })},
	{"no echo", []Rule{RuleEcho}, func(s *tape) bool {
		e, _, ok := pick(s, func(e *protocol.MessageStarted, at int) bool { return isEcho(e, s, at) })
		if !ok {
			return false
		}
		var rest []protocol.Envelope
		for _, env := range s.stream {
			switch x := env.Event.(type) {
			case *protocol.MessageStarted:
				if x.MessageID == e.MessageID {
					continue
				}
			case *protocol.MessagePart:
				if x.MessageID == e.MessageID {
					continue
				}
			case *protocol.MessageEnded:
				if x.MessageID == e.MessageID {
					continue
				}
			}
			rest = append(rest, env)
		}
		s.stream = rest
		s.renumber()
		return true
	}},
	{"a part of the echo under another id", []Rule{RuleEcho}, change(func(e *protocol.MessagePart, _ *tape, _ int) bool {
		return e.MessageID == protocol.EchoMessageID(e.TurnID)
	},
		func(e *protocol.MessagePart) { editHeader(e, func(h *protocol.PartHeader) { h.ID = "other" }) })},
	{"an echo in a turn of the agent's own", []Rule{RuleEcho}, func(s *tape) bool {
		e, at, ok := pick(s, func(e *protocol.TurnStarted, _ int) bool { return e.Meta != nil })
		return ok && s.insert(at+1, &protocol.MessageStarted{TurnID: e.TurnID, MessageID: protocol.EchoMessageID(e.TurnID), Role: protocol.RoleUser})
	}},

	{"a message does not end", []Rule{RuleBracket, RuleOpenAtEnd}, drop[*protocol.MessageEnded](nil)},
	{"a message ends twice", []Rule{RuleBracket}, double[*protocol.MessageEnded](nil)},
	{"another message ends", []Rule{RuleBracket}, change(nil, func(e *protocol.MessageEnded) { e.MessageID = "other" })},
	{"a message does not start", []Rule{RuleBracket}, drop(notEcho)},
	{"a message starts twice", []Rule{RuleIDReused}, double(notEcho)},
	{"a message starts within another", []Rule{RuleBracket}, func(s *tape) bool {
		e, at, ok := pick(s, func(e *protocol.MessageStarted, at int) bool { return notEcho(e, s, at) })
		return ok && s.insert(at+1, &protocol.MessageStarted{TurnID: e.TurnID, MessageID: "inner", OutputIndex: e.OutputIndex + 1, Role: protocol.RoleAssistant})
	}},
	{"an outputIndex is skipped", []Rule{RuleOutputIndex}, change(notEcho, func(e *protocol.MessageStarted) { e.OutputIndex++ })},
	{"a partIndex is skipped", []Rule{RulePartIndex}, change(isFirst, func(e *protocol.MessagePart) { e.PartIndex++ })},
	{"a part moves within its message", []Rule{RuleAddress}, change(isLater, func(e *protocol.MessagePart) { e.PartIndex++ })},
	{"a part moves to another message", []Rule{RuleAddress}, change(isLater, func(e *protocol.MessagePart) { e.MessageID = "other" })},
	{"a part moves to another turn", []Rule{RuleAddress}, change(isLater, func(e *protocol.MessagePart) { e.TurnID = "other" })},
	{"a part has the index of another message", []Rule{RuleAddress}, change(isFirst, func(e *protocol.MessagePart) { e.OutputIndex++ })},
	{"a part names another message", []Rule{RuleAddress}, change(known, func(e *protocol.MessagePart) { editHeader(e, func(h *protocol.PartHeader) { h.MessageID = "other" }) })},
	{"a delta moves", []Rule{RuleAddress}, change(nil, func(e *protocol.MessagePartDelta) { e.OutputIndex++ })},
	{"a part under another tool call", []Rule{RuleParent}, change(known, func(e *protocol.MessagePart) {
		editHeader(e, func(h *protocol.PartHeader) { h.ParentToolCallID += "x" })
	})},
	{"a part becomes another type", []Rule{RulePartType}, change(func(e *protocol.MessagePart, s *tape, at int) bool { return isLater(e, s, at) && known(e, s, at) },
		func(e *protocol.MessagePart) {
			e.Part = &protocol.ImagePart{PartHeader: *e.Part.Header(), Data: "aGk=", MimeType: "image/png"}
		})},
	{"a tool becomes another call", []Rule{RulePartType}, change(func(e *protocol.MessagePart, s *tape, at int) bool {
		_, tool := e.Part.(*protocol.ToolPart)
		return tool && isLater(e, s, at)
	}, func(e *protocol.MessagePart) { editPart(e, func(p *protocol.ToolPart) { p.ToolCallID += "x" }) })},
	{"a tool goes back", []Rule{RuleToolState}, func(s *tape) bool {
		e, at, ok := pick(s, func(e *protocol.MessagePart, at int) bool { return isStatus(protocol.ToolStatusInProgress)(e, s, at) })
		if !ok {
			return false
		}
		c := *e
		editPart(&c, func(p *protocol.ToolPart) { p.State = &protocol.ToolPending{} })
		return s.insert(at+1, &c)
	}},
	{"a tool ends in two ways", []Rule{RuleToolState, RuleAfterEnd}, func(s *tape) bool {
		e, at, ok := pick(s, func(e *protocol.MessagePart, at int) bool { return isStatus(protocol.ToolStatusCompleted)(e, s, at) })
		if !ok {
			return false
		}
		c := *e
		editPart(&c, func(p *protocol.ToolPart) { p.State = &protocol.ToolFailed{Input: json.RawMessage(`{}`)} })
		return s.insert(at+1, &c)
	}},
	{"a text goes on when it is done", []Rule{RuleToolState}, func(s *tape) bool {
		e, at, ok := pick(s, func(e *protocol.MessagePart, at int) bool { return isText(protocol.PartDone)(e, s, at) })
		if !ok {
			return false
		}
		c := *e
		editPart(&c, func(p *protocol.TextPart) { p.State = protocol.PartStreaming })
		return s.insert(at+1, &c)
	}},
	{"a text is not done when the turn ends", []Rule{RuleOpenAtEnd}, drop(isText(protocol.PartDone))},

	{"a delta without its part", []Rule{RuleDeltaWithoutPart}, drop(func(e *protocol.MessagePart, s *tape, at int) bool {
		return s.first(e, at) && s.deltas(e.Part.Header().ID) > 0
	})},
	{"a delta after the part is done", []Rule{RuleDeltaClosed}, func(s *tape) bool {
		e, at, ok := pick(s, func(e *protocol.MessagePart, at int) bool { return isText(protocol.PartDone)(e, s, at) })
		return ok && s.insert(at+1, &protocol.MessagePartDelta{TurnID: e.TurnID, MessageID: e.MessageID, OutputIndex: e.OutputIndex, PartIndex: e.PartIndex,
			PartID: e.Part.Header().ID, Delta: &protocol.TextDelta{Text: "more"}})
	}},
	{"a delta after the turn", []Rule{RuleAfterEnd}, func(s *tape) bool {
		e, _, ok := pick(s, func(e *protocol.MessagePartDelta, _ int) bool { return s.endOf(e.TurnID) >= 0 })
		return ok && s.insert(s.endOf(e.TurnID)+1, e)
	}},
	{"a delta for a tool that runs", []Rule{RuleDeltaClosed}, func(s *tape) bool {
		e, at, ok := pick(s, func(e *protocol.MessagePart, at int) bool { return isStatus(protocol.ToolStatusInProgress)(e, s, at) })
		return ok && s.insert(at+1, &protocol.MessagePartDelta{TurnID: e.TurnID, MessageID: e.MessageID, OutputIndex: e.OutputIndex, PartIndex: e.PartIndex,
			PartID: e.Part.Header().ID, Delta: &protocol.ToolInputDelta{ToolCallID: e.Part.(*protocol.ToolPart).ToolCallID, ToolName: "Bash", Input: "x"}})
	}},
	{"a delta of another type", []Rule{RuleDeltaType}, change(func(e *protocol.MessagePartDelta, _ *tape, _ int) bool {
		return e.Delta.DeltaType() == protocol.DeltaText
	},
		func(e *protocol.MessagePartDelta) { e.Delta = &protocol.ReasoningDelta{Text: "x"} })},
	{"a delta of another tool call", []Rule{RuleDeltaType}, change(func(e *protocol.MessagePartDelta, _ *tape, _ int) bool {
		return e.Delta.DeltaType() == protocol.DeltaToolInput
	},
		func(e *protocol.MessagePartDelta) {
			d := *e.Delta.(*protocol.ToolInputDelta)
			d.ToolCallID = "other"
			e.Delta = &d
		})},
	{"a delta says something else", []Rule{RuleSnapshotDisagrees}, change(func(e *protocol.MessagePartDelta, _ *tape, _ int) bool {
		return e.Delta.DeltaType() == protocol.DeltaText
	},
		func(e *protocol.MessagePartDelta) { e.Delta = &protocol.TextDelta{Text: "something else"} })},
	{"a delta is lost", []Rule{RuleSnapshotDisagrees}, drop(func(e *protocol.MessagePartDelta, s *tape, _ int) bool { return s.deltas(e.PartID) > 1 })},
	{"a delta comes twice", []Rule{RuleSnapshotDisagrees}, double[*protocol.MessagePartDelta](nil)},
	{"a snapshot says something else", []Rule{RuleSnapshotDisagrees}, change(isText(protocol.PartDone), func(e *protocol.MessagePart) {
		editPart(e, func(p *protocol.TextPart) { p.Text += "!" })
	})},
	{"a thought's snapshot says something else", []Rule{RuleSnapshotDisagrees}, change(func(e *protocol.MessagePart, s *tape, _ int) bool {
		p, ok := e.Part.(*protocol.ReasoningPart)
		return ok && p.State == protocol.PartDone && s.deltas(p.ID) > 0
	}, func(e *protocol.MessagePart) { editPart(e, func(p *protocol.ReasoningPart) { p.Text = "!" }) })},
	{"a snapshot carries what deltas will bring", []Rule{RuleSnapshotRepeated}, func(s *tape) bool {
		last, _, ok := pick(s, func(e *protocol.MessagePart, at int) bool { return isText(protocol.PartDone)(e, s, at) })
		if !ok {
			return false
		}
		for at, env := range s.stream {
			if e, is := env.Event.(*protocol.MessagePart); is && e.Part.Header().ID == last.Part.Header().ID {
				c := *e
				editPart(&c, func(p *protocol.TextPart) { p.Text = last.Part.(*protocol.TextPart).Text })
				return s.replace(at, &c)
			}
		}
		return false
	}},
	{"a tool runs with another input", []Rule{RuleSnapshotDisagrees}, change(isStatus(protocol.ToolStatusInProgress), func(e *protocol.MessagePart) {
		editPart(e, func(p *protocol.ToolPart) {
			p.State = &protocol.ToolInProgress{Input: json.RawMessage(`{"command":"rm"}`)}
		})
	})},

	{"a request is not resolved", []Rule{RuleOpenAtEnd}, drop[*protocol.PermissionResolved](nil)},
	{"a request is resolved twice", []Rule{RuleResolveTwice}, double[*protocol.PermissionResolved](nil)},
	{"a request is not made", []Rule{RuleResolveUnknown}, drop[*protocol.PermissionRequested](nil)},
	{"a request is made twice", []Rule{RuleIDReused}, double[*protocol.PermissionRequested](nil)},
	{"a request is resolved after the turn", []Rule{RuleOpenAtEnd}, func(s *tape) bool {
		e, at, ok := pick[*protocol.PermissionResolved](s, nil)
		return ok && s.drop(at) && s.insert(s.endOf(e.TurnID)+1, e)
	}},
	{"an answer that was not offered", []Rule{RuleOption}, change(nil, func(e *protocol.PermissionResolved) { e.Outcome = protocol.Selected("yolo") })},
	{"a compaction goes on after its end", []Rule{RuleCompaction}, func(s *tape) bool {
		e, at, ok := pick(s, func(e *protocol.SessionCompaction, _ int) bool { return e.Status == protocol.CompactionCompleted })
		if !ok {
			return false
		}
		c := *e
		c.Status = protocol.CompactionInProgress
		return s.insert(at+1, &c)
	}},
}
