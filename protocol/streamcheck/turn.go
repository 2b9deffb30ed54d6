package streamcheck

import (
	"fmt"

	"agentserver/protocol"
)

// A turn is the one that runs.
type turn struct {
	id      protocol.TurnID
	own     bool // the agent began it
	echoed  bool // the echo has begun
	output  int  // the next message's outputIndex
	message *message
	texts   map[protocol.PartID]bool // texts and thoughts that are not done
	pending int                      // permission requests
	edited  bool                     // an answer changed a tool's input
	created *protocol.SessionCreated
}

// A message is the one that is open.
type message struct {
	id     protocol.MessageID
	output int
	parent string
	parts  int
	echo   bool
}

func (c *Checker) turnStarted(e *protocol.TurnStarted) {
	if c.turn != nil {
		c.report(RuleTurnOverlap, "turn %s starts while turn %s runs", e.TurnID, c.turn.id)
	}
	if _, known := c.turns.get(e.TurnID); known {
		c.report(RuleIDReused, "turn %s was there before", e.TurnID)
	}
	c.turns.put(e.TurnID, true)
	c.turn = &turn{id: e.TurnID, own: e.Meta.GetString(protocol.MetaOrigin) == "agent", texts: make(map[protocol.PartID]bool)}
	if c.turn.own {
		c.turn.output = 1
	}
}

func (c *Checker) turnEnded(e *protocol.TurnEnded) {
	if (e.StopReason == protocol.StopError) != (e.Error != nil) {
		c.report(RuleTurnError, "turn %s has the stop reason %q and error: %v", e.TurnID, e.StopReason, e.Error != nil)
	}
	t := c.turn
	if t == nil || t.id != e.TurnID {
		switch _, ended := c.turns.get(e.TurnID); {
		case c.unseen(e.TurnID):
			c.turns.put(e.TurnID, false)
		case ended:
			c.report(RuleSecondEnd, "turn %s has ended before", e.TurnID)
		default:
			c.report(RuleOutsideTurn, "turn %s ends, which has not started", e.TurnID)
		}
		return
	}
	if t.message != nil {
		c.report(RuleOpenAtEnd, "message %s is open when its turn ends", t.message.id)
	}
	for id := range t.texts {
		c.report(RuleOpenAtEnd, "part %s is not done when its turn ends", id)
	}
	if t.pending > 0 {
		c.report(RuleOpenAtEnd, "%d permission requests are not resolved when their turn ends", t.pending)
	}
	if !t.own && !t.echoed {
		c.report(RuleEcho, "turn %s has no echo", t.id)
	}
	c.turn = nil
}

func (c *Checker) messageStarted(e *protocol.MessageStarted) {
	if _, known := c.messages.get(e.MessageID); known {
		c.report(RuleIDReused, "message %s was there before", e.MessageID)
	}
	c.messages.put(e.MessageID, true)
	if !c.inTurn(e.TurnID) {
		return
	}
	t := c.turn
	if t.message != nil {
		c.report(RuleBracket, "message %s starts while message %s is open", e.MessageID, t.message.id)
	}
	t.message = &message{id: e.MessageID, output: e.OutputIndex, parent: e.ParentToolCallID, echo: e.MessageID == protocol.EchoMessageID(t.id)}
	c.checkEcho(e)
	if e.OutputIndex != t.output {
		c.report(RuleOutputIndex, "message %s has outputIndex %d, want %d", e.MessageID, e.OutputIndex, t.output)
	}
	t.output = e.OutputIndex + 1
}

// checkEcho checks that the echo is the first message, and no other is one.
func (c *Checker) checkEcho(e *protocol.MessageStarted) {
	t := c.turn
	echo := t.message.echo
	switch {
	case t.own && echo:
		c.report(RuleEcho, "turn %s is the agent's own and has an echo", t.id)
	case t.own || t.echoed:
	case !echo:
		c.report(RuleEcho, "message %s comes before the echo of turn %s", e.MessageID, t.id)
		t.output = 1
	}
	if !t.own {
		t.echoed = true
	}
	if echo && (e.Role != protocol.RoleUser || e.OutputIndex != 0 || e.ParentToolCallID != "") {
		c.report(RuleEcho, "the echo must have the role user, outputIndex 0 and no parentToolCallId")
	}
}

func (c *Checker) messageEnded(e *protocol.MessageEnded) {
	if !c.inTurn(e.TurnID) {
		return
	}
	switch m := c.turn.message; {
	case m == nil:
		c.report(RuleBracket, "message %s ends, and no message is open", e.MessageID)
	case m.id != e.MessageID:
		c.report(RuleBracket, "message %s ends, and message %s is open", e.MessageID, m.id)
	default:
		if m.echo && m.parts == 0 {
			c.report(RuleEcho, "the echo of turn %s has no parts", c.turn.id)
		}
		c.turn.message = nil
	}
}

// address is where a part stands.
type address struct {
	turn    protocol.TurnID
	message protocol.MessageID
	output  int
	index   int
}

// String is for messages.
func (a address) String() string {
	return fmt.Sprintf("turn %s, message %s, %d/%d", a.turn, a.message, a.output, a.index)
}
