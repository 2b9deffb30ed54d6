package claude

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A task is work that the CLI has registered: a sub-agent, or a command that takes long. Most end before their turn.
type task struct{ toolID string }

// systemLine handles the system lines. Most of them are for display in the CLI's own terminal.
func (t *translator) systemLine(b []byte) {
	switch sub := text(jsonscan.Get(b, "subtype")); sub {
	case "thinking_tokens", "task_progress", "background_tasks_changed", "hook_started", "hook_progress", "hook_response", "notification", "informational",
		"local_command_output", "commands_changed", "files_persisted", "elicitation_complete", "turn_duration", "post_turn_summary", "task_summary", "memory_recall":
	default:
		handle, ok := systemLines[sub]
		if !ok {
			t.strange("system line", sub)
			return
		}
		decode(t, b, handle)
	}
}

var systemLines map[string]func(*translator, *systemLine)

func init() { // a literal would refer to itself through decode
	systemLines = map[string]func(*translator, *systemLine){
		"init":                      (*translator).started,
		"status":                    (*translator).status,
		"api_retry":                 (*translator).retry,
		"compact_boundary":          (*translator).compacted,
		"permission_denied":         (*translator).denied,
		"task_started":              (*translator).taskStarted,
		"task_updated":              func(*translator, *systemLine) {}, // task_notification says the same
		"task_notification":         (*translator).taskEnded,
		"session_state_changed":     (*translator).stateChanged,
		"model_refusal_no_fallback": (*translator).refused,
		"model_refusal_fallback":    (*translator).fellBack,
		"model_fallback":            (*translator).fellBack,
	}
}

// status reports compactions, and a new permission mode.
func (t *translator) status(l *systemLine) {
	if l.PermissionMode != "" {
		t.mode = l.PermissionMode
	}
	t.compacting(l)
}

// retry tells of a failed API call that the CLI makes again by itself: by default ten times, which takes about three minutes.
func (t *translator) retry(l *systemLine) {
	word := text(l.Error)
	what := strings.ReplaceAll(word, "_", " ")
	if l.ErrorStatus != 0 {
		what = strings.TrimSpace(fmt.Sprintf("%d %s", l.ErrorStatus, what))
	}
	if what == "" || what == "unknown" {
		what = "no connection"
	}
	delay := (time.Duration(l.RetryDelayMS) * time.Millisecond).Round(100 * time.Millisecond)
	message := fmt.Sprintf("the call of the model failed (%s); attempt %d of %d follows in %s", t.redact.Text(what), l.Attempt, l.MaxRetries, delay)
	category := categoryOf(word, l.ErrorStatus, what)
	if l.ErrorStatus == 0 && category == protocol.CategoryInternal {
		category = protocol.CategoryNetwork
	}
	t.emit(harness.Failure{Category: category, Message: message})
	t.emit(harness.Notice{Kind: protocol.NoticeRetry, Message: message, Progress: &protocol.Progress{Done: l.Attempt, Total: l.MaxRetries, Unit: "attempts"}})
}

// denied tells of a call that was refused without asking anybody. The call's own result says so to the model.
func (t *translator) denied(l *systemLine) {
	reason := l.DecisionReason
	if reason == "" {
		reason = text(l.Message)
	}
	message := l.ToolName + " was denied by claude itself"
	if reason != "" {
		message += ": " + firstLine(reason)
	}
	t.emit(harness.Notice{Kind: protocol.NoticeWarning, Message: t.redact.Text(message)})
}

func (t *translator) refused(l *systemLine) {
	if l.Explanation != "" {
		t.emit(harness.Notice{Kind: protocol.NoticeWarning, Message: "the model refused: " + t.redact.Text(l.Explanation)})
	}
}

func (t *translator) fellBack(l *systemLine) {
	message := "another model answers"
	if l.FallbackModel != "" {
		message = l.FallbackModel + " answers in place of " + l.OriginalModel
	}
	t.emit(harness.Notice{Kind: protocol.NoticeWarning, Message: message})
}

