// Package conversationtest makes random streams that keep the contract, for tests and benchmarks of whatever consumes streams.
package conversationtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"agentserver/protocol"
)

// Stream returns about n events of one session: a function of seed. All of the contract is in it: turns of the user and of the agent, echoes, text
// and thoughts by deltas, tools through all states, sub-agents, permissions, compactions, usage, errors, notices, raw and unknown events, tools that
// end after their turn, an end of the session in between.
func Stream(seed uint64, n int) []protocol.Envelope {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 1)), session: protocol.SessionID(fmt.Sprintf("s%d", seed))}
	for len(g.out) < n {
		g.turn()
	}
	return g.out
}

type generator struct {
	rng     *rand.Rand
	session protocol.SessionID
	out     []protocol.Envelope
	ids     int
	clock   int64

	turnID protocol.TurnID
	output int
	late   []func() // what tools of ended turns still have to say
}

func (g *generator) emit(e protocol.Event) {
	h := e.Header()
	g.clock += int64(g.rng.IntN(50)) + 1
	h.SessionID, h.Timestamp = g.session, g.clock
	g.out = append(g.out, protocol.Envelope{SessionID: g.session, Seq: uint64(len(g.out) + 1), Event: e})
}

func (g *generator) id(prefix string) string {
	g.ids++
	return fmt.Sprintf("%s%d", prefix, g.ids)
}

func (g *generator) chance(n int) bool { return g.rng.IntN(n) == 0 }

func (g *generator) word() string {
	return [...]string{"alpha ", "beta ", "<b>", "ü", "\n", "日本 ", "delta ", "x"}[g.rng.IntN(8)]
}

func (g *generator) turn() {
	g.turnID, g.output = protocol.TurnID(g.id("t")), 0
	started := &protocol.TurnStarted{TurnID: g.turnID}
	own := g.chance(6)
	if own {
		started.Meta = started.Meta.With(protocol.MetaOrigin, "agent")
	}
	g.emit(started)
	if !own {
		g.echo()
	}
	if g.chance(2) {
		g.emit(&protocol.SessionCreated{NativeSessionID: g.id("native"), Harness: "mock", Model: "m-1"})
	}
	for range g.rng.IntN(5) {
		g.message("", 0)
	}
	end := &protocol.TurnEnded{TurnID: g.turnID, StopReason: protocol.StopEndTurn, FinishReason: "stop",
		Tokens: &protocol.Tokens{Input: int64(g.rng.IntN(100)), Output: int64(g.rng.IntN(100))}}
	if g.chance(3) {
		end.Tokens.Cache = &protocol.CacheTokens{Read: int64(g.rng.IntN(100))}
		end.Cost = protocol.USD(float64(g.rng.IntN(100)) / 64)
	}
	if g.chance(5) {
		end.StopReason, end.Error = protocol.StopError, &protocol.TurnError{Category: protocol.CategoryNetwork, Message: "the line is dead"}
	}
	g.emit(end)
	if len(g.late) > 0 && g.chance(2) {
		g.late[0]()
		g.late = g.late[1:]
	}
	if g.chance(10) {
		g.emit(&protocol.SessionEnded{Reason: protocol.EndIdle})
	}
}

func (g *generator) echo() {
	id := protocol.EchoMessageID(g.turnID)
	g.emit(&protocol.MessageStarted{TurnID: g.turnID, MessageID: id, Role: protocol.RoleUser})
	for i := range g.rng.IntN(2) + 1 {
		h := protocol.PartHeader{ID: protocol.EchoPartID(g.turnID, i), SessionID: g.session, MessageID: id}
		var p protocol.Part = &protocol.TextPart{PartHeader: h, Text: g.word(), State: protocol.PartDone}
		if i == 1 {
			p = &protocol.ImagePart{PartHeader: h, Data: "aGk=", MimeType: "image/png"}
		}
		g.emit(&protocol.MessagePart{TurnID: g.turnID, MessageID: id, PartIndex: i, Part: p})
	}
	g.emit(&protocol.MessageEnded{TurnID: g.turnID, MessageID: id})
	g.output = 1
}

