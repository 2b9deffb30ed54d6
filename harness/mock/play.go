package mock

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// A player plays one run.
type player struct {
	*session
	run *run

	parent     string // the tool call under which a sub-agent acts
	pace       time.Duration
	said       string // the last text, which is the result of a sub-agent
	words      int64
	tokens     *protocol.Tokens
	background []string // keys of tools that go on
	then       []later  // with the delay as at's distance from the zero time
}

// ended is returned by a step that ends the turn.
type ended struct{ end harness.TurnEnd }

// Error says how the turn ended.
func (e *ended) Error() string { return string(e.end.StopReason) }

var (
	errInterrupted = errors.New("interrupted")
	errGone        = errors.New("the agent is to go")
)

// playAll plays the run and returns how it ends. The error is [errGone].
func (p *player) playAll() (harness.TurnEnd, error) {
	var err error
	if p.run.input != nil {
		err = p.begin()
	} else {
		err = p.steps(p.run.steps)
	}
	if err == nil {
		err = p.steered()
	}
	end := harness.TurnEnd{StopReason: protocol.StopEndTurn, FinishReason: "stop"}
	var e *ended
	switch {
	case errors.Is(err, errGone):
		return end, errGone
	case errors.Is(err, errInterrupted):
		end = harness.TurnEnd{StopReason: protocol.StopCancelled, FinishReason: "interrupted"}
	case errors.As(err, &e):
		end = e.end
	}
	end.Background, end.Own = p.background, p.run.input == nil
	end.Tokens = p.spent()
	end.Cost = cost(end.Tokens)
	return end, nil
}

// begin plays the input of a turn.
func (p *player) begin() error {
	prompt := text(p.run.input)
	p.memory.add(prompt)
	if err := p.emit(p.started()); err != nil {
		return err
	}
	return p.input(p.run.input)
}

func (p *player) started() harness.SessionStarted {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := harness.SessionStarted{NativeSessionID: p.memory.native, Model: firstOf(p.run.config.Model, "mock-1"), Resumed: p.resumed}
	p.resumed = nil
	return e
}

// input plays the script in an input, or answers it.
func (p *player) input(in protocol.Input) error {
	prompt := text(in)
	if !isScript(prompt) {
		return say("You said: " + describe(in))(p)
	}
	steps, err := parse(prompt)
	if err != nil {
		return &ended{harness.TurnEnd{StopReason: protocol.StopError, Error: &protocol.TurnError{Category: protocol.CategoryInvalidRequest,
			Message: "the script cannot be played: " + err.Error()}}}
	}
	return p.steps(steps)
}

// describe is an input in words.
func describe(in protocol.Input) string {
	var parts []string
	for _, item := range in {
		if item.Type == protocol.PartText {
			parts = append(parts, item.Text)
		} else {
			parts = append(parts, fmt.Sprintf("[%s %s]", item.Type, item.MimeType))
		}
	}
	return strings.Join(parts, " ")
}

func (p *player) steps(all []step) error {
	for _, do := range all {
		if err := p.steered(); err != nil {
			return err
		}
		if err := do(p); err != nil {
			return err
		}
	}
	return p.check()
}

// steered plays what came by steering.
func (p *player) steered() error {
	for {
		p.run.mu.Lock()
		var in protocol.Input
		if len(p.run.extra) > 0 {
			in, p.run.extra = p.run.extra[0], p.run.extra[1:]
		}
		p.run.mu.Unlock()
		if in == nil {
			return p.check()
		}
		if err := p.input(in); err != nil {
			return err
		}
	}
}

// check reports that the run is to stop.
func (p *player) check() error {
	select {
	case <-p.stop:
		return errGone
	default:
	}
	select {
	case <-p.run.stop:
		return errInterrupted
	default:
		return nil
	}
}

// emit hands events over, each when the one before it was received.
func (p *player) emit(all ...harness.Event) error {
	for _, e := range all {
		if err := p.check(); err != nil {
			return err
		}
		if err := p.hand(e); err != nil {
			return err
		}
	}
	return nil
}

// hand is emit for an event that an interrupt does not hold back.
func (p *player) hand(e harness.Event) error {
	select {
	case p.events <- e:
		return nil
	case <-p.stop:
		return errGone
	}
}

// wait waits, unless the run is to stop.
func (p *player) wait(d time.Duration) error {
	if d <= 0 {
		return p.check()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.run.stop:
		return errInterrupted
	case <-p.stop:
		return errGone
	}
}

func (p *player) hang() error {
	select {
	case <-p.run.stop:
		return errInterrupted
	case <-p.stop:
		return errGone
	}
}

func (p *player) await() error {
	for {
		p.run.mu.Lock()
		some := len(p.run.extra) > 0
		p.run.mu.Unlock()
		if some {
			return nil // it is played before the next line
		}
		select {
		case <-p.run.steer:
		case <-p.run.stop:
			return errInterrupted
		case <-p.stop:
			return errGone
		}
	}
}

func (p *player) ignoreInterrupt() error {
	p.run.mu.Lock()
	p.run.deaf = true
	p.run.mu.Unlock()
	return nil
}

// later returns what is to be played after the run, from now on.
func (p *player) later() []later {
	now := time.Now()
	for i := range p.then {
		p.then[i].at = now.Add(p.then[i].at.Sub(time.Time{}))
	}
	return p.then
}

func (p *player) schedule(d time.Duration, silent bool, steps ...step) {
	p.then = append(p.then, later{time.Time{}.Add(d), steps, silent})
}

// spent is what the turn's end reports.
func (p *player) spent() *protocol.Tokens {
	if p.tokens != nil {
		return p.tokens
	}
	var in int64
	if p.run.input != nil {
		in = int64(len(strings.Fields(describe(p.run.input))))
	}
	return &protocol.Tokens{Input: in, Output: p.words}
}

// cost is 3 dollars a million of input and 15 of output.
func cost(t *protocol.Tokens) *protocol.Cost {
	in := t.Input
	if t.Cache != nil {
		in += t.Cache.Read + t.Cache.Write
	}
	return protocol.USD(float64(3*in+15*t.Output) / 1e6)
}

// tellConfig says what the turn was configured with.
func (p *player) tellConfig() error {
	c := &p.run.config
	fields := []string{"cwd=" + c.Cwd, "model=" + firstOf(c.Model, "mock-1")}
	add := func(name, value string) {
		if value != "" {
			fields = append(fields, name+"="+value)
		}
	}
	add("thinkingLevel", string(c.ThinkingLevel))
	add("permissionMode", string(c.PermissionMode))
	add("env", strings.Join(slices.Sorted(maps.Keys(c.Env)), ","))
	if c.APIKey != "" {
		add("apiKey", "set")
	}
	if c.DisableTools {
		add("disableTools", "true")
	}
	return say(strings.Join(fields, " "))(p)
}

// recall says which prompts the conversation holds.
func (p *player) recall() error {
	earlier := p.memory.earlier()
	data, err := json.Marshal(earlier[max(len(earlier)-10, 0):])
	if err != nil {
		return err
	}
	return say(fmt.Sprintf("%d earlier prompts, the last of them %s", len(earlier), data))(p)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
