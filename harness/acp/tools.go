package acp

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"agentserver/harness"
	"agentserver/protocol"
)

// A tool is a call as far as it is known. It may first be seen in an update or in a permission request.
type tool struct {
	id, title, name string
	key             string // of the part: the id, unless the agent has used that before
	kind            string
	status          string
	content         []toolContent
	locations       []protocol.Location
	input, output   json.RawMessage
	terminal        []byte // what its terminal printed, the end of it
	exitCode        *int
	exitSignal      string
	running         bool // it was shown with its input: it does not go back to pending
	refused         bool
	shown           bool
	over            bool
	turn            int // the turn that it was last seen in
}

// upsert merges what is told about a call into what is known. An agent that announces an id again in a later turn means another call.
func (t *translator) upsert(f *toolFields, announces bool) *tool {
	c := t.tools[f.ToolCallID]
	if c != nil && announces && c.over && t.turn.active && c.turn != t.turn.number {
		t.order = slices.DeleteFunc(t.order, func(id string) bool { return id == c.id })
		c = nil
	}
	if c == nil {
		c = &tool{id: f.ToolCallID, key: f.ToolCallID}
		if t.keys[c.key] {
			c.key += "#" + itoa(t.turn.number)
		}
		t.keys[c.key] = true
		t.tools[f.ToolCallID] = c
		t.order = append(t.order, f.ToolCallID)
		if len(t.order) > maxTools {
			delete(t.keys, t.tools[t.order[0]].key)
			delete(t.tools, t.order[0])
			t.order = t.order[1:]
		}
	}
	if title := str(f.Title); title != "" {
		c.title = title
	}
	meta := toolMetaOf(f.Meta)
	for _, name := range []string{f.Name, meta.Claude.ToolName, meta.ToolName} {
		if name != "" {
			c.name = name
			break
		}
	}
	if f.ToolKind != "" {
		c.kind = f.ToolKind
	}
	if f.Status != "" && !c.over {
		c.status = f.Status
	}
	if len(f.Content) > 0 && string(f.Content) != "null" {
		c.content = nil
		lenient(f.Content, &c.content)
	}
	c.place(f.Locations)
	if hasInput(f.RawInput) {
		c.input = f.RawInput
	}
	if present(f.RawOutput) {
		c.output = f.RawOutput
	}
	c.console(meta)
	c.turn = t.turn.number
	return c
}

func (c *tool) place(raw json.RawMessage) {
	var list []location
	if len(raw) == 0 || string(raw) == "null" || !lenient(raw, &list) {
		return
	}
	c.locations = nil
	for _, l := range list {
		if l.Path != "" {
			c.locations = append(c.locations, protocol.Location{Path: l.Path, Line: max(l.Line, 0)})
		}
	}
}

// hasInput reports whether a raw input says anything: agents announce a call with {} and tell the input later.
func hasInput(raw json.RawMessage) bool {
	if !present(raw) {
		return false
	}
	s := strings.TrimSpace(string(raw))
	return s != "{}" && s != `""`
}

// toolMeta is what agents put into the `_meta` of a call: the tool's name, and what its terminal prints (a convention, not a part of ACP).
type toolMeta struct {
	Claude struct {
		ToolName string `json:"toolName"`
	} `json:"claudeCode"`
	ToolName string          `json:"toolName"`
	Output   *terminalOutput `json:"terminal_output"`
	Delta    *terminalOutput `json:"terminal_output_delta"`
	Exit     *struct {
		Code   *int   `json:"exit_code"`
		Signal string `json:"signal"`
	} `json:"terminal_exit"`
}

type terminalOutput struct {
	Data string `json:"data"`
}

func toolMetaOf(raw json.RawMessage) toolMeta {
	var m toolMeta
	lenient(raw, &m)
	return m
}

