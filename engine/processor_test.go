package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

func text(key, parent, s string) harness.Delta {
	return harness.Delta{Key: key, ParentToolCallID: parent, Type: protocol.DeltaText, Text: s}
}

func tool(key string, state protocol.ToolState) harness.PartUpdate {
	return harness.PartUpdate{Key: key, Part: &protocol.ToolPart{ToolCallID: key, ToolName: "Bash", Title: "t", State: state}}
}

// said runs a turn in which the agent says the events, and compares what comes after the echo.
func said(t *testing.T, events []harness.Event, want string) {
	t.Helper()
	inBubble(t, nil, func(b *bench) {
		b.t.Helper()
		b.start("t1")
		b.say(append(events, harness.TurnEnd{})...)
		b.wantStream("…\nmessage.ended echo-t1\n" + want + "\nturn.ended t1 end_turn")
	})
}

func TestEchoOfEveryKindOfInput(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1", func(p *protocol.TurnStartParams) {
			p.Input = protocol.Input{{Type: protocol.PartText, Text: "see"}, {Type: protocol.PartImage, Data: "QUJD", MimeType: "image/png"},
				{Type: protocol.PartFile, Data: "QUJD", MimeType: "text/plain", Filename: "a"}}
		})
		b.say(harness.TurnEnd{})
		b.wantStream(`
			turn.started t1
			message.started echo-t1 user 0
			message.part echo-t1.0 echo-t1-0 "see" done
			message.part echo-t1.1 echo-t1-1 image QUJD
			message.part echo-t1.2 echo-t1-2 file QUJD
			message.ended echo-t1
			turn.ended t1 end_turn`)
	})
}

func TestMessageBrackets(t *testing.T) {
	said(t, []harness.Event{
		harness.MessageStarted{Model: "m"}, text("a", "", "1"), text("b", "", "2"),
		text("c", "task", "3"), // a sub-agent speaks in between
		text("a", "", "4"),     // and the first goes on at its place
		harness.MessageEnded{},
		text("d", "task", "5"), harness.MessageStarted{}, harness.MessageStarted{}, text("e", "", "6"),
	}, `
		message.started m1 assistant 1 m
		message.part m1.0 p1 "" streaming
		message.part.delta p1 +"1"
		message.part m1.1 p2 "" streaming
		message.part.delta p2 +"2"
		message.ended m1
		message.started m2 assistant 2 in task
		message.part m2.0 p3 "" streaming
		message.part.delta p3 +"3"
		message.part.delta p1 +"4"
		message.part m2.0 p3 "3" done
		message.ended m2
		message.started m3 assistant 3 in task
		message.part m3.0 p4 "" streaming
		message.part.delta p4 +"5"
		message.part m3.0 p4 "5" done
		message.ended m3
		message.started m4 assistant 4
		message.part m4.0 p5 "" streaming
		message.part.delta p5 +"6"
		message.part m1.0 p1 "14" done
		message.part m1.1 p2 "2" done
		message.part m4.0 p5 "6" done
		message.ended m4`)
}

func TestSnapshotsReplaceWhatDeltasBuilt(t *testing.T) {
	part := func(s string, state protocol.PartState) harness.PartUpdate {
		return harness.PartUpdate{Key: "k", Part: &protocol.TextPart{Text: s, State: state}}
	}
	t.Run("a done snapshot wins", func(t *testing.T) {
		said(t, []harness.Event{text("k", "", "ab"), part("ABC", protocol.PartDone), part("ABC", protocol.PartDone)}, `
			message.started m1 assistant 1
			message.part m1.0 p1 "" streaming
			message.part.delta p1 +"ab"
			message.part m1.0 p1 "ABC" done
			message.part m1.0 p1 "ABC" done
			message.ended m1`)
	})
	t.Run("deltas go on from a streaming snapshot", func(t *testing.T) {
		said(t, []harness.Event{part("ab", protocol.PartStreaming), text("k", "", "c")}, `
			message.started m1 assistant 1
			message.part m1.0 p1 "ab" streaming
			message.part.delta p1 +"c"
			message.part m1.0 p1 "abc" done
			message.ended m1`)
	})
	t.Run("an end without text ends what was streamed", func(t *testing.T) {
		said(t, []harness.Event{part("", ""), text("k", "", "ab"), part("", protocol.PartStreaming), part("", protocol.PartDone)}, `
			message.started m1 assistant 1
			message.part m1.0 p1 "" streaming
			message.part.delta p1 +"ab"
			message.part m1.0 p1 "ab" done
			message.ended m1`)
	})
	t.Run("a delta after the end is a part of its own", func(t *testing.T) {
		said(t, []harness.Event{part("ab", protocol.PartDone), text("k", "", "c")}, `
			message.started m1 assistant 1
			message.part m1.0 p1 "ab" done
			message.part m1.1 p2 "" streaming
			message.part.delta p2 +"c"
			message.part m1.1 p2 "c" done
			message.ended m1`)
	})
}

