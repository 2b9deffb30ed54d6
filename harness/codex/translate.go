package codex

import (
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"strings"

	"agentserver/harness"
	"agentserver/harness/internal/redact"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A translator turns the app-server's lines into events, and the engine's wishes into lines. It is not safe for concurrent use: its session holds
// a lock. Everything that it wants done lies in events, out and answers until the session has taken it.
type translator struct {
	// Set once.
	redact redact.Redactor
	log    *slog.Logger
	// decide answers a question of codex; events carry it to the engine. It may be called from any goroutine.
	decide func(key string, d harness.Decision) error

	asks bool // somebody is there to answer
	raw  bool // yield every line as it came

	events  []harness.Event
	out     [][]byte // lines for codex
	answers []answer // to our calls

	native  string // thread id
	model   string
	resumed *bool

	turn    turn
	running string // native id of the turn that codex works on, ours or its own
	// opened says that events outside a turn of ours made the engine open one, which needs an end.
	opened bool
	ended  map[string]bool // native ids of turns that are over, bounded

	threads map[string]*thread  // by id; the main one and those of sub-agents
	calls   map[string]*call    // tool calls that are not over, by item id
	perms   map[string]*pending // questions of codex that wait for an answer
	compact map[string]bool     // compactions that run
	manual  bool                // the next compaction was asked for
	plans   int                 // numbers the plans
	awaited map[int64]string    // our calls that wait for an answer, and their methods
	lastID  int64
	unknown map[string]bool
	// waiting says that codex only waits for the network, retrying that it has told of a failed call and nothing better since.
	waiting, retrying bool
}

// An answer is what codex says to a call of ours.
type answer struct {
	id     int64
	err    error
	result json.RawMessage
}

// A thread is one conversation in the app-server: the session's, or a sub-agent's.
type thread struct {
	id     string
	parent string // the tool call that it runs under; "" for the main one
	main   bool
	turn   string // native id of the turn that runs on it
	inTool bool   // the last part shown was a tool: what the model says next is a new message
	spoke  bool   // a message was opened in this turn
	acct   accounting
}

// A call is a tool call that is not over.
type call struct {
	part   protocol.ToolPart // without its state
	input  json.RawMessage
	thread *thread
	agent  string // id of the sub-agent's thread that it runs
	turnID string
	source string
}

func newTranslator() *translator {
	return &translator{
		log: slog.New(slog.DiscardHandler), asks: true, ended: map[string]bool{}, threads: map[string]*thread{}, calls: map[string]*call{},
		perms: map[string]*pending{}, compact: map[string]bool{}, awaited: map[int64]string{}, unknown: map[string]bool{},
	}
}

func (t *translator) emit(e harness.Event) { t.events = append(t.events, e) }

// show emits an event that is shown in a message. Outside a turn it makes the engine open one.
func (t *translator) show(th *thread, tool bool, e harness.Event) {
	t.open()
	if !tool && (th.inTool || !th.spoke) {
		t.emit(harness.MessageStarted{ParentToolCallID: th.parent, Model: t.model})
	}
	th.inTool, th.spoke = tool, true
	t.emit(e)
}

func (t *translator) open() {
	if !t.turn.active {
		t.opened = true
	}
}

func (t *translator) send(line []byte) { t.out = append(t.out, line) }

// request queues a call of ours and returns its id. Its answer comes through answers.
func (t *translator) request(method string, params any) int64 {
	id, line := t.call(method, params)
	t.send(line)
	return id
}

// call makes a call of ours.
func (t *translator) call(method string, params any) (int64, []byte) {
	t.lastID++
	t.awaited[t.lastID] = method
	return t.lastID, encode(struct {
		ID     int64  `json:"id"`
		Method string `json:"method"`
		Params any    `json:"params"`
	}{t.lastID, method, params})
}

// message is a line of the app-server. Requests have an id and a method, notifications a method, answers an id.
type message struct {
	id, params, result, err []byte
	method                  string
}

// line takes one line. It never fails: what it does not understand, it leaves to raw.
func (t *translator) line(b []byte) {
	if !json.Valid(b) {
		t.strange("line", "not JSON")
		return
	}
	if t.raw {
		t.emit(harness.Raw{Data: t.redact.Bytes(b)})
	}
	var m message
	for o := jsonscan.NewObject(b); o.Next(); {
		switch {
		case o.Is("method"):
			m.method = jsonscan.String(o.Value())
		case o.Is("params"):
			m.params = o.Value()
		case o.Is("id"):
			m.id = o.Value()
		case o.Is("result"):
			m.result = o.Value()
		case o.Is("error"):
			m.err = o.Value()
		}
	}
	switch {
	case m.method == "" && m.id != nil:
		t.answered(m)
	case m.id != nil:
		t.asked(m)
	case m.method != "":
		t.notified(m)
	}
}

// callError is codex's refusal of a call. Its codes do not tell much: what counts is the text.
type callError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error is what codex said.
func (e *callError) Error() string { return e.Message }

// answered handles the answer to a call of ours. Ids that codex gives its own requests are another matter: they start at 0 too.
func (t *translator) answered(m message) {
	id, ok := jsonscan.Int(m.id)
	method := t.awaited[id]
	if !ok || method == "" {
		return
	}
	delete(t.awaited, id)
	a := answer{id: id, result: append(json.RawMessage(nil), m.result...)}
	if m.err != nil {
		e := new(callError)
		_ = json.Unmarshal(m.err, e) // an error of another shape has no text
		e.Message = t.redact.Text(e.Message)
		a.err = e
	}
	t.turnAnswer(method, a)
	t.answers = append(t.answers, a)
}

// notified handles what codex tells.
func (t *translator) notified(m message) {
	if m.method == "item/agentMessage/delta" { // by far the most frequent
		t.delta(m.params, protocol.DeltaText, "")
		return
	}
	if strings.HasPrefix(m.method, "item/") {
		t.itemNotified(m)
		return
	}
	switch m.method {
	case "turn/started":
		decode(t, m.params, (*translator).turnStarted)
	case "turn/completed":
		decode(t, m.params, (*translator).turnCompleted)
	case "turn/plan/updated":
		decode(t, m.params, (*translator).planUpdated)
	case "thread/tokenUsage/updated":
		decode(t, m.params, (*translator).usage)
	case "error":
		decode(t, m.params, (*translator).failed)
	case "serverRequest/resolved":
		t.withdraw(string(jsonscan.Get(m.params, "requestId")))
	case "warning", "configWarning", "deprecationNotice", "model/rerouted", "mcpServer/startupStatus/updated":
		t.notice(m)
	case "thread/started", "thread/status/changed", "thread/settings/updated", "thread/name/updated", "turn/diff/updated", "account/updated",
		"account/rateLimits/updated", "remoteControl/status/changed", "thread/goal/cleared", "thread/readState/changed":
	default:
		t.strange("notification", m.method)
	}
}

func (t *translator) itemNotified(m message) {
	switch m.method {
	case "item/started":
		decode(t, m.params, (*translator).itemStarted)
	case "item/completed":
		decode(t, m.params, (*translator).itemCompleted)
	case "item/plan/delta":
		t.delta(m.params, protocol.DeltaText, "")
	case "item/reasoning/summaryTextDelta":
		t.delta(m.params, protocol.DeltaReasoning, "")
	case "item/reasoning/textDelta":
		t.delta(m.params, protocol.DeltaReasoning, "")
	case "item/reasoning/summaryPartAdded":
		if n, _ := jsonscan.Int(jsonscan.Get(m.params, "summaryIndex")); n > 0 {
			t.delta(m.params, protocol.DeltaReasoning, "\n\n")
		}
	case "item/commandExecution/outputDelta", "item/commandExecution/terminalInteraction", "item/fileChange/outputDelta",
		"item/fileChange/patchUpdated", "item/mcpToolCall/progress":
		t.progress()
	default:
		t.strange("notification", m.method)
	}
}

// decode decodes b and hands it on. A field of an unexpected type is left at zero: a newer codex must not be fatal.
func decode[P any](t *translator, b []byte, handle func(*translator, *P)) {
	var p P
	if err := json.Unmarshal(b, &p); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			t.strange("params", "malformed")
			return
		}
		t.strange("field", err.Error())
	}
	handle(t, &p)
}

