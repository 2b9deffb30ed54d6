package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// TestWhatNoJSONCanBeMadeOfIsLeftOut: the events must come through all the same (inBubble reads each of them back).
func TestWhatNoJSONCanBeMadeOfIsLeftOut(t *testing.T) {
	broken := json.RawMessage(`{"a":`)
	inBubble(t, nil, func(b *bench) {
		b.start("t1", func(p *protocol.TurnStartParams) { p.Config.IncludeRaw = true })
		request := ask("p", "Bash", make(chan harness.Decision, 1))
		request.Tool.RawInput = broken
		b.say(
			harness.Raw{Data: broken}, harness.Notice{}, harness.Failure{}, harness.SessionStarted{}, request,
			harness.PartUpdate{Key: "r", Part: &protocol.ReasoningPart{Text: "x", ProviderMetadata: broken}},
			harness.PartUpdate{Key: "i", Part: &protocol.ImagePart{}},
			harness.PartUpdate{Key: "f", Part: &protocol.FilePart{Data: "QQ==", URL: "https://x"}},
			harness.PartUpdate{Key: "k", Part: &protocol.ToolPart{ToolName: " ", Kind: " ", PartHeader: protocol.PartHeader{Meta: protocol.Meta("[")},
				State: &protocol.ToolCompleted{Input: broken, Metadata: broken, Meta: protocol.Meta("x"), Output: "o", Content: []protocol.ToolContent{
					{Type: "weird"}, {Type: protocol.ContentImage}, {Type: protocol.ContentDiff}, {Type: protocol.ContentTerminal}, protocol.TextContent("kept")}}}},
			harness.Usage{Used: -1, Size: -1}, harness.Compaction{Key: "c"},
			harness.TurnEnd{StopReason: " ", Meta: protocol.Meta("1"), Error: &protocol.TurnError{Message: "e"}},
		)
		for _, env := range b.events("s") {
			if e, ok := env.Event.(*protocol.MessagePart); ok {
				if p, ok := e.Part.(*protocol.ToolPart); ok {
					if c := p.State.(*protocol.ToolCompleted); len(c.Content) != 1 || c.Content[0].Text != "kept" {
						t.Errorf("content %+v", c.Content)
					}
				}
			}
		}
		b.wantStream(`…
			session.notice t1
			error t1 internal:
			permission.requested r1 Run Bash
			message.started m1 assistant 1
			message.part m1.0 p1 ~"x" done
			message.part m1.1 p2 unknown(k) completed {} = o
			session.usage t1 0
			session.compaction t1 c1 completed
			permission.resolved r1 cancelled
			message.ended m1
			turn.ended t1 error internal: e`)
	})
}

func TestBackgroundToolKeepsTheAgent(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		a := b.agent()
		b.say(tool("k", &protocol.ToolInProgress{}), harness.TurnEnd{Background: []string{"k"}})
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if a.count(&a.closes) != 0 {
			t.Error("closed while a tool goes on")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		b.wantStream(`…
			turn.ended t1 end_turn
			message.part m1.0 p1 Bash(k) cancelled {}
			session.ended idle`)
	})
}

func TestCancelDuringShutdown(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		a := b.agent()
		a.onInterrupt = func(context.Context) error {
			time.Sleep(time.Second)
			a.say(harness.TurnEnd{StopReason: protocol.StopCancelled})
			return nil
		}
		go b.Shutdown(b.t.Context())
		synctest.Wait()
		if r, _ := b.cancel("t1"); r.Outcome != protocol.CancelConfirmed {
			t.Errorf("got %+v", r)
		}
		if a.count(&a.stops) != 1 {
			t.Errorf("%d interrupts", a.stops)
		}
	})
}
