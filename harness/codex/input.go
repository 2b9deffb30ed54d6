package codex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"agentserver/harness"
	"agentserver/protocol"
)

type object = map[string]any

// encode makes one line. HTML is not escaped. What it gets always encodes.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("codex: " + err.Error()) // only our own types come here, and raw JSON that was decoded before
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// maxInput is the longest text of a turn, in characters; codex refuses more.
const maxInput = 1 << 20

// userInput is a turn's input in the form of turn/start and turn/steer.
func userInput(in protocol.Input) ([]object, error) {
	if len(in) == 0 {
		return nil, badInput("the input is empty: give a text or an image")
	}
	items := make([]object, 0, len(in))
	size := 0
	for i, item := range in {
		switch item.Type {
		case protocol.PartText:
			size += utf8.RuneCountInString(item.Text)
			items = append(items, object{"type": "text", "text": item.Text, "text_elements": []any{}})
		case protocol.PartImage:
			if item.Data == "" {
				return nil, badInput(fmt.Sprintf("input[%d]: codex takes images as data: send the content, not a url", i))
			}
			items = append(items, object{"type": "image", "url": "data:" + item.MimeType + ";base64," + item.Data})
		default:
			return nil, badInput(fmt.Sprintf("input[%d]: codex takes text and images: save the file under the working directory and name its path", i))
		}
	}
	if size > maxInput {
		return nil, badInput(fmt.Sprintf("the text has %d characters and codex takes %d: save it in a file under the working directory and name its path", size, maxInput))
	}
	return items, nil
}

func badInput(message string) error {
	return &harness.Error{Category: protocol.CategoryInvalidRequest, Message: message}
}

// asksToCompact reports whether the input is the command by which a person asks for a compaction.
func asksToCompact(in protocol.Input) bool {
	return len(in) == 1 && in[0].Type == protocol.PartText && strings.TrimSpace(in[0].Text) == "/compact"
}
