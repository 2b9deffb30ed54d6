package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/engine"
	"agentserver/harness"
	"agentserver/protocol"
)

func TestTurnRunsFromEchoToEnd(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(harness.SessionStarted{NativeSessionID: "n1", Model: "m"}, harness.MessageStarted{Model: "m"})
		b.say(textEnd("k", "hello")...)
		b.wantStream(`
			turn.started t1
			message.started echo-t1 user 0
			message.part echo-t1.0 echo-t1-0 "hi" done
			message.ended echo-t1
			session.created n1 m
			message.started m1 assistant 1 m
			message.part m1.0 p1 "" streaming
			message.part.delta p1 +"hello"
			message.part m1.0 p1 "hello" done
			message.ended m1
			turn.ended t1 end_turn`)
	})
}

func TestSecondTurnUsesTheSameAgent(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(textEnd("k1", "a")...)
		b.start("t2", func(p *protocol.TurnStartParams) { p.Config.Model = "m2" })
		b.say(textEnd("k2", "b")...)
		a := b.agent()
		if b.opens() != 1 || len(a.turns) != 2 || len(a.applied) != 1 || a.applied[0].Config.Model != "m2" {
			t.Errorf("opens %d, turns %d, applied %v", b.opens(), len(a.turns), a.applied)
		}
	})
}

func TestRestartResumesTheAgentsOwnSession(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		first := b.agent()
		b.say(harness.SessionStarted{NativeSessionID: "n1"}, harness.TurnEnd{})
		first.onApply = func(context.Context, harness.Spec) error { return harness.ErrRestart }
		b.start("t2", func(p *protocol.TurnStartParams) { p.Config.PermissionMode = protocol.ModePlan })
		if second := b.agent(); second == first || second.spec.Resume != "n1" || first.count(&first.closes) != 1 || len(second.turns) != 1 {
			t.Errorf("second agent resumes %q", second.spec.Resume)
		}
		b.say(harness.SessionStarted{NativeSessionID: "n1"}, harness.TurnEnd{})
		b.wantStream(`…
			turn.started t2
			…
			session.created n1
			turn.ended t2 end_turn`)
	})
}

func TestClientsResumePointIsTakenOnce(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		resume := func(id string) func(*protocol.TurnStartParams) {
			return func(p *protocol.TurnStartParams) { p.Config.ResumeSessionID = id }
		}
		b.start("t1", resume("old"))
		if got := b.agent().spec.Resume; got != "old" {
			t.Errorf("first: %q", got)
		}
		b.say(harness.SessionStarted{NativeSessionID: "forked", Resumed: new(true)}, harness.TurnEnd{})
		b.start("t2", resume("old")) // the same wish again: the agent goes on
		if b.opens() != 1 {
			t.Errorf("an agent was opened for the same wish")
		}
		b.say(harness.Exit{})
		b.start("t3", resume("old"))
		if got := b.agent().spec.Resume; got != "forked" {
			t.Errorf("after an exit: %q", got)
		}
		b.say(harness.TurnEnd{})
		b.start("t4", resume("another"))
		if got := b.agent().spec.Resume; got != "another" || b.opens() != 3 {
			t.Errorf("another wish: %q", got)
		}
		b.say(harness.SessionStarted{NativeSessionID: "fresh", Resumed: new(false)}, harness.TurnEnd{})
		b.wantStream(`…
			session.created forked resumed=true
			…
			session.created fresh resumed=false
			turn.ended t4 end_turn`)
	})
}

