package engine

import (
	"encoding/json"
	"slices"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
)

// What a driver hands over may hold what no JSON can be made of: a raw value that is cut off, an image without data. An event with it would reach
// clients as an error in its place, and a tool whose end is lost that way would run for ever on their screens. So the engine drops the piece and
// keeps the event.

// validJSON returns raw, or nil when it is not JSON or says nothing.
func validJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" || !json.Valid(raw) {
		return nil
	}
	return raw
}

// validMeta returns m, or nothing when it is no object.
func validMeta(m protocol.Meta) protocol.Meta {
	if len(m) == 0 || m[0] != '{' || !json.Valid(m) {
		return nil
	}
	return m
}

func validContent(all []protocol.ToolContent) []protocol.ToolContent {
	if !slices.ContainsFunc(all, brokenContent) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), brokenContent)
}

func brokenContent(c protocol.ToolContent) bool {
	switch c.Type {
	case protocol.ContentText:
		return false
	case protocol.ContentImage:
		return blank(c.Data) || blank(c.MimeType)
	case protocol.ContentDiff:
		return blank(c.Path) || c.NewText == nil
	case protocol.ContentTerminal:
		return blank(c.TerminalID)
	}
	_, err := c.MarshalJSON()
	return err != nil
}

// showable reports whether a part can be shown. One that this build does not know cannot: it has no place for its ids.
func showable(part protocol.Part) bool {
	switch p := part.(type) {
	case *protocol.TextPart, *protocol.ReasoningPart:
		return true
	case *protocol.ToolPart:
		return p.State != nil
	case *protocol.ImagePart:
		return (p.Data == "") != (p.URL == "") && !blank(p.MimeType)
	case *protocol.FilePart:
		return (p.Data == "") != (p.URL == "") && !blank(p.MimeType)
	}
	return false
}

// validTool returns what a permission request says about its tool; nil when it names none.
func validTool(req *harness.Permission) *protocol.PermissionTool {
	if blank(req.Tool.ToolName) {
		return nil
	}
	tool := req.Tool
	tool.RawInput = validJSON(tool.RawInput)
	return &tool
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
