package acp

import (
	"encoding/json"
	"regexp"
	"strconv"

	"agentserver/harness"
	"agentserver/internal/transport"
	"agentserver/protocol"
)

func itoa(n int) string { return strconv.Itoa(n) }

// A turn is the engine's turn, from Send to TurnEnd.
type turn struct {
	number      int
	active      bool
	answer      *harness.TurnEnd // the response to the prompt came: the end waits for what trails it
	patient     bool             // it waits for tool calls that are not over
	cancelled   bool             // by us: that wins over whatever the agent answers
	confirmed   chan struct{}    // closed when the turn has ended
	said        bool             // something was shown
	systemError bool             // codex: the model failed, whatever the stop reason
	costBefore  *protocol.Cost
	tokens      *protocol.Tokens // of the messages, where the agent tells them there
	plan        string           // key of the plan's part
	entries     json.RawMessage
}

// begin starts the engine's turn.
func (t *translator) begin() {
	t.closeText()
	t.confirm()
	t.opened = false
	t.text.after, t.text.last = false, ""
	t.turn = turn{number: t.turn.number + 1, active: true, costBefore: t.cost}
	t.started()
}

// started reports the session, once a turn.
func (t *translator) started() {
	e := harness.SessionStarted{NativeSessionID: t.session, Resumed: t.resumed}
	if model, ok := t.settings.find(kindModel); ok {
		e.Model = model.current
	}
	t.emit(e)
}

// takeBack forgets a turn whose prompt could not be sent.
func (t *translator) takeBack() {
	t.confirm()
	t.turn = turn{number: t.turn.number}
}

// answered takes the response to the prompt. The turn ends when what trails it has come; at once when it was cancelled or failed.
func (t *translator) answered(raw json.RawMessage, failure *transport.Error) {
	if !t.turn.active || t.turn.answer != nil {
		return
	}
	var end harness.TurnEnd
	if failure != nil {
		end = t.failed(failure)
	} else {
		end = t.succeeded(raw)
	}
	if t.turn.cancelled || end.StopReason == protocol.StopError && failure != nil {
		t.endTurn(end)
		return
	}
	t.turn.answer, t.rearm = &end, true
}

func (t *translator) failed(e *transport.Error) harness.TurnEnd {
	text := t.redact.Text(errorText(e))
	category := classify(e.Code, text)
	switch e.Code {
	case codeAuthRequired:
		category = protocol.CategoryAuth
		t.badAuth = true
		text += ": " + authAdvice
	case codeNotFound, codeInvalidParams:
		category = protocol.CategoryInvalidRequest
	}
	if category == protocol.CategoryAuth {
		t.badAuth = true
	}
	return harness.TurnEnd{StopReason: protocol.StopError, Error: &protocol.TurnError{Category: category, Message: t.name + ": " + orElse(text, "the turn failed")}}
}

// statusInText finds the HTTP status in what an agent passes on of its provider's error.
var statusInText = regexp.MustCompile(`(?:^|Error: |status(?:Code)?:? )([45]\d\d)\b`)

// classify sorts an error. Some agents use the provider's HTTP status as its code, others put it into the text.
func classify(code int64, text string) protocol.ErrorCategory {
	status := 0
	if code >= 400 && code < 600 {
		status = int(code)
	} else if m := statusInText.FindStringSubmatch(text); m != nil {
		status, _ = strconv.Atoi(m[1])
	}
	return protocol.Classify(status, text)
}

var stopReasons = map[string]protocol.StopReason{
	"end_turn": protocol.StopEndTurn, "max_tokens": protocol.StopMaxTokens, "max_turn_requests": protocol.StopMaxTurnRequests,
	"refusal": protocol.StopRefusal, "cancelled": protocol.StopCancelled,
}

func (t *translator) succeeded(raw json.RawMessage) harness.TurnEnd {
	var r promptResult
	lenient(raw, &r)
	end := harness.TurnEnd{StopReason: stopReasons[r.StopReason], FinishReason: r.StopReason, Tokens: t.turn.tokens}
	if end.StopReason == "" {
		end.StopReason = protocol.StopEndTurn // an unknown one is kept in FinishReason
	}
	switch {
	case r.Usage != nil:
		end.Tokens = r.Usage.tokens()
	case r.Meta.Quota.Tokens != nil:
		end.Tokens = r.Meta.Quota.Tokens.tokens()
	}
	return end
}

// judge finds the failures that an agent hides behind end_turn.
func (t *translator) judge(end *harness.TurnEnd) {
	if end.StopReason != protocol.StopEndTurn {
		return
	}
	switch {
	case t.turn.systemError:
		text := t.redact.Text(orElse(t.lastChunk(), "the model failed"))
		end.StopReason = protocol.StopError
		end.Error = &protocol.TurnError{Category: protocol.Classify(0, text), Message: t.name + ": " + text}
	case !t.turn.said:
		tail := t.stderr()
		text := t.name + " ended the turn without a word, which mostly means that its model could not be reached: check the agent's own login and model settings"
		if tail != "" {
			text += "; its last lines: " + tail
		}
		end.StopReason = protocol.StopError
		end.Error = &protocol.TurnError{Category: protocol.Classify(0, tail), Message: text}
	}
}

