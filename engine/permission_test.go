package engine_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/engine"
	"agentserver/harness"
	"agentserver/protocol"
)

// request returns the id of the nth permission request.
func (b *bench) request(n int) protocol.RequestID {
	b.t.Helper()
	for _, env := range b.events("s") {
		if e, ok := env.Event.(*protocol.PermissionRequested); ok {
			if n--; n == 0 {
				return e.RequestID
			}
		}
	}
	b.t.Fatal("no such request")
	return ""
}

func (b *bench) respond(id protocol.RequestID, o protocol.PermissionOutcome) (bool, error) {
	r, err := b.Respond(b.t.Context(), protocol.PermissionRespondParams{SessionID: "s", RequestID: id, Outcome: o})
	synctest.Wait()
	return r.Accepted, err
}

func TestPermissionIsAnsweredOnce(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		answers := make(chan harness.Decision, 2)
		b.say(ask("p", "Bash", answers))
		e := b.events("s")[4].Event.(*protocol.PermissionRequested)
		if len(e.Options) != 4 || e.ToolCall.ToolCallID != "p" {
			t.Errorf("got %+v", e)
		}
		outcome := protocol.Selected(protocol.OptionIDAllow)
		outcome.UpdatedInput = json.RawMessage(`{"b":2}`)
		if ok, err := b.respond(e.RequestID, outcome); !ok || err != nil {
			t.Errorf("first answer: %v, %v", ok, err)
		}
		if d := <-answers; !d.Allow || d.Always || string(d.UpdatedInput) != `{"b":2}` {
			t.Errorf("decision %+v", d)
		}
		if ok, err := b.respond(e.RequestID, protocol.Selected(protocol.OptionIDReject)); ok || err != nil {
			t.Errorf("second answer: %v, %v", ok, err)
		}
		b.say(harness.TurnEnd{})
		b.wantStream(`…
			permission.requested r1 Run Bash
			permission.resolved r1 selected allow {"b":2}
			turn.ended t1 end_turn`)
	})
}

func TestOptionThatWasNotOfferedSettlesNothing(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		answers := make(chan harness.Decision, 2)
		b.say(ask("p", "Bash", answers))
		if _, err := b.respond(b.request(1), protocol.Selected("allow_everything")); !errors.Is(err, protocol.ErrInvalidParams) || !strings.Contains(err.Error(), "optionId") {
			t.Errorf("got %v", err)
		}
		if ok, _ := b.respond(b.request(1), protocol.Selected(protocol.OptionIDReject)); !ok {
			t.Error("the request is no longer open")
		}
		if d := <-answers; d.Allow {
			t.Errorf("got %+v", d)
		}
	})
}

func TestStandingRules(t *testing.T) {
	for option, allow := range map[string]bool{protocol.OptionIDAllowAlways: true, protocol.OptionIDRejectAlways: false} {
		t.Run(option, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				answers := make(chan harness.Decision, 8)
				b.start("t1")
				question := ask("q", "Bash", answers)
				question.NoRules = true
				b.say(ask("p1", "Bash", answers), ask("p2", "Bash", answers), ask("p3", "Edit", answers), question)
				b.respond(b.request(1), protocol.Selected(option))
				b.say(ask("p4", "Bash", answers)) // answered by the rule, without an event
				for range 3 {
					if d := <-answers; d.Allow != allow || !d.Always {
						t.Errorf("got %+v", d)
					}
				}
				b.say(harness.TurnEnd{})
				b.wantStream(`…
					permission.requested r1 Run Bash
					permission.requested r2 Run Bash
					permission.requested r3 Run Edit
					permission.requested r4 Run Bash
					permission.resolved r1 selected ` + option + `
					permission.resolved r2 selected ` + option + `
					permission.resolved r3 cancelled
					permission.resolved r4 cancelled
					turn.ended t1 end_turn`)
				<-answers
				<-answers
				b.CloseSession(b.t.Context(), protocol.SessionParams{SessionID: "s"})
				b.start("t2")
				b.say(ask("p1", "Bash", answers))
				if len(answers) != 0 {
					t.Error("the rule outlived its session")
				}
			})
		})
	}
}

