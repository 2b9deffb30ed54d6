package codex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// An item is one of codex's, of any type, in the app-server's words. Fields of other types are zero.
type item struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Status string `json:"status"`

	Text    string          `json:"text"`
	Summary []string        `json:"summary"`
	Content json.RawMessage `json:"content"`

	Command    string          `json:"command"`
	Cwd        string          `json:"cwd"`
	ProcessID  string          `json:"processId"`
	Source     string          `json:"source"`
	Actions    []commandAction `json:"commandActions"`
	Output     *string         `json:"aggregatedOutput"`
	ExitCode   *int            `json:"exitCode"`
	DurationMs *int64          `json:"durationMs"`

	Changes []fileChange `json:"changes"`

	Server       string          `json:"server"`
	Namespace    string          `json:"namespace"`
	Tool         string          `json:"tool"`
	Arguments    json.RawMessage `json:"arguments"`
	Result       json.RawMessage `json:"result"`
	Error        json.RawMessage `json:"error"`
	ContentItems json.RawMessage `json:"contentItems"`

	Query  string          `json:"query"`
	Action json.RawMessage `json:"action"`

	Kind      string          `json:"kind"`
	AgentID   string          `json:"agentThreadId"`
	AgentPath string          `json:"agentPath"`
	Model     string          `json:"model"`
	Receivers []string        `json:"receiverThreadIds"`
	Prompt    string          `json:"prompt"`
	Agents    json.RawMessage `json:"agentsStates"`

	Path          string `json:"path"`
	SavedPath     string `json:"savedPath"`
	RevisedPrompt string `json:"revisedPrompt"`

	// raw is the whole item.
	raw json.RawMessage
}

// commandAction is what codex believes that a command does.
type commandAction struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Path    string `json:"path"`
	Query   string `json:"query"`
}

// fileChange is one file of a patch. Diff is the content of a file that is added or deleted, and unified hunks for one that is changed.
type fileChange struct {
	Path string     `json:"path"`
	Kind changeKind `json:"kind"`
	Diff string     `json:"diff"`
}

// changeKind is {type,move_path}, or in `codex exec` the type alone.
type changeKind struct {
	Type     string `json:"type"`
	MovePath string `json:"move_path"`
}

// UnmarshalJSON takes both forms.
func (k *changeKind) UnmarshalJSON(data []byte) error {
	if word := jsonscan.String(data); word != "" {
		k.Type = word
		return nil
	}
	type plain changeKind
	return json.Unmarshal(data, (*plain)(k))
}

// The names of codex's tools, as its items call them.
const (
	toolCommand = "commandExecution"
	toolPatch   = "fileChange"
	toolSearch  = "webSearch"
	toolPlan    = "update_plan"
	toolAgent   = "spawn_agent"
)

// quietItems are no tools, and nothing to show.
var quietItems = map[string]bool{
	"userMessage": true, "hookPrompt": true, "functionCallOutput": true, "sleep": true, "enteredReviewMode": true, "exitedReviewMode": true, "": true,
}

// describe makes the tool part of an item, without its state, and the call's input.
func describe(it *item) (part *protocol.ToolPart, input json.RawMessage) {
	part = &protocol.ToolPart{ToolCallID: it.ID, Kind: protocol.ToolKindOther, ToolName: it.Type, Title: it.Type}
	switch it.Type {
	case toolCommand:
		describeCommand(part, it)
		return part, encode(struct {
			Command string `json:"command"`
			Cwd     string `json:"cwd,omitempty"`
		}{it.Command, it.Cwd})
	case toolPatch:
		describePatch(part, it)
		return part, encode(object{"changes": json.RawMessage(cmp.Or(string(jsonscan.Get(it.raw, "changes")), "[]"))})
	case "mcpToolCall":
		part.ToolName = mcpName(it.Server, it.Tool)
		part.Title = it.Server + ": " + it.Tool
		return part, orEmpty(it.Arguments)
	case "dynamicToolCall":
		part.ToolName, part.Title = it.Tool, it.Tool
		return part, orEmpty(it.Arguments)
	case toolSearch:
		describeSearch(part, it)
		return part, encode(object{"query": it.Query, "action": it.Action})
	case "imageView":
		part.Kind, part.Title = protocol.ToolKindRead, "View "+filepath.Base(it.Path)
		part.Locations = []protocol.Location{{Path: it.Path}}
		return part, encode(object{"path": it.Path})
	case "imageGeneration":
		part.Title = "Generate an image"
		return part, encode(object{"prompt": it.RevisedPrompt})
	case "collabAgentToolCall":
		describeAgentCall(part, it)
		return part, encode(object{"tool": it.Tool, "prompt": it.Prompt, "receivers": it.Receivers})
	case "subAgentActivity":
		part.ToolName, part.Kind, part.Title = toolAgent, protocol.ToolKindTask, firstLine(cmp.Or(filepath.Base(it.AgentPath), "Sub-agent"))
		part.Subagent = &protocol.Subagent{Description: it.AgentPath, Model: it.Model, AgentID: it.AgentID}
		return part, encode(object{"agent": it.AgentPath})
	}
	return part, orEmpty(it.raw) // of a type that a newer codex has: kept whole
}

