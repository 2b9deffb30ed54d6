package claude

import (
	"slices"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
)

// MetaStructuredOutput holds, in the `_meta` of turn.ended, the answer of a session that was asked for structured output.
const MetaStructuredOutput = "claude-code/structuredOutput"

// MetaMessageID holds, in the `_meta` of turn.ended, the CLI's id of the turn's last message: config.resumeSessionAt goes on from there.
const MetaMessageID = "claude-code/messageId"

// result ends a turn of the CLI, and the engine's if it is its.
func (t *translator) result(l *resultLine) {
	t.running = false
	t.dropUnfinished()
	t.main = nil
	t.acct.result(l)
	if l.SessionID != "" && t.native != "" {
		t.native = l.SessionID
	}
	end := t.turnEnd(l)
	t.failure = failure{}
	if t.native == "" && l.IsError && end.Error != nil {
		t.turn.startError = end.Error.Message // it ends before it has begun: a --resume that leads nowhere
	}
	t.unsaid(l)
	switch {
	case !t.turn.active:
		if t.opened {
			t.endTurn(end)
		}
	case !t.isOurs(l):
		t.turn.began, t.turn.stirred, t.turn.interruptID = false, false, "" // what began was another's
		t.sendHeld()
	case len(t.turn.steers) > 0 && !t.turn.interrupted:
		t.turn.held = &end // a message of this turn still waits in the CLI's queue: another result follows
	default:
		t.endTurn(end)
	}
}

// unsaid shows the text of a result that no message has shown: a command of the CLI, or a hook, answered in the model's place.
func (t *translator) unsaid(l *resultLine) {
	if t.turn.said || l.IsError || l.Result == "" || !t.turn.active || !t.isOurs(l) {
		return
	}
	m := t.newMessage("", "")
	t.snapshot(m, "", "text", &protocol.TextPart{Text: l.Result, State: protocol.PartDone})
}

// isOurs reports whether a result answers the message of the engine's turn, and not something that the CLI began by itself.
func (t *translator) isOurs(l *resultLine) bool {
	switch {
	case !t.turn.sent:
		return false
	case t.turn.acked || slices.Contains(l.UserUUIDs, t.turn.uuid):
		return true
	case len(l.UserUUIDs) > 0:
		return false
	}
	return l.Origin.Kind == "" || l.Origin.Kind == "human" || l.Origin.Kind == "user"
}

// turnEnd reads a result. is_error decides, not the subtype: a failed call of the model has the subtype success.
func (t *translator) turnEnd(l *resultLine) harness.TurnEnd {
	end := harness.TurnEnd{FinishReason: l.StopReason}
	if end.FinishReason == "" {
		end.FinishReason = l.TerminalReason
	}
	if len(l.StructuredOutput) > 0 {
		end.Meta = end.Meta.With(MetaStructuredOutput, l.StructuredOutput)
	}
	aborted := strings.HasPrefix(l.TerminalReason, "aborted_")
	switch {
	case t.turn.interrupted && (aborted || l.Subtype == "error_during_execution"):
		end.StopReason = protocol.StopCancelled
	case l.IsError:
		t.failed(&end, l, aborted)
	default:
		end.StopReason = stopReason(l.StopReason)
	}
	return end
}

func stopReason(word string) protocol.StopReason {
	switch word {
	case "max_tokens":
		return protocol.StopMaxTokens
	case "refusal":
		return protocol.StopRefusal
	}
	return protocol.StopEndTurn
}

// failed fills in the end of a turn that went wrong.
func (t *translator) failed(end *harness.TurnEnd, l *resultLine, aborted bool) {
	message := t.redact.Text(resultText(l))
	switch {
	case l.Subtype == "error_max_turns":
		end.StopReason, end.FinishReason = protocol.StopMaxTurnRequests, l.Subtype
		return
	case l.StopReason == "refusal":
		end.StopReason = protocol.StopRefusal
		return
	case t.failure.kind == "max_output_tokens" && !strings.Contains(strings.ToLower(message), "context window"):
		end.StopReason, end.FinishReason = protocol.StopMaxTokens, t.failure.kind
		return
	}
	end.StopReason = protocol.StopError
	end.Error = t.turnError(l, message, aborted)
	t.badAuth = t.badAuth || end.Error.Category == protocol.CategoryAuth
}

func (t *translator) turnError(l *resultLine, message string, aborted bool) *protocol.TurnError {
	status := l.APIErrorStatus
	if status == 0 {
		status = t.failure.status
	}
	switch {
	case l.Subtype == "error_max_budget_usd":
		return &protocol.TurnError{Category: protocol.CategoryUsageLimit, Message: withHint(message, "the budget that claude was started with is spent: start a new session")}
	case l.TerminalReason == "prompt_too_long":
		return &protocol.TurnError{Category: protocol.CategoryContextLimit, Message: withHint(message, hint(protocol.CategoryContextLimit, "", message))}
	case aborted:
		return &protocol.TurnError{Category: protocol.CategoryAbort, Message: "claude stopped the turn by itself (" + l.TerminalReason + "): send the message again"}
	case l.Subtype == "error_during_execution" && message == "":
		return &protocol.TurnError{Category: protocol.CategoryInternal, Message: "claude failed in the middle of the turn and did not say why: send the message again"}
	}
	category := categoryOf(t.failure.kind, status, message)
	return &protocol.TurnError{Category: category, Message: withHint(message, hint(category, t.failure.kind, message))}
}

// resultText is what the result says to a person. Lines that are meant for the CLI's makers are left out.
func resultText(l *resultLine) string {
	texts := []string{l.Result}
	if l.Result == "" {
		texts = l.Errors
	}
	texts = slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" || strings.HasPrefix(s, "[ede_diagnostic]") })
	text := strings.Join(texts, "; ")
	if text == "" && l.Subtype != "error_during_execution" {
		text = "claude ended the turn with " + l.Subtype
	}
	return text
}
