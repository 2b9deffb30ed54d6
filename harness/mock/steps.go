package mock

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"agentserver/harness"
	"agentserver/protocol"
)

// words cuts a text behind each space, so that the pieces make up the text.
func words(text string) []string {
	return strings.SplitAfter(text, " ")
}

// stream yields deltas, at the run's pace.
func (p *player) stream(key string, typ protocol.DeltaType, tool string, pieces []string) error {
	for _, piece := range pieces {
		if err := p.wait(p.pace); err != nil {
			return err
		}
		if piece == "" {
			continue
		}
		if err := p.emit(harness.Delta{Key: key, ParentToolCallID: p.parent, Type: typ, Text: piece, ToolName: tool}); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) update(key string, part protocol.Part) error {
	return p.emit(harness.PartUpdate{Key: key, ParentToolCallID: p.parent, Part: part})
}

func say(text string) step {
	return func(p *player) error {
		key, pieces := p.memory.key("text"), words(text)
		if err := p.stream(key, protocol.DeltaText, "", pieces); err != nil {
			return err
		}
		p.words += int64(len(pieces))
		p.said = text
		return p.update(key, &protocol.TextPart{Text: text, State: protocol.PartDone})
	}
}

func think(text string) step {
	return func(p *player) error {
		if p.run.config.ThinkingLevel == protocol.ThinkingOff {
			return nil
		}
		key, pieces := p.memory.key("thought"), words(text)
		if err := p.stream(key, protocol.DeltaReasoning, "", pieces); err != nil {
			return err
		}
		p.words += int64(len(pieces))
		return p.update(key, &protocol.ReasoningPart{Text: text, State: protocol.PartDone})
	}
}

func burst(n, size int) step {
	return func(p *player) error {
		key, piece := p.memory.key("text"), strings.Repeat("x", max(size-1, 0))+" "
		var all strings.Builder
		for range n {
			if err := p.stream(key, protocol.DeltaText, "", []string{piece}); err != nil {
				return err
			}
			all.WriteString(piece)
		}
		p.words += int64(n)
		return p.update(key, &protocol.TextPart{Text: all.String(), State: protocol.PartDone})
	}
}

func image(mime, data string) step {
	return func(p *player) error {
		return p.update(p.memory.key("image"), &protocol.ImagePart{Data: data, MimeType: mime})
	}
}

func file(name, content string) step {
	return func(p *player) error {
		data := base64.StdEncoding.EncodeToString([]byte(content))
		return p.update(p.memory.key("file"), &protocol.FilePart{Data: data, MimeType: "text/plain", Filename: name})
	}
}

func usage(ns []int64) step {
	return func(p *player) error { return p.emit(harness.Usage{Used: ns[0], Size: ns[1]}) }
}

func tokens(ns []int64) step {
	t := &protocol.Tokens{Input: ns[0], Output: ns[1]}
	if len(ns) > 2 {
		ns = append(ns, 0)
		t.Cache = &protocol.CacheTokens{Read: ns[2], Write: ns[3]}
	}
	return func(p *player) error { p.tokens = t; return nil }
}

func compact(summary string) step {
	return func(p *player) error {
		c := harness.Compaction{Key: p.memory.key("compaction"), Status: protocol.CompactionInProgress, Trigger: protocol.TriggerAuto, PreTokens: count(1000)}
		if err := p.emit(c); err != nil {
			return err
		}
		c.Status, c.PostTokens, c.Summary = protocol.CompactionCompleted, count(100), summary
		return p.emit(c)
	}
}

func count(n int64) *int64 { return &n }

func notice(kind, text string) step {
	return func(p *player) error { return p.emit(harness.Notice{Kind: protocol.NoticeKind(kind), Message: text}) }
}

func failure(category, text string) step {
	return func(p *player) error {
		return p.emit(harness.Failure{Category: protocol.ErrorCategory(category), Message: text})
	}
}

func fail(category, text string) step {
	return func(*player) error {
		return &ended{harness.TurnEnd{StopReason: protocol.StopError, Error: &protocol.TurnError{Category: protocol.ErrorCategory(category), Message: text}}}
	}
}

func raw(data json.RawMessage) step {
	return func(p *player) error {
		if !p.run.config.IncludeRaw {
			return nil
		}
		return p.emit(harness.Raw{Data: data})
	}
}

func stop(reason string) step {
	return func(*player) error {
		return &ended{harness.TurnEnd{StopReason: protocol.StopReason(reason), FinishReason: reason}}
	}
}

func crash(text string) step {
	if text == "" {
		text = "exit status 1"
	}
	return func(p *player) error {
		p.end(harness.Exit{Error: &protocol.TurnError{Category: protocol.CategoryProcessExit, Message: "the mock agent crashed: " + text}})
		return errGone
	}
}

func background(d time.Duration, body []step) step {
	return func(p *player) error { p.schedule(d, false, body...); return nil }
}

func subagent(about protocol.Subagent, body []step) step {
	return func(p *player) error {
		c := call{name: "Task"}
		input := map[string]string{"subagent_type": about.Type, "description": about.Description}
		var err error
		if c.input, err = json.Marshal(input); err != nil {
			return err
		}
		if p.run.config.DisableTools {
			return p.emit(noTools(c.name))
		}
		key := p.memory.key("call")
		part := protocol.ToolPart{ToolCallID: key, ToolName: c.name, Kind: protocol.ToolKindTask, Title: about.Description, Subagent: &about}
		if err := c.open(p, key, part); err != nil {
			return err
		}
		outer, said := p.parent, p.said
		p.parent, p.said = key, "ok"
		err = p.steps(body)
		result := p.said
		p.parent, p.said = outer, said
		if err != nil {
			return err
		}
		part.State = &protocol.ToolCompleted{Output: result, Content: []protocol.ToolContent{protocol.TextContent(result)}}
		return p.update(key, &part)
	}
}

func noTools(name string) harness.Notice {
	return harness.Notice{Kind: protocol.NoticeWarning, Message: name + " was not called: the turn has no tools"}
}

// play plays a tool call.
func (c *call) play(p *player) error {
	if p.run.config.DisableTools {
		return p.emit(noTools(c.name))
	}
	key := p.memory.key("call")
	part := protocol.ToolPart{ToolCallID: key, ToolName: c.name, Kind: kindOf(c.name), Title: c.title()}
	if err := c.open(p, key, part); err != nil {
		return err
	}
	input := c.input
	if c.ask {
		d, err := c.permit(p, key, part)
		if err != nil {
			return err
		}
		if d.Cancelled {
			part.State = &protocol.ToolCancelled{}
			if err := p.update(key, &part); err != nil {
				return err
			}
			return &ended{harness.TurnEnd{StopReason: protocol.StopCancelled, FinishReason: "unanswered"}}
		}
		if !d.Allow {
			part.State = &protocol.ToolFailed{Error: refusal(d)}
			return p.update(key, &part)
		}
		if d.UpdatedInput != nil {
			input = d.UpdatedInput
		}
	}
	part.State = c.result(input)
	if c.linger > 0 {
		p.background = append(p.background, key)
		parent := p.parent
		p.schedule(c.linger, true, func(p *player) error {
			return p.emit(harness.PartUpdate{Key: key, ParentToolCallID: parent, Part: &part})
		})
		return nil
	}
	return p.update(key, &part)
}

// open streams the call's input and says that it runs.
func (c *call) open(p *player, key string, part protocol.ToolPart) error {
	part.State = &protocol.ToolPending{}
	if err := p.update(key, &part); err != nil {
		return err
	}
	if err := p.stream(key, protocol.DeltaToolInput, c.name, halves(string(c.input))); err != nil {
		return err
	}
	running := part
	running.State = &protocol.ToolInProgress{Input: c.input}
	return p.update(key, &running)
}

// halves cuts a text in two, between characters.
func halves(s string) []string {
	i := len(s) / 2
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return []string{s[:i], s[i:]}
}

// permit asks whether the call may run.
func (c *call) permit(p *player, key string, part protocol.ToolPart) (harness.Decision, error) {
	if d, known := c.decided(p.run.config.PermissionMode); known {
		return d, nil
	}
	answer := make(chan harness.Decision, 1)
	var answered atomic.Bool
	ask := harness.Permission{
		Key: "ask-" + key, ParentToolCallID: p.parent, Title: c.name + " " + part.Title,
		Tool: protocol.PermissionTool{ToolCallID: key, ToolName: c.name, Kind: part.Kind, Title: part.Title, RawInput: c.input},
		Decide: func(d harness.Decision) error {
			if !answered.CompareAndSwap(false, true) {
				return fmt.Errorf("the request about %s was answered before", key)
			}
			answer <- d
			return nil
		},
	}
	if err := p.emit(ask); err != nil {
		return harness.Decision{}, err
	}
	select {
	case d := <-answer:
		return d, nil
	case <-p.run.stop:
		if err := p.hand(harness.PermissionWithdrawn{Key: ask.Key}); err != nil {
			return harness.Decision{}, err
		}
		return harness.Decision{}, errInterrupted
	case <-p.stop:
		return harness.Decision{}, errGone
	}
}

// decided is what the permission mode says by itself.
func (c *call) decided(mode protocol.PermissionMode) (d harness.Decision, known bool) {
	kind := kindOf(c.name)
	switch {
	case mode == protocol.ModeBypassPermissions:
		return harness.Decision{Allow: true}, true
	case mode == protocol.ModeAcceptEdits && kind == protocol.ToolKindEdit:
		return harness.Decision{Allow: true}, true
	case mode == protocol.ModeDontAsk:
		return harness.Decision{Message: "Denied: the permission mode is dont_ask."}, true
	case mode == protocol.ModePlan && kind != protocol.ToolKindRead && kind != protocol.ToolKindSearch:
		return harness.Decision{Message: "Denied: the permission mode is plan."}, true
	}
	return harness.Decision{}, false
}

func refusal(d harness.Decision) string {
	if d.Message != "" {
		return d.Message
	}
	return "Denied by the user."
}

// result is how a call that ran ends.
func (c *call) result(input json.RawMessage) protocol.ToolState {
	if c.failed {
		return &protocol.ToolFailed{Input: input, Error: c.output}
	}
	done := &protocol.ToolCompleted{Input: input, Output: c.output, Content: []protocol.ToolContent{protocol.TextContent(c.output)}}
	var edit struct {
		Path    string
		OldText *string
		NewText *string
	}
	if json.Unmarshal(input, &edit) == nil && edit.Path != "" && edit.NewText != nil {
		done.Content = []protocol.ToolContent{protocol.DiffContent(edit.Path, edit.OldText, *edit.NewText)}
	}
	return done
}

// title is the call's first argument, in short, if that is a string.
func (c *call) title() string {
	dec := json.NewDecoder(bytes.NewReader(c.input))
	var t json.Token
	for range 3 { // the brace, the name, the value
		var err error
		if t, err = dec.Token(); err != nil {
			return ""
		}
	}
	value, _ := t.(string)
	return shorten(value)
}

func shorten(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return s
}

// kindOf sorts tools by the names that claude gives them.
func kindOf(name string) protocol.ToolKind {
	switch strings.ToLower(name) {
	case "read", "ls":
		return protocol.ToolKindRead
	case "edit", "write", "multiedit", "notebookedit":
		return protocol.ToolKindEdit
	case "grep", "glob", "search", "websearch":
		return protocol.ToolKindSearch
	case "bash", "shell":
		return protocol.ToolKindExecute
	case "webfetch", "fetch":
		return protocol.ToolKindFetch
	case "task":
		return protocol.ToolKindTask
	}
	return protocol.ToolKindOther
}
