package claude

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"

	"agentserver/harness"
	"agentserver/harness/internal/redact"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A translator turns the CLI's lines into events, and the engine's wishes into lines. It is not safe for concurrent use: its session holds a
// lock. Everything that it wants done lies in events, out and responses until the session has taken it.
type translator struct {
	// Set once.
	resume  string // the native session id that was asked for
	resumed *bool  // whether the CLI went on with it, once known
	asks    bool   // somebody is there to answer
	redact  redact.Redactor
	log     *slog.Logger
	// decide answers a question of the CLI; events carry it to the engine. It may be called from any goroutine.
	decide func(key string, d harness.Decision) error

	raw bool // yield every line as it came

	events    []harness.Event
	out       [][]byte // lines for the CLI
	responses []response

	turn turn
	// running says that the CLI works on a turn, its own or ours: it is between init and result.
	running bool
	// opened says that events outside a turn of ours made the engine open one, which needs an end.
	opened bool

	native  string // session id
	model   string // as configured, from init
	mode    string // permission mode that the CLI is in
	servers map[string]string

	msgs  int                 // counts messages, for keys
	main  *message            // of the main agent, the newest
	subs  map[string]*message // of sub-agents, by the tool call they run under
	shown string              // the parent of what was last shown
	tools map[string]*tool    // calls that are not over
	used  map[string]int      // how often a tool call id has come
	tasks map[string]*task    // work in the background, by task id
	perms map[string]*pending // questions of the CLI that wait for an answer

	acct     accounting
	failure  failure // what the last synthetic message said
	compact  compaction
	requests int // numbers our own control requests
	unknown  map[string]bool
	badAuth  bool // a turn failed for its credentials: a fresh process may find better ones
}

// response is the answer to a control request of ours.
type response struct {
	id   string
	err  error
	body json.RawMessage
}

func newTranslator() *translator {
	return &translator{
		log: slog.New(slog.DiscardHandler), asks: true, servers: map[string]string{}, subs: map[string]*message{}, tools: map[string]*tool{},
		tasks: map[string]*task{}, perms: map[string]*pending{}, unknown: map[string]bool{}, used: map[string]int{},
		acct: accounting{whole: true},
	}
}

func (t *translator) emit(e harness.Event) { t.events = append(t.events, e) }

// show emits an event that is shown in a message. Outside a turn it makes the engine open one.
func (t *translator) show(parent string, e harness.Event) {
	t.shown = parent
	t.turn.said = t.turn.said || parent == ""
	t.open()
	t.emit(e)
}

func (t *translator) open() {
	if !t.turn.active {
		t.opened = true
	}
}

func (t *translator) send(line []byte) { t.out = append(t.out, line) }

// line takes one line of the CLI. It never fails: what it does not understand, it leaves to raw.
func (t *translator) line(b []byte) {
	if t.raw && json.Valid(b) {
		t.emit(harness.Raw{Data: t.redact.Bytes(b)})
	}
	var typ, event []byte
	for o := jsonscan.NewObject(b); o.Next(); {
		switch {
		case o.Is("type"):
			typ = o.Value()
		case o.Is("event"):
			event = o.Value()
		default:
			continue
		}
		if event != nil && string(typ) == `"stream_event"` {
			t.stream(event)
			return
		}
	}
	t.slowLine(string(typ), b)
}

// slowLine handles everything but what the model streams.
func (t *translator) slowLine(typ string, b []byte) {
	switch typ {
	case `"assistant"`:
		decode(t, b, (*translator).assistant)
	case `"user"`:
		decode(t, b, (*translator).user)
	case `"result"`:
		decode(t, b, (*translator).result)
	case `"system"`:
		t.systemLine(b)
	case `"control_request"`:
		decode(t, b, (*translator).controlRequest)
	case `"control_response"`:
		decode(t, b, (*translator).controlResponse)
	case `"control_cancel_request"`:
		decode(t, b, func(t *translator, l *controlCancelLine) { t.withdraw(l.RequestID) })
	case `"rate_limit_event"`:
		decode(t, b, (*translator).rateLimit)
	case `"command_lifecycle"`:
		decode(t, b, (*translator).lifecycle)
	case `"keep_alive"`, `"tool_progress"`, `"tool_use_summary"`, `"prompt_suggestion"`, `"auth_status"`, `"transcript_mirror"`:
	default:
		t.strange("line", typ)
	}
}

// decode decodes b and hands it on. A field of an unexpected type is left at zero: a newer CLI must not be fatal.
func decode[L any](t *translator, b []byte, handle func(*translator, *L)) {
	var l L
	if err := json.Unmarshal(b, &l); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			t.strange("line", "malformed")
			return
		}
		t.strange("field", err.Error())
	}
	handle(t, &l)
}

// strange logs what is not known, once per kind; how much is remembered is bounded.
func (t *translator) strange(what, kind string) {
	kind = t.redact.Text(kind[:min(len(kind), 100)])
	if t.unknown[kind] || len(t.unknown) >= 100 {
		return
	}
	t.unknown[kind] = true
	t.log.Debug("claude: unknown "+what, "kind", kind)
}

func (t *translator) nextRequestID() string {
	t.requests++
	return "as-" + strconv.Itoa(t.requests)
}

// request queues a control request of ours and returns its id.
func (t *translator) request(r object) string {
	id := t.nextRequestID()
	t.send(requestLine(id, r))
	return id
}

func (t *translator) controlResponse(l *controlResponseLine) {
	r := response{id: l.Response.RequestID, body: l.Response.Response}
	if l.Response.Subtype != "success" {
		r.err = errors.New(t.redact.Text(l.Response.Error))
	}
	t.turnResponse(r)
	t.responses = append(t.responses, r)
}

// started handles system/init, which opens every turn of the CLI.
func (t *translator) started(l *systemLine) {
	t.running = true
	if l.Model != "" {
		t.model = l.Model
	}
	if l.PermissionMode != "" {
		t.mode = l.PermissionMode
	}
	t.native = l.SessionID
	e := harness.SessionStarted{NativeSessionID: l.SessionID, Model: t.model}
	if t.resume != "" && t.resumed == nil { // only now: /clear changes the id later
		t.resumed = new(t.resume == l.SessionID)
	}
	e.Resumed = t.resumed
	t.emit(e)
	for _, s := range l.MCPServers {
		t.serverState(s)
	}
	t.turnBegins()
}

// serverState tells once when an MCP server cannot be used.
func (t *translator) serverState(s serverState) {
	if t.servers[s.Name] == s.Status || s.Name == "" {
		return
	}
	t.servers[s.Name] = s.Status
	if s.Status == "failed" || s.Status == "needs-auth" {
		text := "MCP server " + s.Name + ": " + s.Status
		if s.Error != "" {
			text += " (" + t.redact.Text(s.Error) + ")"
		}
		t.emit(harness.Notice{Kind: protocol.NoticeWarning, Message: text + "; its tools are missing. Check its entry in config.mcpServers or in claude's own settings."})
	}
}