func TestExitEndsTheTurnAtOnce(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		a := b.agent()
		a.onClose = func(context.Context) error { time.Sleep(3 * time.Second); return nil }
		b.say(harness.SessionStarted{NativeSessionID: "n1"}, harness.Delta{Key: "k", Type: protocol.DeltaText, Text: "hal"},
			harness.PartUpdate{Key: "tool", Part: &protocol.ToolPart{ToolName: "Bash", State: &protocol.ToolInProgress{Input: json.RawMessage(`{"a":1}`)}}},
			harness.Exit{Error: &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: "exit status 1: boom"}})
		b.wantStream(`…
			message.part m1.0 p1 "hal" done
			message.part m1.1 p2 Bash(tool) cancelled {"a":1}
			message.ended m1
			turn.ended t1 error process_exit: exit status 1: boom`)
		b.start("t2")
		if b.opens() != 1 {
			t.Errorf("the next agent did not wait for the first to go")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if b.agent().spec.Resume != "n1" {
			t.Errorf("the next agent resumes %q", b.agent().spec.Resume)
		}
	})
}

func TestStreamThatEndsWithoutExit(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.agent().die()
		synctest.Wait()
		b.wantStream(`…
			turn.ended t1 error process_exit: the agent's stream ended; start another turn to start it again`)
	})
}

func TestExitBetweenTurns(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(harness.SessionStarted{NativeSessionID: "n1"}, harness.TurnEnd{})
		b.say(harness.Exit{Error: &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: "gone"}})
		n := len(b.events("s"))
		b.start("t2")
		if b.agent().spec.Resume != "n1" || b.opens() != 2 || n != 6 {
			t.Errorf("resume %q, %d agents, %d events", b.agent().spec.Resume, b.opens(), n)
		}
	})
}

func TestAgentThatDiesWhileItIsMadeToFit(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		a := b.agent()
		b.say(harness.SessionStarted{NativeSessionID: "n1"}, harness.TurnEnd{})
		a.onApply = func(ctx context.Context, _ harness.Spec) error { <-ctx.Done(); return ctx.Err() }
		b.start("t2")
		a.say(harness.Exit{})
		synctest.Wait()
		if b.opens() != 2 || len(b.agent().turns) != 1 {
			t.Errorf("%d agents", b.opens())
		}
		b.say(harness.TurnEnd{})
		b.wantStream(`…
			turn.ended t2 end_turn`)
	})
}

func TestInputThatADeadAgentDidNotTakeIsSentAgain(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		a := b.agent()
		b.say(harness.TurnEnd{})
		a.onSend = func(context.Context, harness.Turn) error { return errors.New("broken pipe") }
		b.start("t2")
		if b.opens() != 2 {
			t.Fatalf("%d agents", b.opens())
		}
		b.say(harness.TurnEnd{})
		b.wantStream(`…
			turn.ended t2 end_turn`)
	})
}

func TestExitExplainsAFailedSend(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fake.prepare = func(_ context.Context, _ harness.Spec, a *agent) error {
			a.onSend = func(context.Context, harness.Turn) error {
				time.AfterFunc(100*time.Millisecond, func() {
					a.say(harness.Exit{Error: &protocol.TurnError{Category: protocol.CategoryAuth, Message: "not logged in"}})
				})
				return errors.New("broken pipe")
			}
			return nil
		}
		b.start("t1")
		time.Sleep(time.Second)
		b.wantStream(`…
			turn.ended t1 error auth: not logged in`)
	})
}

func TestFailedSend(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fake.prepare = func(_ context.Context, _ harness.Spec, a *agent) error {
			a.onSend = func(context.Context, harness.Turn) error {
				return &harness.Error{Category: protocol.CategoryInvalidRequest, Message: "too long"}
			}
			return nil
		}
		b.start("t1")
		time.Sleep(time.Second)
		b.wantStream(`…
			turn.ended t1 error invalid_request: too long`)
	})
}

func TestFailedOpen(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fake.prepare = func(context.Context, harness.Spec, *agent) error {
			return &harness.Error{Category: protocol.CategoryAuth, Message: "log in first"}
		}
		b.start("t1")
		b.wantStream(`…
			message.ended echo-t1
			turn.ended t1 error auth: log in first`)
		b.fake.prepare = nil
		b.start("t2")
		b.say(harness.TurnEnd{})
		b.wantStream(`…
			turn.ended t2 end_turn`)
	})
}

