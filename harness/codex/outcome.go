package codex

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// MetaExitCode holds, in the `_meta` of a failed tool state, the exit status of a command: such a state has no metadata.
const MetaExitCode = "agent-server/exitCode"

// maxMetadata bounds, in bytes, what is taken over from an MCP server's structured result.
const maxMetadata = 64 << 10

// outcome is the final state of an item that codex has completed.
func outcome(it *item, input json.RawMessage) protocol.ToolState {
	if it.Status == "declined" {
		return &protocol.ToolFailed{Input: input, Error: "The call was refused."}
	}
	switch it.Type {
	case toolCommand:
		return commandOutcome(it, input)
	case toolPatch:
		return patchOutcome(it, input)
	case "mcpToolCall":
		return resultOutcome(it, input, jsonscan.Get(it.Result, "content"), jsonscan.Get(it.Result, "structuredContent"))
	case "dynamicToolCall":
		return resultOutcome(it, input, it.ContentItems, nil)
	case toolSearch:
		return &protocol.ToolCompleted{Input: input, Metadata: known(it.Action)}
	case "collabAgentToolCall":
		if it.Status == "failed" {
			return &protocol.ToolFailed{Input: input, Error: "The sub-agent call failed."}
		}
		return &protocol.ToolCompleted{Input: input, Metadata: known(it.Agents)}
	case "imageGeneration":
		if it.Status == "failed" {
			return &protocol.ToolFailed{Input: input, Error: "No image was made."}
		}
		return &protocol.ToolCompleted{Input: input, Output: it.SavedPath}
	}
	if it.Status == "failed" {
		return &protocol.ToolFailed{Input: input, Error: it.Type + " failed."}
	}
	return &protocol.ToolCompleted{Input: input}
}

func known(raw json.RawMessage) json.RawMessage {
	if jsonscan.IsNull(raw) {
		return nil
	}
	return raw
}

// commandOutcome takes the whole output: the deltas that codex sends before lack its beginning.
func commandOutcome(it *item, input json.RawMessage) protocol.ToolState {
	output := ""
	if it.Output != nil {
		output = *it.Output
	}
	if it.Status != "failed" {
		meta := object{}
		if it.ExitCode != nil {
			meta["exitCode"] = *it.ExitCode
		}
		if it.DurationMs != nil {
			meta["durationMs"] = *it.DurationMs
		}
		done := &protocol.ToolCompleted{Input: input, Output: output}
		if len(meta) > 0 {
			done.Metadata = encode(meta)
		}
		return done
	}
	failed := &protocol.ToolFailed{Input: input, Error: output}
	switch {
	case it.ExitCode == nil:
		failed.Error = cmp.Or(output, "The command could not be run.")
		return failed
	case *it.ExitCode < 0:
		failed.Error = cmp.Or(output, "The command was killed.")
	default:
		failed.Error = cmp.Or(output, fmt.Sprintf("The command exited with status %d.", *it.ExitCode))
	}
	failed.Meta = failed.Meta.With(MetaExitCode, *it.ExitCode)
	return failed
}

// patchOutcome lists the files as codex does to the model, and shows what changed in them.
func patchOutcome(it *item, input json.RawMessage) protocol.ToolState {
	if it.Status == "failed" {
		return &protocol.ToolFailed{Input: input, Error: "The patch could not be applied."}
	}
	var output strings.Builder
	var content []protocol.ToolContent
	letters := map[string]string{"add": "A", "delete": "D"}
	for _, c := range it.Changes {
		fmt.Fprintf(&output, "%s %s\n", cmp.Or(letters[c.Kind.Type], "M"), cmp.Or(c.Kind.MovePath, c.Path))
		content = append(content, diffContent(c)...)
	}
	return &protocol.ToolCompleted{Input: input, Output: output.String(), Content: content}
}

// resultOutcome is the end of a tool that answers with content blocks.
func resultOutcome(it *item, input, content, structured json.RawMessage) protocol.ToolState {
	output, shown := resultContent(content)
	if it.Status == "failed" {
		message := cmp.Or(jsonscan.String(jsonscan.Get(it.Error, "message")), output, "The tool failed.")
		return &protocol.ToolFailed{Input: input, Error: message}
	}
	done := &protocol.ToolCompleted{Input: input, Output: output, Content: shown}
	if s := known(structured); len(s) > 0 && len(s) <= maxMetadata {
		done.Metadata = s
		if output == "" {
			done.Output = string(s)
		}
	}
	return done
}

// resultContent splits content blocks into what the model read and what is shown beside it.
func resultContent(raw json.RawMessage) (output string, content []protocol.ToolContent) {
	var blocks []struct {
		Type, Text, Data, MimeType, ImageURL string
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return "", nil
	}
	var texts []string
	for _, b := range blocks {
		switch {
		case b.Type == "text" || b.Type == "inputText":
			texts = append(texts, b.Text)
		case b.Type == "image" && b.Data != "" && b.MimeType != "":
			content = append(content, protocol.ImageContent(b.Data, b.MimeType))
		}
	}
	return strings.Join(texts, "\n"), content
}
