package codex

import (
	"encoding/json"
	"strconv"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// itemParams tells of an item's beginning or end.
type itemParams struct {
	ThreadID string          `json:"threadId"`
	TurnID   string          `json:"turnId"`
	Item     json.RawMessage `json:"item"`
}

// delta appends to a text or a thought. text stands for what the line lacks.
func (t *translator) delta(params []byte, typ protocol.DeltaType, text string) {
	var id, threadID string
	for o := jsonscan.NewObject(params); o.Next(); {
		switch {
		case o.Is("itemId"):
			id = jsonscan.String(o.Value())
		case o.Is("threadId"):
			threadID = jsonscan.String(o.Value())
		case o.Is("delta"):
			text = jsonscan.String(o.Value())
		}
	}
	if id == "" || text == "" {
		return
	}
	t.progress()
	th := t.threadOf(threadID)
	t.show(th, false, harness.Delta{Key: id, ParentToolCallID: th.parent, Type: typ, Text: text})
}

func (t *translator) item(raw json.RawMessage) *item {
	it := &item{raw: raw}
	if err := json.Unmarshal(raw, it); err != nil {
		t.strange("item field", err.Error())
	}
	return it
}

// itemStarted handles an item that begins. Texts and thoughts begin with their first delta.
func (t *translator) itemStarted(p *itemParams) {
	it, th := t.item(p.Item), t.threadOf(p.ThreadID)
	t.progress()
	switch {
	case quietItems[it.Type], it.ID == "":
		if it.Type == "userMessage" && th.spoke {
			th.inTool = true // a steer: what follows is another message
		}
	case it.Type == "agentMessage" || it.Type == "plan" || it.Type == "reasoning":
		if it.Text != "" { // all of it is here already
			t.show(th, false, harness.Delta{Key: it.ID, ParentToolCallID: th.parent, Type: protocol.DeltaText, Text: it.Text})
		}
	case it.Type == "contextCompaction":
		t.compacting(it.ID)
	case it.Type == "subAgentActivity":
		t.agentActivity(th, p.TurnID, it)
	default:
		t.callStarted(th, p.TurnID, it)
	}
}

// itemCompleted handles an item that ends, which may be after its turn.
func (t *translator) itemCompleted(p *itemParams) {
	it, th := t.item(p.Item), t.threadOf(p.ThreadID)
	t.progress()
	switch {
	case quietItems[it.Type], it.ID == "":
	case it.Type == "agentMessage" || it.Type == "plan":
		if it.Text != "" && !t.ended[p.TurnID] {
			t.show(th, false, harness.PartUpdate{Key: it.ID, ParentToolCallID: th.parent, Part: &protocol.TextPart{Text: it.Text, State: protocol.PartDone}})
		}
	case it.Type == "reasoning":
		if text := it.thought(); text != "" && !t.ended[p.TurnID] {
			t.show(th, false, harness.PartUpdate{Key: it.ID, ParentToolCallID: th.parent, Part: &protocol.ReasoningPart{Text: text, State: protocol.PartDone}})
		}
	case it.Type == "contextCompaction":
		t.compacted(it.ID, protocol.CompactionCompleted)
	case it.Type == "subAgentActivity": // each is over at once; the agent goes on
	default:
		t.callCompleted(th, p.TurnID, it)
	}
}

// thought is the whole text of a reasoning item, joined as its deltas were.
func (it *item) thought() string {
	texts := it.Summary
	var content []string
	if json.Unmarshal(it.Content, &content) == nil {
		texts = append(texts, content...)
	}
	return strings.Join(texts, "\n\n")
}

func (t *translator) callStarted(th *thread, turnID string, it *item) *call {
	c := &call{thread: th, turnID: turnID, source: it.Source}
	part, input := describe(it)
	c.part, c.input = *part, input
	if part.Subagent != nil {
		c.agent = part.Subagent.AgentID
	}
	t.calls[it.ID] = c
	t.update(c, &protocol.ToolInProgress{Input: input})
	return c
}

// callCompleted ends a call. Of turns that are over only the calls count that were left running.
func (t *translator) callCompleted(th *thread, turnID string, it *item) {
	c := t.calls[it.ID]
	if c == nil {
		if t.ended[turnID] {
			return
		}
		c = t.callStarted(th, turnID, it)
	}
	part, input := describe(it) // now all is known
	c.part.Kind, c.part.Title, c.part.Locations, c.input = part.Kind, part.Title, part.Locations, input
	if part.Subagent != nil {
		c.part.Subagent = part.Subagent
		t.agentsOf(c, it)
		if it.Status != "failed" && spawns(it) && t.agentRuns(c) {
			t.update(c, &protocol.ToolInProgress{Input: input})
			return // it ends when the sub-agent does
		}
	}
	t.end(it.ID, outcome(it, input))
}

// end ends a call with a state.
func (t *translator) end(id string, state protocol.ToolState) {
	if c := t.calls[id]; c != nil {
		delete(t.calls, id)
		t.update(c, state)
	}
}

// update shows a call in a state. The late change of a known part opens no turn.
func (t *translator) update(c *call, state protocol.ToolState) {
	part := c.part
	part.State = state
	e := harness.PartUpdate{Key: part.ToolCallID, ParentToolCallID: c.thread.parent, Part: &part}
	if t.ended[c.turnID] {
		t.emit(e)
		return
	}
	t.show(c.thread, true, e)
}

// planParams is the model's plan: the app-server has no item for it.
type planParams struct {
	ThreadID    string          `json:"threadId"`
	TurnID      string          `json:"turnId"`
	Explanation string          `json:"explanation"`
	Plan        json.RawMessage `json:"plan"`
}

// planUpdated shows each new plan as a call that is over.
func (t *translator) planUpdated(p *planParams) {
	if t.ended[p.TurnID] {
		return
	}
	t.plans++
	th := t.threadOf(p.ThreadID)
	id := "plan-" + p.TurnID + "-" + strconv.Itoa(t.plans)
	input := object{"plan": p.Plan}
	if p.Explanation != "" {
		input["explanation"] = p.Explanation
	}
	t.show(th, true, harness.PartUpdate{Key: id, ParentToolCallID: th.parent, Part: planPart(id, encode(input), true)})
}

// planPart is a to-do list as a tool part.
func planPart(id string, input json.RawMessage, done bool) *protocol.ToolPart {
	part := &protocol.ToolPart{ToolCallID: id, ToolName: toolPlan, Kind: protocol.ToolKindThink, Title: "Update the plan"}
	part.State = &protocol.ToolInProgress{Input: input}
	if done {
		part.State = &protocol.ToolCompleted{Input: input, Output: "Plan updated"}
	}
	return part
}

func (t *translator) compacting(id string) {
	t.open()
	t.compact[id] = true
	t.emit(t.compaction(id, protocol.CompactionInProgress))
}

func (t *translator) compacted(id string, status protocol.CompactionStatus) {
	t.open()
	t.emit(t.compaction(id, status))
	delete(t.compact, id)
	t.manual = false
}

func (t *translator) compaction(id string, status protocol.CompactionStatus) harness.Compaction {
	c := harness.Compaction{Key: id, Status: status, Trigger: protocol.TriggerAuto}
	if t.manual {
		c.Trigger = protocol.TriggerManual
	}
	return c
}
