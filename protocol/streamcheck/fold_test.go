package streamcheck

import (
	"testing"

	"agentserver/protocol"
	"agentserver/protocol/conversation/conversationtest"
)

// TestFoldsDiffer has the second state see something that the first does not.
func TestFoldsDiffer(t *testing.T) {
	c := New()
	add := func(seq uint64, e protocol.Event) []Violation {
		e.Header().SessionID = "s"
		return c.Add(protocol.Envelope{SessionID: "s", Seq: seq, Event: e})
	}
	add(1, &protocol.TurnStarted{EventHeader: protocol.EventHeader{Meta: protocol.Meta{}.With(protocol.MetaOrigin, "agent")}, TurnID: "t"})
	c.folds.twice.ApplyEvent(&protocol.SessionUsage{TurnID: "t", Used: 1})
	found := add(2, &protocol.TurnEnded{TurnID: "t", StopReason: protocol.StopEndTurn})
	if len(found) != 1 || found[0].Rule != RuleFold {
		t.Errorf("got %v", found)
	}
}

func TestRecentForgets(t *testing.T) {
	r := recent[int, int]{max: 3}
	for i := range 5 {
		r.put(i, i)
		r.put(i, -i)
	}
	if len(r.byKey) != 3 || !r.forgot {
		t.Errorf("holds %v", r.byKey)
	}
	for i := range 5 {
		v, ok := r.get(i)
		if ok != (i > 1) || ok && v != -i {
			t.Errorf("get(%d) = %d, %v", i, v, ok)
		}
	}
}

// TestMemoryIsBounded feeds a long session, and asks what the checker still holds.
func TestMemoryIsBounded(t *testing.T) {
	c := New()
	c.parts.max, c.messages.max, c.turns.max, c.requests.max, c.compactions.max = 200, 100, 50, 20, 20
	var most int
	for _, env := range conversationtest.Stream(9, 50_000) {
		for _, v := range c.Add(env) {
			t.Fatal(v)
		}
		most = max(most, c.folds.n)
	}
	if len(c.parts.byKey) > 200 || len(c.messages.byKey) > 100 || len(c.turns.byKey) > 50 || len(c.requests.byKey) > 20 || most > foldWindow {
		t.Errorf("holds %d parts, %d messages, %d turns, %d requests; folded %d events", len(c.parts.byKey), len(c.messages.byKey), len(c.turns.byKey),
			len(c.requests.byKey), most)
	}
}