func TestReasoningHasItsTime(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		began := time.Now().UnixMilli()
		b.say(harness.Delta{Key: "k", Type: protocol.DeltaReasoning, Text: "hm"})
		time.Sleep(time.Second)
		b.say(harness.TurnEnd{})
		for _, env := range b.events("s") {
			if e, ok := env.Event.(*protocol.MessagePart); ok {
				if r, ok := e.Part.(*protocol.ReasoningPart); ok && r.State == protocol.PartDone {
					if r.Text != "hm" || *r.Time != (protocol.TimeSpan{Start: began, End: began + 1000}) {
						t.Errorf("got %q %+v", r.Text, r.Time)
					}
					return
				}
			}
		}
		t.Error("the reasoning was left open")
	})
}

func TestToolWalk(t *testing.T) {
	in := json.RawMessage(`{"command":"ls"}`)
	t.Run("streamed input is carried on", func(t *testing.T) {
		said(t, []harness.Event{
			tool("k", &protocol.ToolPending{}),
			harness.Delta{Key: "k", Type: protocol.DeltaToolInput, Text: `{"a":`}, harness.Delta{Key: "k", Type: protocol.DeltaToolInput, Text: `1}`},
			tool("k", &protocol.ToolInProgress{}),
			harness.Delta{Key: "k", Type: protocol.DeltaToolInput, Text: `late`},
			tool("k", &protocol.ToolCompleted{Output: "ok"}),
		}, `
			message.started m1 assistant 1
			message.part m1.0 p1 Bash(k) pending
			message.part.delta p1 Bash(k)+"{\"a\":"
			message.part.delta p1 Bash(k)+"1}"
			message.part m1.0 p1 Bash(k) in_progress {"a":1}
			message.part m1.0 p1 Bash(k) completed {"a":1} = ok
			message.ended m1`)
	})
	t.Run("what has ended is not opened again", func(t *testing.T) {
		said(t, []harness.Event{
			tool("k", &protocol.ToolInProgress{Input: in}), tool("k", &protocol.ToolPending{}), tool("k", &protocol.ToolFailed{Error: "e"}),
			tool("k", &protocol.ToolInProgress{Input: in}), tool("k", &protocol.ToolCompleted{Input: in}), tool("k", &protocol.ToolFailed{Error: "more"}),
		}, `
			message.started m1 assistant 1
			message.part m1.0 p1 Bash(k) in_progress {"command":"ls"}
			message.part m1.0 p1 Bash(k) failed {"command":"ls"} ! e
			message.part m1.0 p1 Bash(k) failed {"command":"ls"} ! more
			message.ended m1`)
	})
	t.Run("a tool that completes after its message keeps its place", func(t *testing.T) {
		said(t, []harness.Event{
			tool("k", &protocol.ToolInProgress{Input: in}), harness.MessageEnded{}, text("a", "", "x"), tool("k", &protocol.ToolCompleted{Output: "o"}),
		}, `
			message.started m1 assistant 1
			message.part m1.0 p1 Bash(k) in_progress {"command":"ls"}
			message.ended m1
			message.started m2 assistant 2
			message.part m2.0 p2 "" streaming
			message.part.delta p2 +"x"
			message.part m1.0 p1 Bash(k) completed {"command":"ls"} = o
			message.part m2.0 p2 "x" done
			message.ended m2`)
	})
	t.Run("malformed snapshots are passed over", func(t *testing.T) {
		said(t, []harness.Event{harness.PartUpdate{Key: "n"}, nil, harness.Delta{Key: "d", Type: "weird", Text: "x"},
			harness.PartUpdate{Key: "k", Part: &protocol.ToolPart{State: &protocol.ToolCompleted{Input: json.RawMessage(`{`)}}}}, `
			message.started m1 assistant 1
			message.part m1.0 p1 unknown(k) completed {} =
			message.ended m1`)
	})
}

func TestToolKeepsItsFirstStart(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		began := time.Now().UnixMilli()
		b.say(tool("k", &protocol.ToolInProgress{}))
		time.Sleep(time.Second)
		b.say(tool("k", &protocol.ToolInProgress{}), tool("k", &protocol.ToolCompleted{}), harness.TurnEnd{})
		last := b.events("s")[7].Event.(*protocol.MessagePart).Part.(*protocol.ToolPart).State.(*protocol.ToolCompleted)
		if last.Time != (protocol.TimeSpan{Start: began, End: began + 1000}) {
			t.Errorf("got %+v", last.Time)
		}
	})
}

