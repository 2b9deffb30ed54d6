package fakemodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// callVerbs are the directives that end a message with calls of tools.
var callVerbs = map[string]bool{
	"TOOL": true, "SHELL": true, "SHELLESC": true, "SHELLPOLL": true, "SHELLSTDIN": true, "MULTI": true, "LOOP": true,
	"SLOWTOOL": true, "TASK": true, "PATCH": true, "PATCHRAW": true, "PATCHUPD": true, "PLAN": true, "CUSTOM": true,
}

// maxPolls bounds how often SHELLPOLL looks at a running command.
const maxPolls = 5

// leadIn is the text before a call that the script puts none before.
func leadIn(l line, results int) string {
	switch l.verb {
	case "MULTI":
		return "Running several tools."
	case "LOOP":
		return fmt.Sprintf("Loop step %d.", results)
	case "TASK":
		return "Delegating."
	case "PATCH", "PATCHRAW", "PATCHUPD":
		return "Editing a file."
	case "PLAN":
		return "Making a plan."
	}
	return "Running a tool."
}

// calls returns what l still has to call: nil if all results are there.
func (p *planner) calls(l line, left []result) []toolCall {
	switch {
	case l.verb == "LOOP":
		return p.build(l)
	case l.verb == "SHELLPOLL" || l.verb == "SHELLSTDIN":
		return p.poll(l, left)
	case len(left) > 0:
		return nil
	}
	return p.build(l)
}

// width is how many results belong to l once it is over.
func (p *planner) width(l line) int {
	if l.verb == "SHELLPOLL" || l.verb == "SHELLSTDIN" {
		return len(p.cue.results)
	}
	return len(p.build(l))
}

// call plans calls; without any it says that the request offers no such tool.
func (p *planner) call(l line, calls []toolCall) {
	if len(calls) == 0 {
		p.text("no tool for " + l.verb)
		return
	}
	for _, c := range calls {
		p.reply.steps = append(p.reply.steps, step{kind: kindTool, call: c, pieces: []piece{{text: c.args, chunk: argChunk(c), delay: c.delay}}})
	}
	p.reply.stop = stopTool
}

// argChunk is the delta size of a call's arguments: at most some 200 deltas.
func argChunk(c toolCall) int { return max(24, len(c.args)/200) }

// build returns the calls of l, empty and not nil if no tool fits.
func (p *planner) build(l line) []toolCall {
	var calls []toolCall
	add := func(c toolCall, ok bool) {
		if ok {
			calls = append(calls, c)
		}
	}
	switch l.verb {
	case "TOOL", "LOOP":
		add(p.named(l.arg))
	case "SHELL":
		add(p.shell(shell{command: l.arg}))
	case "SHELLESC":
		add(p.shell(escalated(l.arg)))
	case "MULTI":
		for _, m := range multiCalls(l.arg) {
			add(p.multi(m))
		}
	case "SLOWTOOL":
		c, ok := p.shell(shell{command: "echo " + strings.Repeat("x", 2000)})
		c.delay = slowDelay
		add(c, ok)
	case "TASK":
		add(p.task(l.arg))
	case "PATCH", "PATCHRAW", "PATCHUPD":
		add(p.patch(l))
	case "PLAN":
		calls = p.plan()
	case "CUSTOM":
		name, input, _ := strings.Cut(l.arg, " ")
		add(toolCall{tool: tool{name: name, custom: true}, args: input}, true)
	}
	if calls == nil {
		calls = []toolCall{}
	}
	return calls
}

// A multiCall is one element of MULTI: a named call, or a shell command.
type multiCall struct {
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	command string
}

// multiCalls reads `[{"name":…,"input":{…}},…]` or `command ;; command`.
func multiCalls(arg string) []multiCall {
	var calls []multiCall
	if json.Unmarshal([]byte(arg), &calls) == nil {
		return calls
	}
	for command := range strings.SplitSeq(arg, ";;") {
		calls = append(calls, multiCall{command: strings.TrimSpace(command)})
	}
	return calls
}

