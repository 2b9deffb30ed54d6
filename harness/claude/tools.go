package claude

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A tool is a call that is not over.
type tool struct {
	key     string            // of the part
	part    protocol.ToolPart // without its state
	input   json.RawMessage
	parent  string
	running bool // its input is whole
	async   bool // it goes on in the background after its result
	shown   bool // the engine knows the part
}

// toolTraits says what is known of the CLI's own tools: the kind, and the fields of the input that name the title and the location.
type toolTraits struct {
	kind  protocol.ToolKind
	title string // "%" is replaced by the field
	field string
	path  string
}

var knownTools = map[string]toolTraits{
	"Agent":                {kind: protocol.ToolKindTask, title: "%", field: "description"},
	"Task":                 {kind: protocol.ToolKindTask, title: "%", field: "description"},
	"AskUserQuestion":      {kind: protocol.ToolKindOther, title: "Question"},
	"Bash":                 {kind: protocol.ToolKindExecute, title: "%", field: "command"},
	"BashOutput":           {kind: protocol.ToolKindExecute, title: "Output of a background command"},
	"PowerShell":           {kind: protocol.ToolKindExecute, title: "%", field: "command"},
	"KillShell":            {kind: protocol.ToolKindExecute, title: "Stop a background command"},
	"TaskOutput":           {kind: protocol.ToolKindExecute, title: "Output of a background task"},
	"TaskStop":             {kind: protocol.ToolKindExecute, title: "Stop a background task"},
	"Edit":                 {kind: protocol.ToolKindEdit, title: "Edit %", field: "file_path", path: "file_path"},
	"MultiEdit":            {kind: protocol.ToolKindEdit, title: "Edit %", field: "file_path", path: "file_path"},
	"NotebookEdit":         {kind: protocol.ToolKindEdit, title: "Edit %", field: "notebook_path", path: "notebook_path"},
	"Write":                {kind: protocol.ToolKindEdit, title: "Write %", field: "file_path", path: "file_path"},
	"Read":                 {kind: protocol.ToolKindRead, title: "Read %", field: "file_path", path: "file_path"},
	"LS":                   {kind: protocol.ToolKindSearch, title: "List %", field: "path", path: "path"},
	"Glob":                 {kind: protocol.ToolKindSearch, title: "Find %", field: "pattern", path: "path"},
	"Grep":                 {kind: protocol.ToolKindSearch, title: "Search for %", field: "pattern", path: "path"},
	"ToolSearch":           {kind: protocol.ToolKindSearch, title: "Search tools for %", field: "query"},
	"WebSearch":            {kind: protocol.ToolKindSearch, title: "Search the web for %", field: "query"},
	"web_search":           {kind: protocol.ToolKindSearch, title: "Search the web for %", field: "query"},
	"WebFetch":             {kind: protocol.ToolKindFetch, title: "Fetch %", field: "url"},
	"web_fetch":            {kind: protocol.ToolKindFetch, title: "Fetch %", field: "url"},
	"TodoWrite":            {kind: protocol.ToolKindThink, title: "Update the to-do list"},
	"TaskCreate":           {kind: protocol.ToolKindThink, title: "%", field: "subject"},
	"TaskUpdate":           {kind: protocol.ToolKindThink, title: "Update the to-do list"},
	"TaskGet":              {kind: protocol.ToolKindThink, title: "Look at the to-do list"},
	"TaskList":             {kind: protocol.ToolKindThink, title: "Look at the to-do list"},
	"EnterPlanMode":        {kind: protocol.ToolKindSwitchMode, title: "Start to plan"},
	"ExitPlanMode":         {kind: protocol.ToolKindSwitchMode, title: "Approve the plan"},
	"EnterWorktree":        {kind: protocol.ToolKindSwitchMode, title: "Enter a worktree"},
	"ExitWorktree":         {kind: protocol.ToolKindSwitchMode, title: "Leave the worktree"},
	"Skill":                {kind: protocol.ToolKindOther, title: "Skill %", field: "skill"},
	"ListMcpResources":     {kind: protocol.ToolKindRead, title: "List MCP resources"},
	"ReadMcpResource":      {kind: protocol.ToolKindRead, title: "Read %", field: "uri"},
	"ListMcpResourcesTool": {kind: protocol.ToolKindRead, title: "List MCP resources"},
	"ReadMcpResourceTool":  {kind: protocol.ToolKindRead, title: "Read %", field: "uri"},
}

const maxTitle = 200 // bytes