func TestBackgroundToolEndsAfterItsTurn(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(tool("k", &protocol.ToolInProgress{}), tool("other", &protocol.ToolInProgress{}), harness.TurnEnd{Background: []string{"k"}})
		b.start("t2")
		b.say(text("a", "", "x"), tool("k", &protocol.ToolCompleted{Output: "late"}), text("a", "", "y"), harness.TurnEnd{})
		b.say(tool("k", &protocol.ToolCompleted{Output: "later"}), text("a", "", "z"))
		b.wantStream(`…
			message.part m1.0 p1 Bash(k) in_progress {}
			message.part m1.1 p2 Bash(other) in_progress {}
			message.part m1.1 p2 Bash(other) cancelled {}
			message.ended m1
			turn.ended t1 end_turn
			…
			message.part.delta p3 +"x"
			message.part m1.0 p1 Bash(k) completed {} = late
			message.part.delta p3 +"y"
			message.part m2.0 p3 "xy" done
			message.ended m2
			turn.ended t2 end_turn`)
	})
}

func TestBackgroundToolOfAnAgentThatLeft(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(tool("k", &protocol.ToolInProgress{}), harness.TurnEnd{Background: []string{"k"}})
		b.say(harness.Exit{})
		b.wantStream(`…
			turn.ended t1 end_turn
			message.part m1.0 p1 Bash(k) cancelled {}`)
	})
}

func TestSubagentIsATask(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(harness.PartUpdate{Key: "k", Part: &protocol.ToolPart{ToolName: "Agent", Subagent: &protocol.Subagent{Type: "x"}, State: &protocol.ToolPending{}}}, harness.TurnEnd{})
		if p := b.events("s")[5].Event.(*protocol.MessagePart).Part.(*protocol.ToolPart); p.Kind != protocol.ToolKindTask {
			t.Errorf("kind %q", p.Kind)
		}
	})
}

func TestDriversValuesAreNotChanged(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		part := &protocol.ToolPart{ToolName: "Bash", State: &protocol.ToolInProgress{}}
		b.say(harness.PartUpdate{Key: "k", Part: part}, harness.TurnEnd{})
		if part.ID != "" || part.State.(*protocol.ToolInProgress).Time.Start != 0 {
			t.Errorf("got %+v", part)
		}
	})
}

func TestSessionCreatedOnceATurn(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(harness.SessionStarted{NativeSessionID: "n"}, harness.SessionStarted{NativeSessionID: "n"}, harness.SessionStarted{NativeSessionID: "n2"}, harness.TurnEnd{})
		b.say(harness.SessionStarted{NativeSessionID: "n2"})
		b.start("t2")
		b.say(harness.SessionStarted{NativeSessionID: "n2"}, harness.SessionStarted{NativeSessionID: "n2"}, harness.TurnEnd{})
		b.wantStream(`…
			message.ended echo-t1
			session.created n
			session.created n2
			turn.ended t1 end_turn
			turn.started t2
			…
			message.ended echo-t2
			session.created n2
			turn.ended t2 end_turn`)
	})
}

func TestLostContextIsToldWhereOnlyTheEngineResumed(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(harness.SessionStarted{NativeSessionID: "n"}, harness.TurnEnd{}, harness.Exit{})
		b.start("t2")
		b.say(harness.SessionStarted{NativeSessionID: "n2", Resumed: new(false)}, harness.TurnEnd{})
		b.wantStream("…\nsession.created n2 resumed=false\nturn.ended t2 end_turn")
	})
}

func TestMemoryOfPartsIsBounded(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		a := b.agent()
		for i := range 20_000 {
			a.say(tool(fmt.Sprint(i), &protocol.ToolCompleted{Output: strings.Repeat("x", 10)}))
		}
		b.say(tool("open", &protocol.ToolInProgress{}))
		b.say(tool("open", &protocol.ToolCompleted{}), harness.TurnEnd{})
		events := b.events("s")
		last := events[len(events)-3].Event.(*protocol.MessagePart)
		before := events[len(events)-4].Event.(*protocol.MessagePart)
		if last.Part.Header().ID != before.Part.Header().ID || last.PartIndex != 20_000 {
			t.Errorf("the open part was forgotten: %+v", last)
		}
		b.CloseSession(b.t.Context(), protocol.SessionParams{SessionID: "s"})
	})
}