func (p *planner) multi(m multiCall) (toolCall, bool) {
	if m.command != "" {
		return p.shell(shell{command: m.command})
	}
	return p.named(m.Name + " " + string(m.Input))
}

// named reads "bash command" or "Name {json}"; Name may be "namespace::name".
func (p *planner) named(arg string) (toolCall, bool) {
	name, input, _ := strings.Cut(arg, " ")
	if name == "bash" && !strings.HasPrefix(strings.TrimSpace(input), "{") {
		return p.shell(shell{command: input})
	}
	t := tool{name: name}
	if ns, rest, ok := strings.Cut(name, "::"); ok {
		t = tool{namespace: ns, name: rest}
	} else if known, ok := p.conv.find(name); ok {
		t = known
	}
	input = cmp.Or(strings.TrimSpace(input), "{}")
	if _, listed := p.conv.find(t.name); p.codeMode() && !listed {
		return p.script(strings.TrimPrefix(t.namespace+"__"+t.name, "__"), input), true
	}
	return toolCall{tool: t, args: input}, t.name != ""
}

// A shell is a command to run with whatever shell tool the request offers.
type shell struct {
	command  string
	escalate bool
	prefix   []string
	yieldMS  int
}

// escalated reads "[prefix words] command" or "command".
func escalated(arg string) shell {
	s := shell{command: arg, escalate: true}
	if rest, ok := strings.CutPrefix(arg, "["); ok {
		if prefix, command, ok := strings.Cut(rest, "] "); ok {
			s.prefix, s.command = strings.Fields(prefix), command
		}
	}
	return s
}

// shellTools are the names of shell tools, best first.
var shellTools = []string{"Bash", "exec_command", "shell_command", "run_shell_command", "bash", "shell", "Shell"}

// shell returns the call that runs s.
func (p *planner) shell(s shell) (toolCall, bool) {
	t, ok := p.conv.find(shellTools...)
	args := map[string]any{}
	if s.escalate {
		args["sandbox_permissions"] = "require_escalated"
		args["justification"] = "needs to write outside the sandbox"
	}
	if s.prefix != nil {
		args["prefix_rule"] = s.prefix
	}
	switch {
	case p.codeMode():
		args["cmd"], args["yield_time_ms"] = s.command, cmp.Or(s.yieldMS, 10_000)
		return p.script("exec_command", toJSON(args)), true
	case !ok:
		return toolCall{}, false
	case t.name == "exec_command":
		args["cmd"], args["yield_time_ms"] = s.command, cmp.Or(s.yieldMS, 10_000)
	case t.name == "shell_command":
		args["command"], args["timeout_ms"] = s.command, 60_000
	case t.name == "shell":
		args["command"], args["timeout_ms"] = []string{"bash", "-lc", s.command}, 60_000
	case t.name == "run_shell_command":
		args = map[string]any{"command": s.command, "description": "Run scripted command", "is_background": false}
	default:
		args = map[string]any{"command": s.command, "description": "Run scripted command"}
	}
	return toolCall{tool: t, args: toJSON(args)}, true
}

// codeMode reports whether the request offers only the free-form "exec" tool, which runs JavaScript that calls the others.
func (p *planner) codeMode() bool {
	if _, classic := p.conv.find("exec_command"); classic {
		return false
	}
	t, ok := p.conv.find("exec")
	return ok && t.custom
}

// script returns the code-mode call of a tool with JSON arguments.
func (p *planner) script(name, args string) toolCall {
	t, _ := p.conv.find("exec")
	return toolCall{tool: t, args: fmt.Sprintf("const r = await tools.%s(%s); text(r);", name, args)}
}

var sessionID = regexp.MustCompile(`(?i)session[ _]ID"?:? ?(\d+)`)

// poll starts a command that outlives its call and then looks at it (SHELLPOLL) or types a line into it (SHELLSTDIN).
func (p *planner) poll(l line, left []result) []toolCall {
	if len(left) == 0 {
		c, ok := p.shell(shell{command: l.arg, yieldMS: 1000})
		if !ok {
			return []toolCall{}
		}
		return []toolCall{c}
	}
	m := sessionID.FindStringSubmatch(left[len(left)-1].text)
	if m == nil || len(left) > maxPolls {
		return nil
	}
	chars := ""
	if l.verb == "SHELLSTDIN" {
		chars = "typed-line\n"
	}
	c, _ := p.named("write_stdin " + fmt.Sprintf(`{"session_id":%s,"chars":%s,"yield_time_ms":1500}`, m[1], toJSON(chars)))
	return []toolCall{c}
}

