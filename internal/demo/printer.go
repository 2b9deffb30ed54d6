package main

import (
	"fmt"
	"strings"
	"sync"

	"agentserver/protocol"
	"agentserver/protocol/streamcheck"
)

// A printer shows the stream: one line an event, with its number. Runs of deltas are joined to one line.
type printer struct {
	check *streamcheck.Checker

	mu     sync.Mutex // guards what follows
	broken []streamcheck.Violation
	count  int
	first  uint64 // of the run of deltas
	last   uint64
	delta  string
	ended  map[protocol.TurnID]bool
	change *sync.Cond
}

func newPrinter() *printer {
	p := &printer{check: streamcheck.New(), ended: map[protocol.TurnID]bool{}}
	p.change = sync.NewCond(&p.mu)
	return p
}

func (p *printer) envelope(env protocol.Envelope) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = append(p.broken, p.check.Add(env)...)
	p.count++
	if d, ok := env.Event.(*protocol.MessagePartDelta); ok {
		if p.first == 0 {
			p.first = env.Seq
		}
		p.last = env.Seq
		p.delta += deltaText(d)
		return
	}
	p.flush()
	fmt.Printf("  %7d  %-20s %s\n", env.Seq, env.Event.EventType(), describe(env.Event))
	if e, ok := env.Event.(*protocol.TurnEnded); ok {
		p.ended[e.TurnID] = true
		p.change.Broadcast()
	}
}

// flush shows the run of deltas that has ended.
func (p *printer) flush() {
	if p.first == 0 {
		return
	}
	numbers := fmt.Sprint(p.first)
	if p.last > p.first {
		numbers = fmt.Sprintf("%d-%d", p.first, p.last)
	}
	fmt.Printf("  %7s  %-20s %s\n", numbers, protocol.EventMessagePartDelta, short(p.delta))
	p.first, p.delta = 0, ""
}

// wait returns when the turn's end has been shown.
func (p *printer) wait(turn protocol.TurnID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.ended[turn] {
		p.change.Wait()
	}
}

func (p *printer) summary() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	violations := append(p.broken, p.check.Finish()...)
	say("%d events, numbered without a hole; %d violations of the contract", p.count, len(violations))
	if len(violations) > 0 {
		return fmt.Errorf("%v", violations[0])
	}
	return nil
}

func describe(e protocol.Event) string {
	switch e := e.(type) {
	case *protocol.SessionCreated:
		return fmt.Sprintf("%s %s", e.Harness, e.Model)
	case *protocol.MessageStarted:
		return fmt.Sprintf("%s, outputIndex %d", e.Role, e.OutputIndex)
	case *protocol.MessagePart:
		return fmt.Sprintf("%d/%d %s", e.OutputIndex, e.PartIndex, part(e.Part))
	case *protocol.PermissionRequested:
		return short(e.Title)
	case *protocol.PermissionResolved:
		return fmt.Sprintf("%s %s", e.Outcome.Outcome, e.Outcome.OptionID)
	case *protocol.SessionUsage:
		if e.Size == 0 {
			return fmt.Sprintf("%d tokens", e.Used)
		}
		return fmt.Sprintf("%d of %d tokens", e.Used, e.Size)
	case *protocol.SessionNotice:
		return short(e.Message)
	case *protocol.ErrorEvent:
		return fmt.Sprintf("%s: %s", e.Category, short(e.Message))
	case *protocol.TurnEnded:
		return ended(e)
	}
	return ""
}

func part(p protocol.Part) string {
	switch p := p.(type) {
	case *protocol.TextPart:
		return "text " + string(p.State) + " " + short(p.Text)
	case *protocol.ReasoningPart:
		return "reasoning " + string(p.State) + " " + short(p.Text)
	case *protocol.ToolPart:
		out := fmt.Sprintf("tool %s %s", p.ToolName, p.State.Status())
		if s, ok := p.State.(*protocol.ToolCompleted); ok {
			out += " " + short(s.Output)
		}
		return out
	}
	return string(p.PartType())
}

func ended(e *protocol.TurnEnded) string {
	out := string(e.StopReason)
	if e.Tokens != nil {
		out += fmt.Sprintf(", %d tokens in, %d out", e.Tokens.Input, e.Tokens.Output)
	}
	if e.Cost != nil {
		out += fmt.Sprintf(", %.4f %s", e.Cost.Amount, e.Cost.Currency)
	}
	if e.Error != nil {
		out += ": " + short(e.Error.Message)
	}
	return out
}

func deltaText(d *protocol.MessagePartDelta) string {
	switch d := d.Delta.(type) {
	case *protocol.TextDelta:
		return d.Text
	case *protocol.ReasoningDelta:
		return d.Text
	case *protocol.ToolInputDelta:
		return d.Input
	}
	return ""
}

// short is the beginning of a text, on one line.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 70 {
		s = string(r[:70]) + "…"
	}
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}
