package acp

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"agentserver/harness"
	"agentserver/protocol"
)

// promptBlocks returns an input as ACP content, by what the agent takes. What it does not take becomes a link or text; what cannot be either is left out,
// which the text says to the model and a failure to the client.
func promptBlocks(in protocol.Input, caps *agentCapabilities) (blocks []any, failures []harness.Failure) {
	for i := range in {
		block, why := promptBlock(&in[i], i, caps)
		blocks = append(blocks, block)
		if why != "" {
			failures = append(failures, harness.Failure{Category: protocol.CategoryInvalidRequest, Message: fmt.Sprintf("input[%d]: %s", i, why)})
		}
	}
	return blocks, failures
}

func promptBlock(item *protocol.InputItem, i int, caps *agentCapabilities) (block object, why string) {
	switch {
	case item.Type == protocol.PartText:
		return textBlock(item.Text), ""
	case item.URL != "":
		return object{"type": "resource_link", "uri": item.URL, "name": orElse(item.Filename, orElse(baseName(item.URL), item.URL)), "mimeType": item.MimeType}, ""
	case strings.HasPrefix(item.MimeType, "image/") && caps.Prompt.Image:
		return object{"type": "image", "data": item.Data, "mimeType": item.MimeType}, ""
	case item.Type == protocol.PartImage:
		return leftOut(item, "image"), "the agent takes no images; the image was left out, and the model told so. Give it as a file in the workspace instead"
	case strings.HasPrefix(item.MimeType, "audio/") && caps.Prompt.Audio:
		return object{"type": "audio", "data": item.Data, "mimeType": item.MimeType}, ""
	}
	return fileBlock(item, i, caps)
}

func fileBlock(item *protocol.InputItem, i int, caps *agentCapabilities) (block object, why string) {
	name := orElse(item.Filename, fmt.Sprintf("file-%d", i+1))
	data, err := base64.StdEncoding.DecodeString(item.Data)
	isText := err == nil && utf8.Valid(data)
	switch {
	case caps.Prompt.EmbeddedContext:
		resource := object{"uri": "attachment:///" + url.PathEscape(name), "mimeType": item.MimeType}
		if isText {
			resource["text"] = string(data)
		} else {
			resource["blob"] = item.Data
		}
		return object{"type": "resource", "resource": resource}, ""
	case isText:
		return textBlock(fmt.Sprintf("File %s:\n%s", name, data)), ""
	}
	return leftOut(item, "file"), "the agent takes no embedded files that are not text; the file was left out, and the model told so. Put it into the workspace and name its path instead"
}

func textBlock(text string) object { return object{"type": "text", "text": text} }

func leftOut(item *protocol.InputItem, what string) object {
	return textBlock(fmt.Sprintf("[%s left out: %s (%s) cannot be given to this agent]", what, orElse(item.Filename, "no name"), item.MimeType))
}
