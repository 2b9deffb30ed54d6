package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/engine"
	"agentserver/harness"
	"agentserver/protocol"
)

func TestMissingIDsAreMinted(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		p := b.params("")
		p.SessionID = ""
		r, err := b.StartTurn(b.t.Context(), p)
		if err != nil || len(r.SessionID) != 36 || len(r.TurnID) != 36 || r.Deduplicated {
			t.Errorf("got %+v, %v", r, err)
		}
	})
}

func TestAdmissionIsIdempotent(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		again := func(turn protocol.TurnID, text string) (protocol.TurnStartResult, error) {
			p := b.params(turn)
			p.Input = protocol.Text(text)
			return b.StartTurn(b.t.Context(), p)
		}
		b.start("t1")
		if r, err := again("t1", "hi"); err != nil || !r.Deduplicated {
			t.Errorf("while it runs: %+v, %v", r, err)
		}
		if _, err := again("t1", "other"); !errors.Is(err, protocol.ErrTurnConflict) {
			t.Errorf("other input while it runs: %v", err)
		}
		b.say(harness.TurnEnd{})
		if r, err := again("t1", "hi"); err != nil || !r.Deduplicated {
			t.Errorf("after its end: %+v, %v", r, err)
		}
		if _, err := again("t1", "other"); !errors.Is(err, protocol.ErrTurnConflict) {
			t.Errorf("other input after its end: %v", err)
		}
		for i := range 16 {
			b.start(protocol.TurnID(fmt.Sprint("x", i)))
			b.say(harness.TurnEnd{})
		}
		if r, err := again("t1", "other"); err != nil || r.Deduplicated {
			t.Errorf("after 16 others: %+v, %v", r, err)
		}
		synctest.Wait()
		b.say(harness.TurnEnd{})
		b.CloseSession(b.t.Context(), protocol.SessionParams{SessionID: "s"}) // its stream uses a turn id twice
	})
}

func TestRepeatIsRecognizedWhenTheDirectoryIsGone(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.cwd = filepath.Join(b.cwd, "sub")
		os.Mkdir(b.cwd, 0o755)
		b.start("t1")
		os.Remove(b.cwd)
		if r, err := b.StartTurn(b.t.Context(), b.params("t1")); err != nil || !r.Deduplicated {
			t.Errorf("got %+v, %v", r, err)
		}
	})
}

func TestOneTurnAtATime(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		_, err := b.StartTurn(b.t.Context(), b.params("t2"))
		if !errors.Is(err, protocol.ErrTurnActive) || !strings.Contains(string(protocol.AsError(err).Data), `"t1"`) {
			t.Errorf("got %v", err)
		}
	})
}

func TestSessionIsIdleOnceItsTurnEnded(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		f := b.Follow()
		b.start("t1")
		go b.say2(textEnd("k", "x")...)
		for env, err := range f.All(b.t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := env.Event.(*protocol.TurnEnded); ok {
				if _, err := b.StartTurn(b.t.Context(), b.params("t2")); err != nil {
					t.Errorf("right after turn.ended: %v", err)
				}
				break
			}
		}
	})
}

func (b *bench) say2(events ...harness.Event) { b.agent().say(events...) }

func TestFirstEventWaitsForBegin(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		a, err := b.Admit(b.t.Context(), b.params("t1"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := len(b.events("s")); n != 0 {
			t.Errorf("%d events before the ack", n)
		}
		if _, err := b.StartTurn(b.t.Context(), b.params("t2")); !errors.Is(err, protocol.ErrTurnActive) {
			t.Errorf("the session is not held: %v", err)
		}
		a.Begin()
		a.Begin()
		b.say(harness.TurnEnd{})
		if n := len(b.events("s")); n != 5 {
			t.Errorf("%d events, want 5", n)
		}
	})
}

func TestTurnBeginsThoughNobodySentItsAck(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		if _, err := b.Admit(b.t.Context(), b.params("t1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		b.say(harness.TurnEnd{})
		b.wantStream(`turn.started t1
			…
			turn.ended t1 end_turn`)
	})
}

func TestRefusedTurnsSpawnNothing(t *testing.T) {
	tests := map[string]struct {
		change func(*protocol.TurnStartParams)
		want   error
		path   string
	}{
		"no such directory": {func(p *protocol.TurnStartParams) { p.Config.Cwd += "/nowhere" }, protocol.ErrInvalidParams, "config.cwd"},
		"relative cwd":      {func(p *protocol.TurnStartParams) { p.Config.Cwd = "x" }, protocol.ErrInvalidParams, "config.cwd"},
		"unknown harness":   {func(p *protocol.TurnStartParams) { p.Config.Harness = "nope" }, protocol.ErrHarnessNotAvailable, "fake"},
		"denied variable":   {func(p *protocol.TurnStartParams) { p.Config.Env = map[string]string{"LD_PRELOAD": "secret"} }, protocol.ErrInvalidParams, "LD_PRELOAD"},
		"empty input":       {func(p *protocol.TurnStartParams) { p.Input = nil }, protocol.ErrInvalidParams, "input"},
		"image by url": {func(p *protocol.TurnStartParams) {
			p.Input = protocol.Input{{Type: protocol.PartImage, URL: "https://x/y", MimeType: "image/png"}}
		}, protocol.ErrInvalidParams, "input[0]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				p := b.params("t1")
				test.change(&p)
				_, err := b.StartTurn(b.t.Context(), p)
				e := protocol.AsError(err)
				if !errors.Is(err, test.want) || !strings.Contains(string(e.Data)+e.Message, test.path) || strings.Contains(string(e.Data)+e.Message, "secret") {
					t.Errorf("got %v %s", err, e.Data)
				}
				if list, _ := b.List(b.t.Context()); b.opens() != 0 || len(list.Sessions) != 0 {
					t.Errorf("%d agents, sessions %v", b.opens(), list.Sessions)
				}
			})
		})
	}
}