func (c *tool) console(m toolMeta) {
	for _, o := range []*terminalOutput{m.Output, m.Delta} {
		if o == nil {
			continue
		}
		c.terminal = append(c.terminal, o.Data...)
		if over := len(c.terminal) - maxOutput; over > 0 {
			for over < len(c.terminal) && !utf8.RuneStart(c.terminal[over]) {
				over++
			}
			c.terminal = append([]byte(nil), c.terminal[over:]...)
		}
	}
	if m.Exit != nil {
		c.exitCode, c.exitSignal = m.Exit.Code, m.Exit.Signal
	}
}

// ended reports whether the agent says that the call is over.
func (c *tool) ended() bool { return c.status == "completed" || c.status == "failed" }

// toolName is what standing rules go by. Where the agent names no tool it is the kind, and for a call that has none the title, so that a rule
// never covers more than it seems to.
func (c *tool) toolName() string {
	switch {
	case c.name != "":
		return c.name
	case c.kind != "" && c.kind != "other":
		return c.kind
	case c.title != "":
		return c.title
	}
	return "tool"
}

func (c *tool) shownTitle() string {
	if c.title != "" {
		return c.title
	}
	return c.toolName()
}

func (c *tool) toolKind() protocol.ToolKind {
	if c.kind == "" {
		return protocol.ToolKindOther
	}
	return protocol.ToolKind(c.kind)
}

// part returns the call as a part in the given state.
func (c *tool) part(state protocol.ToolState) *protocol.ToolPart {
	return &protocol.ToolPart{
		ToolCallID: c.id, ToolName: c.toolName(), Kind: c.toolKind(), Title: c.shownTitle(), Locations: c.locations, State: state,
	}
}

// showTool shows where a call stands.
func (t *translator) showTool(c *tool) {
	t.turn.said = true
	t.text.after = true
	var state protocol.ToolState
	switch {
	case c.status == "completed":
		state = c.completed()
	case c.status == "failed" && t.turn.cancelled:
		state = &protocol.ToolCancelled{Input: c.input}
	case c.status == "failed":
		state = &protocol.ToolFailed{Input: c.input, Error: orElse(c.outputText(), c.failedText())}
	case c.status == "in_progress" || c.input != nil || c.running:
		c.running = true
		state = &protocol.ToolInProgress{Input: c.input, Title: c.shownTitle(), Meta: c.preview()}
	default:
		state = &protocol.ToolPending{}
	}
	late := !t.turn.active && c.shown // the update of a part that the engine has: it opens no turn
	c.over, c.shown = c.ended(), true
	if u := (harness.PartUpdate{Key: c.key, Part: c.part(state)}); late {
		t.emit(u)
	} else {
		t.show(u)
	}
}

// preview is what a call shows before it is over: a permission request for an edit has its diff there.
func (c *tool) preview() protocol.Meta {
	if content := c.display(); len(content) > 0 {
		return protocol.Meta(nil).With("acp/content", content)
	}
	return nil
}

func (c *tool) completed() *protocol.ToolCompleted {
	state := &protocol.ToolCompleted{Input: c.input, Output: c.outputText(), Content: c.display(), Title: c.shownTitle()}
	if m := c.metadata(); m != nil {
		state.Metadata = m
	}
	return state
}

// metadata is the raw output where that is an object, and the exit status of a terminal.
func (c *tool) metadata() json.RawMessage {
	m := protocol.Meta(nil)
	if len(c.output) > 0 && c.output[0] == '{' {
		m = protocol.Meta(c.output)
	}
	if c.exitCode != nil {
		m = m.With("exitCode", *c.exitCode)
	}
	if c.exitSignal != "" {
		m = m.With("signal", c.exitSignal)
	}
	if m == nil {
		return nil
	}
	return json.RawMessage(m)
}

func (c *tool) failedText() string {
	if c.refused {
		return "The call was refused."
	}
	return "The tool failed; the agent does not say why."
}

// outputText is what the call printed, as text.
func (c *tool) outputText() string {
	var texts []string
	for i := range c.content {
		if item := &c.content[i]; item.Type == "content" {
			if text := blockText(&item.Content); text != "" {
				texts = append(texts, text)
			}
		}
	}
	switch {
	case len(texts) > 0:
		return strings.Join(texts, "\n")
	case len(c.terminal) > 0:
		return string(c.terminal)
	case len(c.output) > 0:
		return rawText(c.output)
	}
	return ""
}