func TestOpenIsBounded(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.OpenTimeout = time.Minute }, func(b *bench) {
		b.fake.prepare = func(ctx context.Context, spec harness.Spec, _ *agent) error {
			spec.Notify(harness.Notice{Kind: protocol.NoticeProvisioning, Message: "downloading"})
			<-ctx.Done()
			return ctx.Err()
		}
		b.start("t1")
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wantStream(`…
			session.notice t1 downloading
			turn.ended t1 error internal: the agent did not start within 1m0s; see the server's log, or try again`)
	})
}

func TestPanicsOfADriverEndTheTurn(t *testing.T) {
	hooks := map[string]func(*agent){
		"Send": func(a *agent) { a.onSend = func(context.Context, harness.Turn) error { panic("boom") } },
		"Recv": func(a *agent) { a.onRecv = func() { panic("boom") } },
	}
	for name, hook := range hooks {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				b.fake.prepare = func(_ context.Context, _ harness.Spec, a *agent) error { hook(a); return nil }
				b.start("t1")
				time.Sleep(time.Second)
				b.wantStream(`…
					turn.ended t1 error internal: the driver failed in ` + name + `; this is a bug, see the server's log`)
			})
		})
	}
	t.Run("Open", func(t *testing.T) {
		inBubble(t, nil, func(b *bench) {
			b.fake.prepare = func(context.Context, harness.Spec, *agent) error { panic("boom") }
			b.start("t1")
			b.wantStream(`…
				turn.ended t1 error internal: the driver failed in Open; this is a bug, see the server's log`)
		})
	})
	t.Run("Apply and Close", func(t *testing.T) {
		inBubble(t, nil, func(b *bench) {
			b.start("t1")
			b.say(harness.TurnEnd{})
			b.agent().onApply = func(context.Context, harness.Spec) error { panic("boom") }
			a := b.agent()
			a.onClose = func(context.Context) error { a.die(); panic("boom") }
			b.start("t2")
			b.wantStream(`…
				turn.ended t2 error internal: the driver failed in Apply; this is a bug, see the server's log`)
		})
	})
}

func TestIdleAgentIsLetGo(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(harness.SessionStarted{NativeSessionID: "n1"}, harness.TurnEnd{})
		a := b.agent()
		time.Sleep(20 * time.Minute)
		b.say(harness.Notice{Message: "still here"}) // the clock starts anew
		time.Sleep(20 * time.Minute)
		if a.count(&a.closes) != 0 {
			t.Error("closed though it spoke")
		}
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		if a.count(&a.closes) != 1 {
			t.Error("not closed")
		}
		b.wantStream(`…
			session.ended idle`)
		b.start("t2")
		if b.agent() == a || b.agent().spec.Resume != "n1" {
			t.Error("the next turn does not resume")
		}
		b.say(harness.TurnEnd{})
	})
}

func TestTurnOfTenMinutesWithoutOutput(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		time.Sleep(10 * time.Hour)
		b.say(textEnd("k", "at last")...)
		b.wantStream(`…
			turn.ended t1 end_turn`)
	})
}

func TestAgentBeginsATurnOfItsOwn(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(harness.TurnEnd{})
		b.say(harness.MessageStarted{}, harness.Delta{Key: "k", Type: protocol.DeltaText, Text: "by the way"})
		if _, err := b.StartTurn(b.t.Context(), b.params("t2")); !errors.Is(err, protocol.ErrTurnActive) {
			t.Errorf("the session is not busy: %v", err)
		}
		b.say(harness.TurnEnd{StopReason: protocol.StopEndTurn})
		b.wantStream(`…
			turn.ended t1 end_turn
			turn.started T1 agent
			message.started m1 assistant 1
			message.part m1.0 p1 "" streaming
			message.part.delta p1 +"by the way"
			message.part m1.0 p1 "by the way" done
			message.ended m1
			turn.ended T1 end_turn`)
	})
}

