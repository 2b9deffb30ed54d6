package e2e

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"agentserver/client"
	"agentserver/protocol"
)

// quick makes a client come back at once, and fetch what it missed in small pages, so that more can be cut.
func quick(o *client.Options) {
	o.MinBackoff, o.MaxBackoff, o.ReplayPage = 2*time.Millisecond, 20*time.Millisecond, 25
	o.ReplayAttempts = 100
}

// TestRealCutOff cuts a client off at random points of turns of the real CLI. It ends with the stream that nobody cut.
func TestRealCutOff(t *testing.T) {
	t.Parallel()
	s := newWorld(t, realClaude(t)).serve()
	p := cutter(t, s.addr, 8, rand.Uint64())
	c, got := s.clientAt(p.url(), quick)
	v := converse(t, c)
	v.answer = func(ask *protocol.PermissionRequested) *protocol.PermissionOutcome {
		s.insist(t, c, v.id, ask.RequestID)
		return nil
	}
	v.run("THINK hm\nSLOW 40 10", s.config(), nil).want(protocol.StopEndTurn)
	v.run("TOOL bash echo made > made", s.config(), nil).want(protocol.StopEndTurn).wantTool(protocol.ToolStatusCompleted)
	v.run("BIGTEXT 20000\nSLOW 40 10", s.config(), nil).want(protocol.StopEndTurn)
	same(t, v.id, 3, got, s.witness)
	t.Logf("cut %d times", p.count())
	if p.count() < 3 {
		t.Errorf("cut only %d times", p.count())
	}
}

// insist allows a request however often the connection drops meanwhile.
func (s *server) insist(t *testing.T, c *client.Client, session protocol.SessionID, request protocol.RequestID) {
	t.Helper()
	params := protocol.PermissionRespondParams{SessionID: session, RequestID: request, Outcome: protocol.Selected(protocol.OptionIDAllow)}
	eventually(t, "the answer arrives", patience, func() bool {
		_, err := c.Respond(t.Context(), params)
		return err == nil
	})
}

// TestCutOff does the same to many clients at a time, with the mock harness and more of everything.
func TestCutOff(t *testing.T) {
	t.Parallel()
	s := newWorld(t, "").serve()
	script := strings.Join([]string{
		"think let me see", "ask Bash {\"command\":\"ls\"} -> a.txt", "subagent explorer look", "  tool Read {\"path\":\"a.txt\"} -> text", "  say found", "pace 500us",
		"burst 300 20", "image", "tool Bash {\"command\":\"make\"} ! no targets", "pace 1ms", "say the end of it all is near",
	}, "\n")
	seeds := 6
	if testing.Short() {
		seeds = 2
	}
	for range seeds {
		t.Run("seed", func(t *testing.T) {
			t.Parallel()
			p := cutter(t, s.addr, 15, rand.Uint64())
			c, got := s.clientFor(t, p.url(), quick)
			v := converse(t, c)
			v.answer = func(ask *protocol.PermissionRequested) *protocol.PermissionOutcome {
				s.insist(t, c, v.id, ask.RequestID)
				return nil
			}
			for range 3 {
				v.run(script, s.mock(), nil).want(protocol.StopEndTurn)
			}
			same(t, v.id, 3, got, s.witness)
			t.Logf("cut %d times", p.count())
			if p.count() < 8 {
				t.Errorf("cut only %d times", p.count())
			}
		})
	}
}

// TestCutAtTheEnd cuts a client off right before the end of a turn, after which nothing more comes that would tell it of the loss.
func TestCutAtTheEnd(t *testing.T) {
	t.Parallel()
	s := newWorld(t, "").serve()
	p := cutter(t, s.addr, 0, 0)
	c, got := s.clientAt(p.url(), quick)
	v := converse(t, c)
	turn := v.start("say one\nask Bash {\"command\":\"ls\"} -> a.txt", s.mock())
	var ask protocol.RequestID
	got.until(t, v.id, "permission", func(e protocol.Event) bool {
		if r, ok := e.(*protocol.PermissionRequested); ok {
			ask = r.RequestID
		}
		return ask != ""
	})
	other, _ := s.client()
	p.hold()
	s.insist(t, other, v.id, ask) // the rest of the turn falls into the hole
	s.witness.ended(t, v.id, 1)
	p.release()
	if end, err := turn.Result(t.Context()); err != nil || end.StopReason != protocol.StopEndTurn {
		t.Errorf("%+v, %v", end, err)
	}
	same(t, v.id, 1, got, s.witness)
}

// TestTwoClients: whoever listens is told the same, whoever asked.
func TestTwoClients(t *testing.T) {
	t.Parallel()
	s := newWorld(t, "").serve()
	c, a := s.client()
	_, b := s.client()
	v := converse(t, c)
	v.run("think hm\nask Bash {\"command\":\"ls\"} -> a.txt\nburst 500\nsay done", s.mock(), nil).want(protocol.StopEndTurn)
	v.run("say again", s.mock(), nil).want(protocol.StopEndTurn)
	same(t, v.id, 2, a, s.witness)
	same(t, v.id, 2, b, s.witness)
}