func blockText(b *contentBlock) string {
	switch {
	case b.Type == "text":
		return b.Text
	case b.Type == "resource" && b.Resource.Text != nil:
		return *b.Resource.Text
	case b.Type == "resource_link":
		return b.URI
	}
	return ""
}

// rawText finds the text in a raw output, whose form is each agent's own.
func rawText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var o struct {
		Output, FormattedOutput, Text, Error, Message string
	}
	if lenient(raw, &o) {
		for _, s := range []string{o.Output, o.FormattedOutput, o.Text, o.Error, o.Message} {
			if s != "" {
				return s
			}
		}
	}
	return string(raw)
}

// display returns the content for people. A terminal of the agent's own shows what it printed.
func (c *tool) display() []protocol.ToolContent {
	var out []protocol.ToolContent
	shown := false
	for i := range c.content {
		item := &c.content[i]
		switch item.Type {
		case "content":
			if item.Content.Type == "image" && item.Content.Data != "" {
				out = append(out, protocol.ImageContent(item.Content.Data, orElse(item.Content.MimeType, "image/png")))
			} else if text := blockText(&item.Content); text != "" {
				out = append(out, protocol.TextContent(text))
			}
		case "diff":
			if item.Path != "" && item.NewText != nil {
				out = append(out, protocol.DiffContent(item.Path, item.OldText, *item.NewText))
			}
		case "terminal":
			if len(c.terminal) > 0 && !shown {
				out = append(out, protocol.TextContent(string(c.terminal)))
				shown = true
			}
		}
	}
	if len(out) == 0 && len(c.terminal) > 0 {
		out = append(out, protocol.TextContent(string(c.terminal)))
	}
	return out
}

// unfinished returns the calls of this turn that are not over, oldest first.
func (t *translator) unfinished() []*tool {
	var list []*tool
	for _, id := range t.order {
		if c := t.tools[id]; c != nil && !c.over && c.turn == t.turn.number {
			list = append(list, c)
		}
	}
	return list
}

// closeTools ends the calls that the agent left open.
func (t *translator) closeTools(cancelled bool) {
	for _, c := range t.unfinished() {
		var state protocol.ToolState
		switch {
		case c.refused:
			state = &protocol.ToolFailed{Input: c.input, Error: c.failedText()}
		case cancelled:
			state = &protocol.ToolCancelled{Input: c.input}
		default:
			state = &protocol.ToolFailed{Input: c.input, Error: orElse(c.outputText(), "The agent ended its turn without saying how this call ended.")}
		}
		c.over = true
		t.emit(harness.PartUpdate{Key: c.key, Part: c.part(state)})
	}
}

// plan shows the agent's plan as one tool part of the turn, which every update replaces.
func (t *translator) plan(entries []planEntry) {
	entries = slices.DeleteFunc(entries, func(e planEntry) bool { return e.Content == "" })
	if entries == nil {
		entries = []planEntry{}
	}
	t.closeText()
	t.text.after = true
	t.turn.said = true
	if t.turn.plan == "" {
		t.plans++
		t.turn.plan = "plan-" + itoa(t.plans)
	}
	t.turn.entries = encode(object{"entries": entries})
	t.show(harness.PartUpdate{Key: t.turn.plan, Part: planPart(t.turn.plan, &protocol.ToolInProgress{Input: t.turn.entries, Title: "Plan"})})
}

func (t *translator) closePlan() {
	if t.turn.plan != "" {
		t.emit(harness.PartUpdate{Key: t.turn.plan, Part: planPart(t.turn.plan, &protocol.ToolCompleted{Input: t.turn.entries, Title: "Plan"})})
	}
}

func planPart(key string, state protocol.ToolState) *protocol.ToolPart {
	return &protocol.ToolPart{ToolCallID: key, ToolName: "plan", Kind: protocol.ToolKindThink, Title: "Plan", State: state}
}