func (t *translator) rateLimit(l *rateLimitLine) {
	info := l.Info
	if info.Status == "allowed" || info.Status == "" {
		return
	}
	what := strings.ReplaceAll(info.Type, "_", " ")
	if what != "" {
		what += " "
	}
	message := "the " + what + "limit of the subscription is near"
	if info.Status == "rejected" {
		message = "the " + what + "limit of the subscription is reached"
	}
	if info.Utilization != nil {
		message += fmt.Sprintf(" (%.0f %% used)", *info.Utilization*100)
	}
	if info.ResetsAt > 0 {
		message += "; it is reset at " + time.Unix(info.ResetsAt, 0).UTC().Format("2006-01-02 15:04 UTC")
	}
	t.emit(harness.Notice{Kind: protocol.NoticeRateLimit, Message: message})
}

// maxTasks bounds what is remembered of a CLI that forgets to end its tasks.
const maxTasks = 10_000

func (t *translator) taskStarted(l *systemLine) {
	if l.TaskID == "" || len(t.tasks) >= maxTasks {
		return
	}
	t.tasks[l.TaskID] = &task{toolID: l.ToolUseID}
	call := t.tools[l.ToolUseID]
	if l.TaskType == "local_agent" && call != nil && call.part.Subagent != nil {
		agent := *call.part.Subagent
		agent.AgentID = l.TaskID
		if agent.Type == "" {
			agent.Type = l.SubagentType
		}
		call.part.Subagent = &agent
		if call.running {
			t.update(call, &protocol.ToolInProgress{Input: call.input})
		}
	}
}

// launched handles the result of a call that has only been started. Its part stays open until the task ends.
func (t *translator) launched(call *tool, agentID string) {
	call.async = true
	if call.part.Subagent != nil && call.part.Subagent.AgentID != agentID && agentID != "" {
		agent := *call.part.Subagent
		agent.AgentID = agentID
		call.part.Subagent = &agent
	}
	t.update(call, &protocol.ToolInProgress{Input: call.input})
}

// taskEnded ends the part of a background task, and what it left open.
func (t *translator) taskEnded(l *systemLine) {
	delete(t.tasks, l.TaskID)
	call := t.tools[l.ToolUseID]
	if call == nil || !call.async {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(t.tools)) {
		if child := t.tools[id]; child.parent == l.ToolUseID {
			t.endTool(child, &protocol.ToolCancelled{Input: inputOf(child)})
		}
	}
	summary := l.Summary
	switch l.Status {
	case "completed":
		t.endTool(call, &protocol.ToolCompleted{Input: call.input, Output: summary})
	case "failed":
		t.endTool(call, &protocol.ToolFailed{Input: call.input, Error: summary})
	default: // stopped, killed
		t.endTool(call, &protocol.ToolCancelled{Input: call.input})
	}
}

func inputOf(c *tool) json.RawMessage {
	if len(c.input) == 0 {
		return json.RawMessage("{}")
	}
	return c.input
}

// agentTool returns the tool call under which an agent runs.
func (t *translator) agentTool(agentID string) string {
	if task := t.tasks[agentID]; task != nil && agentID != "" {
		return task.toolID
	}
	return ""
}

// inBackground reports whether a call belongs to work that outlives its turn.
func (t *translator) inBackground(c *tool) bool {
	for depth := 0; c != nil && depth < 32; depth++ {
		if c.async {
			return true
		}
		c = t.tools[c.parent]
	}
	return false
}

// background lists the calls that go on after the turn, in a stable order. The others are forgotten: nothing ends them any more.
func (t *translator) background() []string {
	var keys []string
	for id, c := range t.tools {
		if t.inBackground(c) {
			keys = append(keys, c.key)
		} else {
			delete(t.tools, id)
			delete(t.subs, id)
		}
	}
	slices.Sort(keys)
	return keys
}
