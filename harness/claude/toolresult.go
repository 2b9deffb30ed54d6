package claude

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// MetaExitCode holds, in the `_meta` of a failed tool state, the exit status of a command: such a state has no metadata.
const MetaExitCode = "agent-server/exitCode"

// maxDiffText is the longest text of a file, in bytes, that a diff carries whole. Of longer ones it carries the changed lines and their context.
const maxDiffText = 256 << 10

// maxMetadata bounds, in bytes, what is taken over from an MCP server's structured result.
const maxMetadata = 64 << 10

// resultState makes the final state of a call. structured is the CLI's side-band result: an object, an array or a string; it may be absent.
func resultState(call *tool, b *contentBlock, structured json.RawMessage, interrupted bool) protocol.ToolState {
	output, content := resultContent(b.Content)
	if b.IsError {
		if interrupted && wasStopped(output) {
			return &protocol.ToolCancelled{Input: call.input}
		}
		failed := &protocol.ToolFailed{Input: call.input, Error: output}
		if code, ok := exitCode(output); ok && call.part.Kind == protocol.ToolKindExecute {
			failed.Meta = failed.Meta.With(MetaExitCode, code)
		}
		return failed
	}
	done := &protocol.ToolCompleted{Input: call.input, Output: output, Content: content}
	enrich(call, done, structured)
	return done
}

// resultContent splits a result into what the model read and what is shown beside it.
func resultContent(raw json.RawMessage) (output string, content []protocol.ToolContent) {
	var bs blocks
	if err := json.Unmarshal(raw, &bs); err != nil || len(bs) == 0 {
		return "", nil
	}
	var texts []string
	for _, b := range bs {
		switch {
		case b.Type == "text":
			texts = append(texts, b.Text)
		case b.Type == "image" && b.Source != nil && b.Source.Data != "" && b.Source.MediaType != "":
			content = append(content, protocol.ImageContent(b.Source.Data, b.Source.MediaType))
		}
	}
	return strings.Join(texts, "\n"), content
}

// wasStopped recognises the canned results of calls that an interrupt ended.
func wasStopped(output string) bool {
	return strings.HasPrefix(output, "The user doesn't want to") || strings.Contains(output, "[Request interrupted by user") ||
		strings.Contains(output, "<tool_use_error>Cancelled") || strings.Contains(output, "Interrupted by user")
}

var exitCodeText = regexp.MustCompile(`^(?:Error: )?Exit code (\d+)`)