// tick is called when the time that rearm asked for, or a silence outside of turns, is over.
func (t *translator) tick() {
	switch {
	case t.quiet():
		t.endTurn(harness.TurnEnd{StopReason: protocol.StopEndTurn})
	case t.turn.answer == nil:
	case !t.turn.patient && t.waitsForTools():
		t.turn.patient, t.rearm = true, true
	default:
		t.endTurn(*t.turn.answer)
	}
}

// waitsForTools reports whether calls run whose end may still be told.
func (t *translator) waitsForTools() bool {
	for _, c := range t.unfinished() {
		if !c.refused && !t.turn.cancelled {
			return true
		}
	}
	return false
}

// settledEarly ends a turn that only waited for its calls, once they are over.
func (t *translator) settledEarly() {
	if t.turn.active && t.turn.answer != nil && t.turn.patient && !t.waitsForTools() {
		t.endTurn(*t.turn.answer)
	}
}

// endTurn ends the turn: the engine's, or one that the agent opened.
func (t *translator) endTurn(end harness.TurnEnd) {
	tn := &t.turn
	cancelled := tn.cancelled || end.StopReason == protocol.StopCancelled
	if tn.cancelled {
		end.StopReason, end.Error = protocol.StopCancelled, nil
	} else if tn.active {
		t.judge(&end)
	}
	t.withdrawAll()
	t.closeText()
	t.closeTools(cancelled)
	t.closePlan()
	end.Cost = costSince(tn.costBefore, t.cost)
	if tn.costBefore == nil && t.resumed != nil && *t.resumed {
		end.Cost = nil // the total may hold what the session has cost before
	}
	end.Meta = t.meta()
	t.emit(end)
	t.confirm()
	t.turn = turn{number: tn.number, costBefore: t.cost}
	t.opened = false
}

func (t *translator) confirm() {
	if t.turn.confirmed != nil {
		close(t.turn.confirmed)
		t.turn.confirmed = nil
	}
}

// costSince is what a turn cost, from the session's running total. It is nil when the agent tells none.
func costSince(before, now *protocol.Cost) *protocol.Cost {
	switch {
	case now == nil || now == before:
		return nil
	case before == nil || before.Currency != now.Currency || now.Amount < before.Amount:
		return now
	}
	return &protocol.Cost{Amount: now.Amount - before.Amount, Currency: now.Currency}
}

// busy reports whether there is something to interrupt.
func (t *translator) busy() bool { return t.turn.active || t.opened }

// interrupt stops what runs. The channel is closed when the turn has ended.
func (t *translator) interrupt() <-chan struct{} {
	tn := &t.turn
	tn.cancelled = true
	if tn.confirmed == nil {
		tn.confirmed = make(chan struct{})
	}
	confirmed := tn.confirmed
	if tn.answer == nil {
		t.out = append(t.out, t.sessionCancel)
	}
	t.withdrawAll()
	switch {
	case tn.answer != nil:
		t.endTurn(*tn.answer)
	case !tn.active:
		t.endTurn(harness.TurnEnd{StopReason: protocol.StopCancelled})
	}
	return confirmed
}

// quiet reports whether a turn is open that the agent's own words opened, and that nothing will end.
func (t *translator) quiet() bool { return t.opened && !t.turn.active && len(t.perms) == 0 }

// tokens unfolds the counts; nil when all are zero. Agents differ in whether the input holds the cached tokens and the output the thoughts: the total tells.
func (c *tokenCount) tokens() *protocol.Tokens {
	in, out := max(c.Input, c.SnakeInput, 0), max(c.Output, c.SnakeOutput, 0)
	read, write, thought := max(c.CachedRead, 0), max(c.CachedWrite, 0), max(c.Thought, 0)
	switch cached := read + write; {
	case c.Total == 0:
	case c.Total == in+out && cached <= in:
		in -= cached // the input holds them
	case c.Total == in+out+thought && thought > 0:
		out += thought
		if cached <= in {
			in -= cached
		}
	case c.Total == in+out+cached+thought && thought > 0:
		out += thought
	}
	if in+out+read+write+thought == 0 {
		return nil
	}
	tokens := &protocol.Tokens{Input: in, Output: out, Reasoning: thought}
	if read+write > 0 {
		tokens.Cache = &protocol.CacheTokens{Read: read, Write: write}
	}
	return tokens
}

// addTokens adds up what an agent (qwen) tells with each message.
func (t *translator) addTokens(u *update) {
	var meta struct {
		Usage *tokenCount `json:"usage"`
	}
	if len(u.Meta) == 0 || !lenient(u.Meta, &meta) || meta.Usage == nil {
		return
	}
	more, sum := meta.Usage.tokens(), t.turn.tokens
	if more == nil {
		return
	}
	if sum == nil {
		t.turn.tokens = more
		return
	}
	sum.Input += more.Input
	sum.Output += more.Output
	sum.Reasoning += more.Reasoning
	if more.Cache != nil {
		if sum.Cache == nil {
			sum.Cache = &protocol.CacheTokens{}
		}
		sum.Cache.Read += more.Cache.Read
		sum.Cache.Write += more.Cache.Write
	}
}