// describe fills in kind, title and locations, as far as the input says.
func describe(part *protocol.ToolPart, input json.RawMessage) {
	traits, known := knownTools[part.ToolName]
	part.Kind = traits.kind
	if !known {
		part.Kind = protocol.ToolKindOther
		part.Title = part.ToolName
		if name, ok := strings.CutPrefix(part.ToolName, "mcp__"); ok {
			part.Title = strings.Replace(name, "__", ": ", 1)
		}
		return
	}
	value := firstLine(text(jsonscan.Get(input, traits.field)))
	if traits.path == traits.field && value != "" && traits.path != "" {
		value = filepath.Base(value)
	}
	part.Title = strings.TrimSpace(strings.Replace(traits.title, "%", value, 1))
	if part.Title == "" {
		part.Title = part.ToolName
	}
	if path := text(jsonscan.Get(input, traits.path)); traits.path != "" && path != "" {
		line, _ := jsonscan.Int(jsonscan.Get(input, "offset"))
		part.Locations = []protocol.Location{{Path: path, Line: int(max(line, 0))}}
	}
	if traits.kind == protocol.ToolKindTask {
		part.Subagent = &protocol.Subagent{
			Type:        text(jsonscan.Get(input, "subagent_type")),
			Description: text(jsonscan.Get(input, "description")),
			Model:       text(jsonscan.Get(input, "model")),
		}
	}
}

func firstLine(s string) string {
	s, _, cut := strings.Cut(strings.TrimSpace(s), "\n")
	if len(s) > maxTitle {
		s, cut = strings.ToValidUTF8(s[:maxTitle], ""), true
	}
	if cut {
		s += "…"
	}
	return s
}

// addTool returns the call with that id, and registers it if it is new.
func (t *translator) addTool(id, name, parent string) *tool {
	call := t.tools[id]
	if call == nil {
		call = &tool{key: t.toolKey(id), parent: parent, part: protocol.ToolPart{ToolCallID: id, ToolName: name}}
		describe(&call.part, nil)
		t.tools[id] = call
	}
	return call
}

// maxUsedIDs bounds the memory of toolKey.
const maxUsedIDs = 100_000

// toolKey returns the id, with a suffix when an earlier call had the same: some gateways count from 1 in every message.
func (t *translator) toolKey(id string) string {
	if len(t.used) >= maxUsedIDs {
		clear(t.used)
	}
	t.used[id]++
	if n := t.used[id]; n > 1 {
		return id + "#" + strconv.Itoa(n)
	}
	return id
}

// copy returns a part of its own for an event.
func (c *tool) copy() *protocol.ToolPart {
	p := c.part
	return &p
}

// toolCalled handles a call whose input is whole. It waits for permission, or runs.
func (t *translator) toolCalled(m *message, parent string, b *contentBlock) {
	if b.ID == "" || b.Name == "" {
		return
	}
	t.announce(m, parent)
	t.callRuns(b.ID, b.Name, parent, b.Input)
}

func (t *translator) callRuns(id, name, parent string, input json.RawMessage) {
	call := t.addTool(id, name, parent)
	if call.running && string(call.input) == string(input) {
		return
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	call.running, call.input = true, input
	agent := call.part.Subagent
	describe(&call.part, input)
	if agent != nil && agent.AgentID != "" && call.part.Subagent != nil {
		call.part.Subagent.AgentID = agent.AgentID
	}
	t.update(call, &protocol.ToolInProgress{Input: input})
	t.steerNow()
}

// update shows a call in a state. The late change of a known part opens no turn.
func (t *translator) update(call *tool, state protocol.ToolState) {
	part := call.copy()
	part.State = state
	e := harness.PartUpdate{Key: call.key, ParentToolCallID: call.parent, Part: part}
	if call.shown {
		t.emit(e)
		return
	}
	call.shown = true
	t.show(call.parent, e)
}

// toolResult ends a call, or leaves it to the background.
func (t *translator) toolResult(b *contentBlock, structured json.RawMessage) {
	call := t.tools[b.ToolUseID]
	if call == nil {
		return
	}
	if status := text(jsonscan.Get(structured, "status")); status == "async_launched" || status == "remote_launched" {
		t.launched(call, text(jsonscan.Get(structured, "agentId")))
		return
	}
	if !call.running {
		call.running, call.input = true, json.RawMessage("{}")
	}
	t.endTool(call, resultState(call, b, structured, t.turn.interrupted))
}

func (t *translator) endTool(call *tool, state protocol.ToolState) {
	id := call.part.ToolCallID
	t.update(call, state)
	delete(t.tools, id)
	delete(t.subs, id)
}

// working reports whether a tool of the main agent runs: then the CLI calls the model once more in this turn.
func (t *translator) working() bool {
	for _, c := range t.tools {
		if c.running && !c.async && c.parent == "" {
			return true
		}
	}
	return false
}