// task reads "prompt [BG]": the prompt is the script of the subagent.
func (p *planner) task(arg string) (toolCall, bool) {
	t, ok := p.conv.find("Agent", "Task", "task", "agent", "spawn_agent")
	prompt, background := strings.CutSuffix(arg, " BG")
	if t.name == "spawn_agent" { // codex; always in the background
		return toolCall{tool: t, args: toJSON(map[string]any{"task_name": "helper", "message": unescape(prompt)})}, true
	}
	args := map[string]any{"description": "Scripted subtask", "prompt": unescape(prompt), "subagent_type": "general-purpose"}
	if t.name == "task" {
		args["subagent_type"] = "general" // what opencode calls it
	}
	if background {
		args["run_in_background"] = true
	}
	return toolCall{tool: t, args: toJSON(args)}, ok
}

// patch returns the call that creates a file (PATCH path [text]), replaces a text in one (PATCHUPD path old new) or
// applies a patch as written (PATCHRAW).
func (p *planner) patch(l line) (toolCall, bool) {
	path, rest, _ := strings.Cut(l.arg, " ")
	path = cmp.Or(path, "hello.txt")
	oldText, newText, _ := strings.Cut(rest, " ")
	if l.verb == "PATCH" {
		newText = unescape(cmp.Or(rest, "hello from patch"))
	}
	if c, ok := p.edit(l.verb, path, oldText, newText); ok {
		return c, true
	}
	var diff string
	switch l.verb {
	case "PATCH":
		diff = "*** Begin Patch\n*** Add File: " + path + "\n+" + strings.ReplaceAll(newText, "\n", "\n+") + "\n*** End Patch"
	case "PATCHUPD":
		diff = "*** Begin Patch\n*** Update File: " + path + "\n@@\n-" + oldText + "\n+" + newText + "\n*** End Patch"
	default:
		diff = strings.TrimLeft(l.arg, "\n")
	}
	return p.applyPatch(diff)
}

// edit uses the file tools of the CLIs that have no patch tool. PATCHRAW has no such form.
func (p *planner) edit(verb, path, oldText, newText string) (toolCall, bool) {
	names := []string{"Write", "write_file", "write"}
	if verb == "PATCHUPD" {
		names = []string{"Edit", "replace", "edit"}
	}
	t, ok := p.conv.find(names...)
	if !ok || verb == "PATCHRAW" {
		return toolCall{}, false
	}
	var args map[string]any
	switch t.name {
	case "Write", "write_file":
		args = map[string]any{"file_path": path, "content": newText}
	case "write":
		args = map[string]any{"filePath": path, "path": path, "content": newText}
	case "Edit", "replace":
		args = map[string]any{"file_path": path, "old_string": oldText, "new_string": newText}
	default:
		args = map[string]any{"filePath": path, "path": path, "oldString": oldText, "newString": newText, "oldText": oldText, "newText": newText}
	}
	return toolCall{tool: t, args: toJSON(args)}, true
}

// applyPatch calls apply_patch in the form that the request offers, as a shell command if in none.
func (p *planner) applyPatch(diff string) (toolCall, bool) {
	t, ok := p.conv.find("apply_patch")
	switch {
	case p.codeMode():
		return p.script("apply_patch", toJSON(diff)), true
	case ok && t.custom:
		return toolCall{tool: t, args: diff}, true
	case ok:
		return toolCall{tool: t, args: toJSON(map[string]any{"input": diff})}, true
	}
	return p.shell(shell{command: "apply_patch <<'PATCH'\n" + diff + "\nPATCH"})
}

// toJSON encodes a value of this package, all of which encode.
func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("fakemodel: a reply does not encode: " + err.Error())
	}
	return string(b)
}