// TestOwnTurnCrossesWithAClients: what an agent says by itself may be on its way when a turn is sent. Its end does not end that turn.
func TestOwnTurnCrossesWithAClients(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(harness.TurnEnd{})
		b.agent().onSend = func(context.Context, harness.Turn) error {
			b.say2(harness.Delta{Key: "k", Type: protocol.DeltaText, Text: "by the way"}, harness.TurnEnd{StopReason: protocol.StopMaxTokens, Own: true})
			return nil
		}
		b.start("t2")
		b.say(textEnd("a", "the answer")...)
		b.wantEnd("t2", protocol.StopEndTurn)
		b.say(harness.MessageStarted{}, harness.Delta{Key: "l", Type: protocol.DeltaText, Text: "once more"}, harness.TurnEnd{Own: true})
		if list, _ := b.List(b.t.Context()); list.Sessions[0].ActiveTurnID != "" {
			t.Error("a turn of the agent's own does not end")
		}
	})
}

func TestGaugesBetweenTurnsWaitForTheNext(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(harness.TurnEnd{}, harness.TurnEnd{}, harness.Usage{Used: 7}, harness.Failure{Category: protocol.CategoryNetwork, Message: "retry"},
			harness.Raw{Data: json.RawMessage(`1`)})
		b.start("t2", func(p *protocol.TurnStartParams) { p.Config.IncludeRaw = true })
		b.say(harness.Raw{Data: json.RawMessage(`{"x":1}`)}, harness.Usage{Used: 9, Size: 10},
			harness.Compaction{Key: "c", Status: protocol.CompactionInProgress}, harness.Compaction{Key: "c"}, harness.TurnEnd{})
		b.wantStream(`…
			turn.ended t1 end_turn
			error  network: retry
			turn.started t2
			…
			message.ended echo-t2
			session.usage t2 7
			raw {"x":1}
			session.usage t2 9
			session.compaction t2 c1 in_progress
			session.compaction t2 c1 completed
			turn.ended t2 end_turn`)
	})
}

func TestSteeringAddsAUserMessage(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		steer := func(turn protocol.TurnID) bool {
			r, err := b.Steer(b.t.Context(), protocol.TurnSteerParams{SessionID: "s", TurnID: turn, Input: protocol.Text("and")})
			if err != nil {
				t.Errorf("steer: %v", err)
			}
			return r.Accepted
		}
		b.start("t1")
		b.say(harness.Delta{Key: "k", Type: protocol.DeltaText, Text: "a"})
		if !steer("t1") || steer("t0") {
			t.Error("the running turn must take it, and only that")
		}
		b.say(harness.Delta{Key: "k", Type: protocol.DeltaText, Text: "b"}, harness.MessageEnded{}, harness.TurnEnd{})
		if steer("t1") {
			t.Error("accepted after the end")
		}
		b.wantStream(`…
			message.part.delta p1 +"a"
			message.part.delta p1 +"b"
			message.part m1.0 p1 "ab" done
			message.ended m1
			message.started m2 user 2
			message.part m2.0 p2 "and" done
			message.ended m2
			turn.ended t1 end_turn`)
	})
}

// TestNextAgentMayUseTheSameKeys: keys are unique within one agent only. What a restarted agent said under a key of its forerunner was dropped.
func TestNextAgentMayUseTheSameKeys(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(textEnd("k", "first")...)
		b.say(harness.Exit{})
		b.start("t2")
		b.say(textEnd("k", "second")...)
		b.wantStream(`…
			turn.started t2
			message.started echo-t2 user 0
			message.part echo-t2.0 echo-t2-0 "hi" done
			message.ended echo-t2
			message.started m2 assistant 1
			message.part m2.0 p2 "" streaming
			message.part.delta p2 +"second"
			message.part m2.0 p2 "second" done
			message.ended m2
			turn.ended t2 end_turn`)
	})
}