func TestQuestionsMakeNoRule(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		answers := make(chan harness.Decision, 8)
		b.start("t1")
		question := ask("q", "AskUserQuestion", answers)
		question.NoRules = true
		b.say(question)
		b.respond(b.request(1), protocol.Selected(protocol.OptionIDAllowAlways))
		question.Key = "q2"
		b.say(question)
		b.request(2)
	})
}

func TestNobodyIsThereToAnswer(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		answers := make(chan harness.Decision, 1)
		b.start("t1", func(p *protocol.TurnStartParams) { p.Config.PermissionRequests = new(bool) })
		b.say(ask("p", "Bash", answers))
		if d := <-answers; d.Allow || d.Cancelled || d.Message == "" {
			t.Errorf("got %+v", d)
		}
		b.say(harness.TurnEnd{})
		b.wantStream(`…
			message.ended echo-t1
			turn.ended t1 end_turn`)
	})
}

func TestPermissionTimeout(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.PermissionTimeout = time.Minute }, func(b *bench) {
		answers := make(chan harness.Decision, 1)
		b.start("t1")
		b.say(ask("p", "Bash", answers))
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := <-answers; !d.Cancelled {
			t.Errorf("got %+v", d)
		}
		b.say(harness.TurnEnd{})
		b.wantStream(`…
			permission.resolved r1 cancelled
			turn.ended t1 end_turn`)
	})
}

func TestPermissionWaitsForEver(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		answers := make(chan harness.Decision, 1)
		b.start("t1")
		b.say(ask("p", "Bash", answers))
		time.Sleep(100 * time.Hour)
		if ok, _ := b.respond(b.request(1), protocol.Selected(protocol.OptionIDAllow)); !ok {
			t.Error("no longer open")
		}
		b.say(harness.TurnEnd{})
	})
}

func TestWithdrawnPermission(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		answers := make(chan harness.Decision, 1)
		b.start("t1")
		b.say(ask("p", "Bash", answers), harness.PermissionWithdrawn{Key: "p"}, harness.TurnEnd{})
		b.wantStream(`…
			permission.requested r1 Run Bash
			permission.resolved r1 cancelled
			turn.ended t1 end_turn`)
		if len(answers) != 0 {
			t.Error("the agent was answered")
		}
	})
}

func TestPermissionOfASubagentNamesItsParent(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		p := ask("p", "Bash", make(chan harness.Decision, 1))
		p.ParentToolCallID = "task"
		b.say(p)
		if e := b.events("s")[4].Event; e.Header().Meta.GetString("agent-server/parentToolCallId") != "task" {
			t.Errorf("got %s", e.Header().Meta)
		}
	})
}

func TestPermissionOutsideATurnOpensOne(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(harness.TurnEnd{})
		b.say(ask("p", "Bash", make(chan harness.Decision, 1)), harness.TurnEnd{})
		b.wantStream(`…
			turn.started T1 agent
			permission.requested r1 Run Bash
			permission.resolved r1 cancelled
			turn.ended T1 end_turn`)
	})
}

func TestDecideMayHangFailOrPanic(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		release := make(chan struct{})
		for i, decide := range []func(harness.Decision) error{
			func(harness.Decision) error { <-release; return nil },
			func(harness.Decision) error { return errors.New("broken pipe") },
			func(harness.Decision) error { panic("boom") },
		} {
			b.say(harness.Permission{Key: string(rune('a' + i)), Title: "x", Tool: protocol.PermissionTool{ToolName: "Bash"}, Decide: decide})
			b.respond(b.request(i+1), protocol.Selected(protocol.OptionIDAllow))
		}
		b.say(harness.TurnEnd{})
		b.wantStream(`…
			permission.requested r2 x
			permission.resolved r2 selected allow
			error t1 internal: the answer about Bash could not be delivered to the agent; cancel the turn if it hangs
			permission.requested r3 x
			permission.resolved r3 selected allow
			error t1 internal: the answer about Bash could not be delivered to the agent; cancel the turn if it hangs
			turn.ended t1 end_turn`)
		close(release)
	})
}