// message emits a message of the agent, or of the sub-agent under a tool call.
func (g *generator) message(parent string, depth int) {
	if g.output == 0 {
		g.output = 1
	}
	m := message{generator: g, id: protocol.MessageID(g.id("m")), output: g.output, parent: parent}
	g.output++
	g.emit(&protocol.MessageStarted{TurnID: g.turnID, MessageID: m.id, OutputIndex: m.output, Role: protocol.RoleAssistant, ParentToolCallID: parent, Model: "m-1"})
	var after []func()
	for range g.rng.IntN(4) + 1 {
		switch g.rng.IntN(5) {
		case 0, 1:
			m.text()
		case 2:
			m.reasoning()
		default:
			if then := m.tool(depth); then != nil {
				after = append(after, then)
			}
		}
		g.aside()
	}
	if g.chance(8) {
		p := fmt.Sprintf(`{"type":"chart","id":%q,"sessionId":%q,"messageId":%q,"parentToolCallId":%q,"rows":[1,2]}`, g.id("p"), g.session, m.id, parent)
		part, err := protocol.DecodePart([]byte(p))
		if err != nil {
			panic(err)
		}
		m.emitPart(m.index(), part)
	}
	g.emit(&protocol.MessageEnded{TurnID: g.turnID, MessageID: m.id})
	for _, then := range after {
		then()
	}
}

// aside emits what may stand anywhere in a turn.
func (g *generator) aside() {
	switch g.rng.IntN(14) {
	case 0:
		g.emit(&protocol.SessionUsage{TurnID: g.turnID, Used: int64(g.rng.IntN(9000)), Size: 10000})
	case 1:
		id := protocol.CompactionID(g.id("c"))
		before, after := int64(9000), int64(100)
		g.emit(&protocol.SessionCompaction{TurnID: g.turnID, CompactionID: id, Status: protocol.CompactionInProgress, Trigger: protocol.TriggerAuto, PreTokens: &before})
		g.emit(&protocol.SessionNotice{TurnID: g.turnID, Kind: protocol.NoticeWarning, Message: "compacting"})
		g.emit(&protocol.SessionCompaction{TurnID: g.turnID, CompactionID: id, Status: protocol.CompactionCompleted, PostTokens: &after, Summary: "short"})
	case 2:
		g.emit(&protocol.ErrorEvent{TurnID: g.turnID, Category: protocol.CategoryRateLimit, Message: "slow down", Recoverable: true})
	case 3:
		g.emit(&protocol.Raw{TurnID: g.turnID, Harness: "mock", Data: json.RawMessage(`{"x":1}`)})
	case 4:
		e, err := protocol.DecodeEvent(fmt.Appendf(nil, `{"type":"vendor.news","sessionId":%q,"timestamp":1,"n":%d}`, g.session, g.ids))
		if err != nil {
			panic(err)
		}
		g.clock++
		g.out = append(g.out, protocol.Envelope{SessionID: g.session, Seq: uint64(len(g.out) + 1), Event: e})
	}
}

type message struct {
	*generator
	id     protocol.MessageID
	output int
	parts  int
	parent string
}

func (m *message) index() int { m.parts++; return m.parts - 1 }

func (m *message) header() protocol.PartHeader {
	return protocol.PartHeader{ID: protocol.PartID(m.generator.id("p")), SessionID: m.session, MessageID: m.id, ParentToolCallID: m.parent}
}

func (m *message) emitPart(index int, p protocol.Part) { m.emitPartOf(m.turnID, index, p) }

func (m *message) emitPartOf(turn protocol.TurnID, index int, p protocol.Part) {
	m.emit(&protocol.MessagePart{TurnID: turn, MessageID: m.id, OutputIndex: m.output, PartIndex: index, Part: p})
}

func (m *message) emitDelta(index int, part protocol.PartID, d protocol.Delta) {
	m.emit(&protocol.MessagePartDelta{TurnID: m.turnID, MessageID: m.id, OutputIndex: m.output, PartIndex: index, PartID: part, Delta: d})
}