func TestInputIsHeldToTheCapabilities(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fake.caps.Images, b.fake.caps.Files = false, false
		for _, typ := range []protocol.PartType{protocol.PartImage, protocol.PartFile} {
			p := b.params("t1")
			p.Input = protocol.Input{{Type: typ, Data: "QUJD", MimeType: "x/y"}}
			if _, err := b.StartTurn(b.t.Context(), p); !errors.Is(err, protocol.ErrInvalidParams) {
				t.Errorf("%s: %v", typ, err)
			}
		}
	})
}

func TestEnvironmentOfTheAgent(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.AllowEnv = []string{"PATH"} }, func(b *bench) {
		b.start("t1", func(p *protocol.TurnStartParams) { p.Config.Env = map[string]string{"PATH": "/mine", "A": "1"} })
		if got := strings.Join(b.agent().spec.Env, " "); got != "LANG=C A=1 PATH=/mine" {
			t.Errorf("got %s", got)
		}
	})
}

func TestUnsupportedFieldsAreNamed(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fake.caps = protocol.Capabilities{Unsupported: []string{"systemPromptAppend"}}
		b.start("t1", func(p *protocol.TurnStartParams) {
			p.Config.SystemPromptAppend, p.Config.ThinkingLevel, p.Config.ResumeSessionID = "x", protocol.ThinkingLow, "n"
			p.Config.MCPServers = map[string]protocol.MCPServer{"a": {Type: protocol.MCPStdio, Command: "c"}}
		})
		b.say(harness.TurnEnd{})
		b.wantStream(`…
			message.ended echo-t1
			error t1 invalid_request: config.mcpServers: harness fake cannot honour it; the turn runs without it
			error t1 invalid_request: config.resumeSessionId: harness fake cannot honour it; the turn runs without it
			error t1 invalid_request: config.systemPromptAppend: harness fake cannot honour it; the turn runs without it
			error t1 invalid_request: config.thinkingLevel: harness fake cannot honour it; the turn runs without it
			turn.ended t1 end_turn`)
	})
}

func TestModelThatCannotBeSwitched(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fake.caps.ModelSwitch = protocol.ModelSwitchUnsupported
		for i, model := range []string{"a", "a", "b"} {
			b.start(protocol.TurnID(fmt.Sprint("t", i)), func(p *protocol.TurnStartParams) { p.Config.Model = model })
			b.say(harness.TurnEnd{})
		}
		b.wantStream(`…
			message.ended echo-t1
			turn.ended t1 end_turn
			…
			error t2 invalid_request: config.model: harness fake cannot honour it; the turn runs without it
			turn.ended t2 end_turn`)
	})
}

func TestSessionBelongsToItsHarness(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.start("t1")
		b.say(harness.TurnEnd{})
		p := b.params("t2")
		p.Config.Harness = "other"
		if _, err := b.StartTurn(b.t.Context(), p); !errors.Is(err, protocol.ErrInvalidParams) || !strings.Contains(err.Error(), "config.harness") {
			t.Errorf("got %v", err)
		}
	})
}

func TestLimitsOfTheProcess(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.MaxSessions, o.MaxTurns = 2, 1 }, func(b *bench) {
		start := func(s protocol.SessionID) error {
			p := b.params("t1")
			p.SessionID = s
			_, err := b.StartTurn(b.t.Context(), p)
			synctest.Wait()
			return err
		}
		if err := start("a"); err != nil {
			t.Fatal(err)
		}
		if err := start("b"); !errors.Is(err, protocol.ErrOverloaded) {
			t.Errorf("a second turn: %v", err)
		}
		if err := start("a"); err != nil {
			t.Errorf("a repeat is no turn: %v", err)
		}
		b.say(harness.TurnEnd{})
		if err := start("b"); err != nil {
			t.Errorf("after the first has ended: %v", err)
		}
		b.say(harness.TurnEnd{})
		if err := start("c"); !errors.Is(err, protocol.ErrOverloaded) {
			t.Errorf("a third session: %v", err)
		}
		b.CloseSession(b.t.Context(), protocol.SessionParams{SessionID: "a"})
		if err := start("c"); err != nil {
			t.Errorf("after a close: %v", err)
		}
	})
}