// strange logs what is not known, once per kind; how much is remembered is bounded.
func (t *translator) strange(what, kind string) {
	kind = t.redact.Text(kind[:min(len(kind), 100)])
	if t.unknown[kind] || len(t.unknown) >= 100 {
		return
	}
	t.unknown[kind] = true
	t.log.Debug("codex: unknown "+what, "kind", kind)
}

// threadOf returns a thread by id. One that was never heard of belongs to a sub-agent: codex tells of it only by what it says.
func (t *translator) threadOf(id string) *thread {
	if th := t.threads[id]; th != nil {
		return th
	}
	th := &thread{id: id, main: id == t.native}
	th.acct.known = !th.main
	if !th.main {
		for _, c := range t.calls { // started, with its receiver not told yet
			if c.part.Subagent != nil && c.agent == "" {
				c.agent, th.parent = id, c.part.ToolCallID
				break
			}
		}
	}
	if len(t.threads) >= maxThreads {
		maps.DeleteFunc(t.threads, func(_ string, old *thread) bool { return !old.main && old.turn == "" })
	}
	t.threads[id] = th
	return th
}

// maxThreads bounds the threads that are remembered. Those of sub-agents that are done are forgotten first.
const maxThreads = 1000

// begun takes the thread that the session works on.
func (t *translator) begun(id, model string, fresh bool) {
	t.native, t.model = id, model
	th := &thread{id: id, main: true}
	th.acct.known = fresh
	t.threads[id] = th
}

// notice passes on what a person should know.
func (t *translator) notice(m message) {
	text := jsonscan.String(jsonscan.Get(m.params, "message"))
	switch m.method {
	case "configWarning", "deprecationNotice":
		text = jsonscan.String(jsonscan.Get(m.params, "summary"))
		if strings.Contains(text, "bubblewrap on PATH") {
			return // the bundled one is as good
		}
	case "model/rerouted":
		text = "codex answers with the model " + jsonscan.String(jsonscan.Get(m.params, "toModel")) + " instead of " + jsonscan.String(jsonscan.Get(m.params, "fromModel"))
	case "mcpServer/startupStatus/updated":
		if !jsonscan.Equal(jsonscan.Get(m.params, "status"), "failed") {
			return
		}
		text = "MCP server " + jsonscan.String(jsonscan.Get(m.params, "name")) + " could not be started: " + jsonscan.String(jsonscan.Get(m.params, "error")) +
			"; its tools are missing. Check its entry in config.mcpServers or in codex's own settings."
	}
	if text != "" {
		t.emit(harness.Notice{Kind: protocol.NoticeWarning, Message: t.redact.Text(text)})
	}
}
