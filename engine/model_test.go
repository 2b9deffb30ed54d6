package engine_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// TestStreamsOfAnyAgentAreWellFormed has agents say and do anything in any order, against clients that do the same, and holds every stream to the
// protocol's order and brackets (checkStream, at the end of each bubble).
func TestStreamsOfAnyAgentAreWellFormed(t *testing.T) {
	seeds := 150
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				m := &model{bench: b, rand: rand.New(rand.NewPCG(uint64(seed), 1))}
				for range 200 {
					m.step()
				}
				synctest.Wait()
				m.checkAdmitted()
			})
		})
	}
}

type model struct {
	*bench
	rand     *rand.Rand
	admitted []protocol.TurnID
}

// step lets one of the parties do something.
func (m *model) step() {
	switch m.rand.IntN(10) {
	case 0:
		m.client()
	case 1:
		time.Sleep(time.Duration(m.rand.IntN(4000)) * time.Millisecond)
	case 2:
		synctest.Wait()
	default:
		m.fake.mu.Lock()
		n := len(m.fake.agents)
		m.fake.mu.Unlock()
		if n > 0 {
			m.bench.agent().say(m.word())
		}
	}
}

func (m *model) client() {
	switch m.rand.IntN(4) {
	case 0, 1:
		id := protocol.TurnID(fmt.Sprint("t", len(m.admitted)))
		p := m.params(id)
		p.Config.IncludeRaw = m.rand.IntN(2) == 0
		if m.rand.IntN(4) == 0 {
			p.Config.PermissionRequests = new(bool)
		}
		a, err := m.Admit(m.t.Context(), p)
		if err != nil {
			return
		}
		m.admitted = append(m.admitted, id)
		if m.rand.IntN(5) > 0 {
			a.Begin()
		}
	case 2:
		go m.Cancel(m.t.Context(), protocol.TurnCancelParams{SessionID: "s"})
	case 3:
		if len(m.admitted) == 0 {
			return
		}
		for _, env := range m.events("s") {
			if e, ok := env.Event.(*protocol.PermissionRequested); ok && m.rand.IntN(3) == 0 {
				option := protocol.Options()[m.rand.IntN(4)].OptionID
				m.Respond(m.t.Context(), protocol.PermissionRespondParams{SessionID: "s", RequestID: e.RequestID, Outcome: protocol.Selected(option)})
			}
		}
	}
}

// word is anything that an agent may say, sensible or not.
func (m *model) word() harness.Event {
	key := func() string { return fmt.Sprint("k", m.rand.IntN(12)) }
	parent := func() string { return []string{"", "", "task"}[m.rand.IntN(3)] }
	switch m.rand.IntN(17) {
	case 15:
		statuses := []protocol.CompactionStatus{"", protocol.CompactionInProgress, protocol.CompactionFailed}
		return harness.Compaction{Key: key(), Status: statuses[m.rand.IntN(3)]}
	case 0:
		return harness.SessionStarted{NativeSessionID: fmt.Sprint("n", m.rand.IntN(3))}
	case 1:
		return harness.MessageStarted{ParentToolCallID: parent()}
	case 2:
		return harness.MessageEnded{}
	case 3, 4, 5:
		types := []protocol.DeltaType{protocol.DeltaText, protocol.DeltaReasoning, protocol.DeltaToolInput}
		return harness.Delta{Key: key(), ParentToolCallID: parent(), Type: types[m.rand.IntN(3)], Text: "x", ToolName: "Bash"}
	case 6, 7:
		states := []protocol.PartState{"", protocol.PartStreaming, protocol.PartDone}
		return harness.PartUpdate{Key: key(), ParentToolCallID: parent(), Part: &protocol.TextPart{Text: []string{"", "abc"}[m.rand.IntN(2)], State: states[m.rand.IntN(3)]}}
	case 8, 9, 10:
		return harness.PartUpdate{Key: key(), ParentToolCallID: parent(), Part: &protocol.ToolPart{ToolName: "Bash", State: m.toolState()}}
	case 11:
		return harness.Usage{Used: 1}
	case 12:
		return ask(key(), "Bash", make(chan harness.Decision, 1))
	case 13:
		return harness.PermissionWithdrawn{Key: key()}
	case 14:
		return harness.Raw{Data: json.RawMessage(`1`)}
	default:
		if m.rand.IntN(8) == 0 {
			return harness.Exit{}
		}
		return harness.TurnEnd{Background: []string{key(), key()}}
	}
}

func (m *model) toolState() protocol.ToolState {
	in := []json.RawMessage{nil, json.RawMessage(`{"a":1}`)}[m.rand.IntN(2)]
	switch m.rand.IntN(5) {
	case 0:
		return &protocol.ToolPending{}
	case 1:
		return &protocol.ToolCompleted{Input: in}
	case 2:
		return &protocol.ToolFailed{Input: in}
	case 3:
		return &protocol.ToolCancelled{Input: in}
	}
	return &protocol.ToolInProgress{Input: in}
}

// checkAdmitted ends what runs, and checks that every turn that was acknowledged began and ended once.
func (m *model) checkAdmitted() {
	if len(m.admitted) == 0 {
		return
	}
	m.Cancel(m.t.Context(), protocol.TurnCancelParams{SessionID: "s"})
	time.Sleep(time.Minute)
	synctest.Wait()
	began, ended := map[protocol.TurnID]int{}, map[protocol.TurnID]int{}
	for _, env := range m.events("s") {
		switch e := env.Event.(type) {
		case *protocol.TurnStarted:
			began[e.TurnID]++
		case *protocol.TurnEnded:
			ended[e.TurnID]++
		}
	}
	for _, id := range m.admitted {
		if began[id] != 1 || ended[id] != 1 {
			m.t.Errorf("turn %s began %d times and ended %d times\n%s", id, began[id], ended[id], render(m.events("s")))
		}
	}
}