func mcpName(server, tool string) string { return "mcp__" + server + "__" + tool }

func orEmpty(raw json.RawMessage) json.RawMessage {
	if jsonscan.IsNull(raw) || !json.Valid(raw) {
		return json.RawMessage("{}")
	}
	return bytes.Clone(raw)
}

func describeCommand(part *protocol.ToolPart, it *item) {
	part.Kind = protocol.ToolKindExecute
	part.Title = firstLine(cmp.Or(unwrapShell(it.Command), "Run a command"))
	kinds := map[string]protocol.ToolKind{"read": protocol.ToolKindRead, "listFiles": protocol.ToolKindSearch, "search": protocol.ToolKindSearch}
	for i, a := range it.Actions {
		kind, known := kinds[a.Type]
		if !known || i > 0 && kind != part.Kind {
			part.Kind, part.Locations = protocol.ToolKindExecute, nil
			return
		}
		part.Kind = kind
		if a.Path == "" {
			continue
		}
		path := a.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(it.Cwd, path)
		}
		part.Locations = append(part.Locations, protocol.Location{Path: path})
	}
}

// unwrapShell takes the command out of the shell call that codex makes of it, such as /bin/bash -lc 'make test'.
func unwrapShell(command string) string {
	for _, flag := range []string{" -lc ", " -c "} {
		shell, script, ok := strings.Cut(command, flag)
		if !ok || strings.ContainsAny(shell, " '\"") {
			continue
		}
		if len(script) >= 2 && script[0] == '\'' && script[len(script)-1] == '\'' {
			return strings.ReplaceAll(script[1:len(script)-1], `'\''`, "'")
		}
		if len(script) >= 2 && script[0] == '"' && script[len(script)-1] == '"' {
			return strings.NewReplacer(`\"`, `"`, `\$`, "$", "\\`", "`", `\\`, `\`).Replace(script[1 : len(script)-1])
		}
		return script
	}
	return command
}

func describePatch(part *protocol.ToolPart, it *item) {
	part.Kind = protocol.ToolKindEdit
	deletes, moves := 0, 0
	for _, c := range it.Changes {
		path := c.Path
		switch {
		case c.Kind.Type == "delete":
			deletes++
		case c.Kind.MovePath != "":
			moves++
			path = c.Kind.MovePath
		}
		part.Locations = append(part.Locations, protocol.Location{Path: path, Line: firstHunkLine(c)})
	}
	verb := "Edit "
	switch n := len(it.Changes); {
	case n > 0 && deletes == n:
		part.Kind, verb = protocol.ToolKindDelete, "Delete "
	case n > 0 && moves == n:
		part.Kind, verb = protocol.ToolKindMove, "Move "
	}
	switch len(it.Changes) {
	case 0:
		part.Title = "Edit files"
	case 1:
		part.Title = verb + filepath.Base(it.Changes[0].Path)
	default:
		part.Title = fmt.Sprintf("%s%d files", verb, len(it.Changes))
	}
}

func describeSearch(part *protocol.ToolPart, it *item) {
	part.Kind, part.Title = protocol.ToolKindSearch, "Search the web"
	url := jsonscan.String(jsonscan.Get(it.Action, "url"))
	switch {
	case jsonscan.Equal(jsonscan.Get(it.Action, "type"), "openPage") && url != "":
		part.Kind, part.Title = protocol.ToolKindFetch, "Fetch "+firstLine(url)
	case it.Query != "":
		part.Title = "Search the web for " + firstLine(it.Query)
	}
}

func describeAgentCall(part *protocol.ToolPart, it *item) {
	part.ToolName, part.Title = cmp.Or(it.Tool, "agent"), cmp.Or(it.Tool, "Sub-agent")
	if !spawns(it) {
		return
	}
	part.Kind = protocol.ToolKindTask
	part.Title = firstLine(cmp.Or(it.Prompt, "Sub-agent"))
	part.Subagent = &protocol.Subagent{Description: firstLine(it.Prompt), Model: it.Model}
	if len(it.Receivers) > 0 {
		part.Subagent.AgentID = it.Receivers[0]
	}
}

// spawns reports whether the call starts a sub-agent.
func spawns(it *item) bool { return it.Tool == "spawnAgent" || it.Tool == toolAgent }

const maxTitle = 200 // bytes

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
