package codex

import (
	"encoding/json"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// An execRun translates the lines of one `codex exec`. It stands on the app-server's translator, for the items are the same under other names.
type execRun struct {
	t      *translator
	prefix string // of keys, for item ids begin anew in each run
	client string // the thread that the client asked to resume; "" when it did not

	thread string
	usage  *tokenCount
	end    *harness.TurnEnd // what the run came to, once it is told
}

func newExecRun(prefix, model string) *execRun {
	x := &execRun{t: newTranslator(), prefix: prefix}
	x.t.begun("", model, true)
	x.t.turn.active, x.t.turn.begun = true, true
	return x
}

// execLine is a line of `codex exec --json`.
type execLine struct {
	Type     string          `json:"type"`
	ThreadID string          `json:"thread_id"`
	Item     json.RawMessage `json:"item"`
	Message  string          `json:"message"`
	Error    turnError       `json:"error"`
	Usage    execUsage       `json:"usage"`
}

// execUsage is a thread's total, the turn's share included.
type execUsage struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens"`
	Output     int64 `json:"output_tokens"`
	Reasoning  int64 `json:"reasoning_output_tokens"`
}

// line takes one line. It never fails: what it does not understand, it leaves to raw.
func (x *execRun) line(b []byte) {
	if !json.Valid(b) {
		x.t.strange("line", "not JSON")
		return
	}
	if x.t.raw {
		x.t.emit(harness.Raw{Data: x.t.redact.Bytes(b)})
	}
	decode(x.t, b, func(_ *translator, l *execLine) { x.handle(l) })
}

func (x *execRun) handle(l *execLine) {
	switch l.Type {
	case "thread.started":
		x.thread = l.ThreadID
		e := harness.SessionStarted{NativeSessionID: l.ThreadID, Model: x.t.model}
		if x.client != "" {
			// An id that is none, codex takes for nothing, and starts a new thread without a word.
			resumed := l.ThreadID == x.client
			e.Resumed = &resumed
		}
		x.t.emit(e)
	case "item.started", "item.updated", "item.completed":
		x.item(l.Type, l.Item)
	case "turn.completed":
		x.usage = &tokenCount{Input: l.Usage.Input, Cached: l.Usage.Cached, CacheWrite: l.Usage.CacheWrite, Output: l.Usage.Output, Reasoning: l.Usage.Reasoning}
		x.end = &harness.TurnEnd{StopReason: protocol.StopEndTurn, FinishReason: "completed"}
	case "turn.failed":
		end := failedEnd(&l.Error, x.t.redact)
		x.end = &end
	case "error": // also before an attempt that works: only turn.failed and the exit status tell a failure
		x.t.failed(&errorParams{Error: turnError{Message: l.Message}, WillRetry: strings.HasPrefix(l.Message, "Reconnecting...")})
	case "turn.started":
	default:
		x.t.strange("line", l.Type)
	}
}

// execTypes are the app-server's names of exec's items.
var execTypes = map[string]string{
	"agent_message": "agentMessage", "reasoning": "reasoning", "command_execution": toolCommand, "file_change": toolPatch,
	"mcp_tool_call": "mcpToolCall", "web_search": toolSearch, "collab_tool_call": "collabAgentToolCall",
}

// execItem is an item as exec names its fields.
type execItem struct {
	ID                string          `json:"id"`
	Type              string          `json:"type"`
	Text              string          `json:"text"`
	Message           string          `json:"message"`
	AggregatedOutput  *string         `json:"aggregated_output"`
	ExitCode          *int            `json:"exit_code"`
	ReceiverThreadIDs []string        `json:"receiver_thread_ids"`
	AgentsStates      json.RawMessage `json:"agents_states"`
	Items             json.RawMessage `json:"items"`
}

func (x *execRun) item(event string, raw json.RawMessage) {
	var own execItem
	if err := json.Unmarshal(raw, &own); err != nil {
		x.t.strange("item field", err.Error())
	}
	it := x.t.item(raw) // fields of one word have the same name
	it.ID = x.prefix + own.ID
	if name, known := execTypes[own.Type]; known {
		it.Type = name
	}
	it.Output, it.ExitCode, it.Receivers, it.Agents = own.AggregatedOutput, own.ExitCode, own.ReceiverThreadIDs, own.AgentsStates
	if structured := jsonscan.Get(it.Result, "structured_content"); !jsonscan.IsNull(structured) {
		it.Result = encode(object{"content": jsonscan.Get(it.Result, "content"), "structuredContent": json.RawMessage(structured)})
	}
	x.t.progress()
	main := x.t.threadOf("")
	switch done := event == "item.completed"; {
	case own.Type == "error":
		x.t.emit(harness.Notice{Kind: protocol.NoticeWarning, Message: x.t.redact.Text(own.Message)})
	case own.Type == "todo_list":
		x.t.show(main, true, harness.PartUpdate{Key: it.ID, Part: planPart(it.ID, encode(object{"plan": own.Items}), done)})
	case own.Type == "agent_message" || own.Type == "reasoning":
		if done && own.Text != "" {
			x.text(main, it.ID, own)
		}
	case !done:
		if x.t.calls[it.ID] == nil {
			x.t.callStarted(main, "", it)
		}
	default:
		it.Receivers = nil // what sub-agents do, exec does not tell: the call is over
		x.t.callCompleted(main, "", it)
	}
}

// text shows a whole text or thought, with one delta, as those who follow deltas only would miss it.
func (x *execRun) text(main *thread, key string, own execItem) {
	d := harness.Delta{Key: key, Type: protocol.DeltaText, Text: own.Text}
	part := protocol.Part(&protocol.TextPart{Text: own.Text, State: protocol.PartDone})
	if own.Type == "reasoning" {
		d.Type, part = protocol.DeltaReasoning, &protocol.ReasoningPart{Text: own.Text, State: protocol.PartDone}
	}
	x.t.show(main, false, d)
	x.t.emit(harness.PartUpdate{Key: key, Part: part})
}

// finish ends the turn. When codex did not say how, otherwise stands.
func (x *execRun) finish(otherwise harness.TurnEnd, used *tokenCount) {
	end := otherwise
	if x.end != nil && otherwise.StopReason != protocol.StopCancelled {
		end = *x.end
	}
	// Commands that outlive the turn die with codex.
	x.t.settleAll()
	if used != nil {
		x.t.threadOf("").acct.update(*used, *used)
	}
	x.t.endTurn(end)
}
