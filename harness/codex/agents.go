package codex

import (
	"maps"
	"slices"

	"agentserver/protocol"
)

// Sub-agents speak on our connection, on threads that we never started. What starts them is a tool call, under which their parts are shown; it is
// over when the sub-agent's turn is.

// agentActivity handles what codex tells of a sub-agent in the classic form: one item for each change, which ends at once.
func (t *translator) agentActivity(th *thread, turnID string, it *item) {
	switch it.Kind {
	case "started":
		t.callStarted(th, turnID, it)
		t.adopt(it.AgentID, it.ID)
	case "completed":
		t.agentEnded(it.AgentID, false)
	case "interrupted":
		t.agentEnded(it.AgentID, true)
	}
}

// adopt says under which call a sub-agent's thread runs.
func (t *translator) adopt(agent, callID string) {
	if agent == "" || agent == t.native {
		return
	}
	th := t.threadOf(agent)
	th.parent = callID
	if c := t.calls[callID]; c != nil && c.agent == "" {
		c.agent = agent
	}
}

// agentsOf notes whom a collaboration call has started.
func (t *translator) agentsOf(c *call, it *item) {
	if !spawns(it) {
		return
	}
	for _, agent := range it.Receivers {
		t.adopt(agent, c.part.ToolCallID)
	}
}

// agentRuns reports whether the sub-agent of a call works, or is about to.
func (t *translator) agentRuns(c *call) bool { return c.agent != "" && !t.ended[c.agent] }

// agentEnded ends the call that a sub-agent runs under.
func (t *translator) agentEnded(agent string, interrupted bool) {
	t.over(agent)
	for _, id := range slices.Sorted(maps.Keys(t.calls)) {
		c := t.calls[id]
		if c.agent != agent || c.part.Subagent == nil {
			continue
		}
		if interrupted {
			t.end(id, &protocol.ToolCancelled{Input: c.input})
		} else {
			t.end(id, &protocol.ToolCompleted{Input: c.input})
		}
	}
}

// over notes that a turn, or a sub-agent, has ended.
func (t *translator) over(id string) {
	if len(t.ended) > 1000 { // late items come within moments
		clear(t.ended)
	}
	t.ended[id] = true
}