func exitCode(output string) (int, bool) {
	m := exitCodeText.FindStringSubmatch(output)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// enrich takes out of the structured result what displays and machines want.
func enrich(call *tool, done *protocol.ToolCompleted, structured json.RawMessage) {
	if len(structured) == 0 || structured[0] != '{' {
		return
	}
	switch {
	case call.part.ToolName == "Bash" || call.part.ToolName == "PowerShell":
		done.Metadata = bashMetadata(structured)
	case call.part.Kind == protocol.ToolKindEdit:
		if diff, line, ok := diffContent(structured); ok {
			done.Content = append(done.Content, diff)
			if len(call.part.Locations) > 0 {
				call.part.Locations = []protocol.Location{{Path: diff.Path, Line: line}}
			}
		}
	case call.part.Kind == protocol.ToolKindTask:
		done.Metadata = pick(structured, "agentId", "status", "totalDurationMs", "totalTokens", "totalToolUseCount", "resolvedModel")
	case call.part.Kind == protocol.ToolKindFetch:
		done.Metadata = pick(structured, "url", "code", "codeText", "bytes", "durationMs")
	case call.part.ToolName == "TodoWrite":
		done.Metadata = pick(structured, "oldTodos", "newTodos")
	case call.part.Kind == protocol.ToolKindThink:
		done.Metadata = pick(structured, "task", "tasks", "taskId", "statusChange")
	case call.part.ToolName == "AskUserQuestion":
		done.Metadata = pick(structured, "answers")
	case call.part.Kind == protocol.ToolKindRead:
		if file := jsonscan.Get(structured, "file"); file != nil {
			done.Metadata = pick(file, "filePath", "numLines", "startLine", "totalLines", "type", "originalSize")
		}
	case strings.HasPrefix(call.part.ToolName, "mcp__") && len(structured) <= maxMetadata:
		done.Metadata = structured
	}
}

// bashMetadata has the exit status: a command that fails is an error, so it is 0 here, or not known yet in the background.
func bashMetadata(structured json.RawMessage) json.RawMessage {
	m := object{}
	if id := text(jsonscan.Get(structured, "backgroundTaskId")); id != "" {
		m["backgroundTaskId"] = id
	} else if !isTrue(jsonscan.Get(structured, "interrupted")) {
		m["exitCode"] = 0
	}
	if isTrue(jsonscan.Get(structured, "interrupted")) {
		m["interrupted"] = true
	}
	for _, name := range []string{"returnCodeInterpretation", "persistedOutputPath"} {
		if v := text(jsonscan.Get(structured, name)); v != "" {
			m[name] = v
		}
	}
	return encode(m)
}

func isTrue(raw []byte) bool { return string(raw) == "true" }

// pick returns an object of the named members of obj, nil if it has none of them.
func pick(obj json.RawMessage, names ...string) json.RawMessage {
	m := map[string]json.RawMessage{}
	for _, name := range names {
		if v := jsonscan.Get(obj, name); !jsonscan.IsNull(v) && len(v) <= maxMetadata {
			m[name] = v
		}
	}
	if len(m) == 0 {
		return nil
	}
	return encode(m)
}

type hunk struct {
	NewStart int      `json:"newStart"`
	Lines    []string `json:"lines"`
}

// diffContent makes the diff of an Edit, Write or NotebookEdit, and the first line that changed.
func diffContent(structured json.RawMessage) (diff protocol.ToolContent, line int, ok bool) {
	var r struct {
		FilePath     string  `json:"filePath"`
		NotebookPath string  `json:"notebook_path"`
		OldString    *string `json:"oldString"`
		NewString    *string `json:"newString"`
		Content      *string `json:"content"`
		OriginalFile *string `json:"originalFile"`
		Patch        []hunk  `json:"structuredPatch"`
	}
	if json.Unmarshal(structured, &r) != nil {
		return diff, 0, false
	}
	path := r.FilePath
	if path == "" {
		path = r.NotebookPath
	}
	if path == "" {
		return diff, 0, false
	}
	if len(r.Patch) > 0 {
		line = changedLine(r.Patch[0])
	}
	switch {
	case r.OldString != nil && r.NewString != nil && len(*r.OldString)+len(*r.NewString) <= maxDiffText:
		return protocol.DiffContent(path, r.OldString, *r.NewString), line, true
	case r.Content != nil && r.OriginalFile == nil:
		return protocol.DiffContent(path, nil, *r.Content), line, true
	case r.Content != nil && len(*r.Content)+len(*r.OriginalFile) <= maxDiffText:
		return protocol.DiffContent(path, r.OriginalFile, *r.Content), line, true
	case len(r.Patch) > 0:
		before, after := patchTexts(r.Patch)
		return protocol.DiffContent(path, &before, after), line, true
	}
	return diff, 0, false
}

// changedLine returns the first line, in the new file, that a hunk changes.
func changedLine(h hunk) int {
	for i, l := range h.Lines {
		if !strings.HasPrefix(l, " ") {
			return h.NewStart + i
		}
	}
	return h.NewStart
}

// patchTexts puts the old and the new side of all hunks together.
func patchTexts(hunks []hunk) (before, after string) {
	var b, a strings.Builder
	for _, h := range hunks {
		for _, l := range h.Lines {
			if l == "" || l[0] == '\\' { // "\ No newline at end of file"
				continue
			}
			if l[0] != '+' {
				b.WriteString(l[1:] + "\n")
			}
			if l[0] != '-' {
				a.WriteString(l[1:] + "\n")
			}
		}
	}
	return b.String(), a.String()
}
