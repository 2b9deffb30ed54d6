package claude

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"agentserver/harness"
	"agentserver/protocol"
)

// encode makes one line. HTML is not escaped: the CLI passes tool inputs on as they are. What it gets always encodes.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("claude: " + err.Error()) // only our own types come here, and raw JSON that was decoded before
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

type object = map[string]any

// requestLine is a control request of ours.
func requestLine(id string, request object) []byte {
	return encode(struct {
		Type      string `json:"type"`
		RequestID string `json:"request_id"`
		Request   object `json:"request"`
	}{"control_request", id, request})
}

// answerLine answers a control request of the CLI.
func answerLine(id string, response any) []byte {
	return encode(object{"type": "control_response", "response": object{"subtype": "success", "request_id": id, "response": response}})
}

func refusalLine(id, message string) []byte {
	return encode(object{"type": "control_response", "response": object{"subtype": "error", "request_id": id, "error": message}})
}

// userLine is a user message. The uuid names it in the CLI's acknowledgement; it must be new.
func userLine(uuid string, in protocol.Input) ([]byte, error) {
	content, err := inputContent(in)
	if err != nil {
		return nil, err
	}
	return encode(struct {
		Type      string  `json:"type"`
		Message   object  `json:"message"`
		Parent    *string `json:"parent_tool_use_id"`
		SessionID string  `json:"session_id"`
		UUID      string  `json:"uuid"`
	}{"user", object{"role": "user", "content": content}, nil, "", uuid}), nil
}

func inputContent(in protocol.Input) ([]object, error) {
	content := make([]object, 0, len(in))
	for i, item := range in {
		block, err := inputBlock(item)
		if err != nil {
			return nil, &harness.Error{Category: protocol.CategoryInvalidRequest, Message: fmt.Sprintf("input[%d]: %v", i, err)}
		}
		content = append(content, block)
	}
	return content, nil
}

func inputBlock(item protocol.InputItem) (object, error) {
	switch item.Type {
	case protocol.PartText:
		return object{"type": "text", "text": item.Text}, nil
	case protocol.PartImage:
		return object{"type": "image", "source": inputSource(item)}, nil
	}
	return documentBlock(item)
}

func inputSource(item protocol.InputItem) object {
	if item.URL != "" {
		return object{"type": "url", "url": item.URL}
	}
	return object{"type": "base64", "media_type": item.MimeType, "data": item.Data}
}

// documentBlock makes what the API takes as a document: a PDF, or text.
func documentBlock(item protocol.InputItem) (object, error) {
	mime, _, _ := strings.Cut(item.MimeType, ";")
	if strings.HasPrefix(mime, "image/") {
		return object{"type": "image", "source": inputSource(item)}, nil
	}
	block := object{"type": "document"}
	if item.Filename != "" {
		block["title"] = item.Filename
	}
	switch {
	case mime == "application/pdf":
		block["source"] = inputSource(item)
		return block, nil
	case item.URL != "":
		return nil, fmt.Errorf("a file of type %s cannot be given by url: give its data, or save it under the working directory and name its path", item.MimeType)
	}
	data, err := base64.StdEncoding.DecodeString(item.Data)
	if err != nil || !utf8.Valid(data) {
		return nil, fmt.Errorf("a file of type %s cannot be given to claude, which takes images, PDF and text: save it under the working directory and name its path", item.MimeType)
	}
	block["source"] = object{"type": "text", "media_type": "text/plain", "data": string(data)}
	return block, nil
}