func (m *message) text() {
	h, i, text := m.header(), m.index(), ""
	m.emitPart(i, &protocol.TextPart{PartHeader: h, State: protocol.PartStreaming})
	for range m.rng.IntN(12) {
		w := m.word()
		text += w
		m.emitDelta(i, h.ID, &protocol.TextDelta{Text: w})
		if m.chance(9) {
			m.aside()
		}
	}
	m.emitPart(i, &protocol.TextPart{PartHeader: h, Text: text, State: protocol.PartDone})
}

func (m *message) reasoning() {
	h, i, text := m.header(), m.index(), ""
	span := protocol.TimeSpan{Start: m.clock}
	m.emitPart(i, &protocol.ReasoningPart{PartHeader: h, State: protocol.PartStreaming, Time: &span})
	for range m.rng.IntN(6) {
		w := m.word()
		text += w
		m.emitDelta(i, h.ID, &protocol.ReasoningDelta{Text: w})
	}
	m.emitPart(i, &protocol.ReasoningPart{PartHeader: h, Text: text, State: protocol.PartDone, Time: &protocol.TimeSpan{Start: span.Start, End: m.clock + 1}})
}

// tool emits a tool call. What it returns, which may be nil, is to be done when the message has ended.
func (m *message) tool(depth int) func() {
	h, i := m.header(), m.index()
	base := protocol.ToolPart{PartHeader: h, ToolCallID: m.generator.id("call"), ToolName: "Bash", Kind: protocol.ToolKindExecute}
	subagent := depth < 2 && m.chance(4)
	if subagent {
		base.ToolName, base.Kind, base.Subagent = "Task", protocol.ToolKindTask, &protocol.Subagent{Type: "explorer"}
	}
	turn := m.turnID
	step := func(state protocol.ToolState) {
		p := base
		p.State = state
		m.emitPartOf(turn, i, &p)
	}
	step(&protocol.ToolPending{})
	input := ""
	for _, piece := range []string{`{"command":`, `"ls`, ` -l"}`} {
		input += piece
		m.emitDelta(i, h.ID, &protocol.ToolInputDelta{ToolCallID: base.ToolCallID, ToolName: base.ToolName, Input: piece})
	}
	start := m.clock
	step(&protocol.ToolInProgress{Input: json.RawMessage(input), Time: protocol.TimeSpan{Start: start}})
	if m.chance(3) {
		m.permission(&base, input)
	}
	finish := func() {
		span := protocol.TimeSpan{Start: start, End: m.clock}
		if m.chance(3) {
			step(&protocol.ToolFailed{Input: json.RawMessage(input), Error: "no such file", Time: span})
			return
		}
		step(&protocol.ToolCompleted{Input: json.RawMessage(input), Output: "ok", Content: []protocol.ToolContent{protocol.TextContent("ok")}, Time: span})
	}
	switch {
	case subagent:
		return func() {
			for range m.rng.IntN(2) + 1 {
				m.message(base.ToolCallID, depth+1)
			}
			finish()
		}
	case m.chance(4):
		return finish
	case m.chance(8):
		m.late = append(m.late, finish)
		return nil
	}
	finish()
	return nil
}

func (m *message) permission(tool *protocol.ToolPart, input string) {
	id := protocol.RequestID(m.generator.id("r"))
	m.emit(&protocol.PermissionRequested{TurnID: m.turnID, RequestID: id, Title: "Run ls", Options: protocol.Options(),
		ToolCall: &protocol.PermissionTool{ToolCallID: tool.ToolCallID, ToolName: tool.ToolName, RawInput: json.RawMessage(input)}})
	m.aside()
	outcome := protocol.Selected(protocol.OptionIDAllow)
	if m.chance(3) {
		outcome = protocol.Cancelled()
	}
	m.emit(&protocol.PermissionResolved{TurnID: m.turnID, RequestID: id, Outcome: outcome})
}
