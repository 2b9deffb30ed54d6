package protocol

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Input is what a turn says to the agent: a non-empty list of items. On the wire a plain string stands for one text item, and is encoded as a
// string again.
type Input []InputItem

// InputItem is {type:"text",id?,text,elements?}, {type:"image",id?,url|data,mimeType,filename?} or {type:"file",…} with the image's fields.
type InputItem struct {
	Type PartType `json:"type"`
	ID   string   `json:"id,omitempty"`
	// Text is a text item's, not empty.
	Text     string        `json:"text,omitempty"`
	Elements []TextElement `json:"elements,omitempty"`
	// Exactly one of URL and Data (base64) is set on images and files. The engine never fetches a URL.
	URL      string `json:"url,omitempty"`
	Data     string `json:"data,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Filename string `json:"filename,omitempty"`

	bare bool // came as a plain string
}

// TextElement marks a range of a text, in bytes of its UTF-8 form, that stands for something else.
type TextElement struct {
	ByteRange   [2]int `json:"byteRange"`
	Placeholder string `json:"placeholder,omitempty"`
}

// Text returns the input that a plain string stands for.
func Text(text string) Input { return Input{{Type: PartText, Text: text, bare: true}} }

// MarshalJSON encodes the list, or a plain string where the input came as one.
func (in Input) MarshalJSON() ([]byte, error) {
	if len(in) == 1 && in[0].bare {
		return marshal(in[0].Text)
	}
	return marshal([]InputItem(in))
}

// UnmarshalJSON takes a string or a list. It checks the JSON types only; see [Input.Check].
func (in *Input) UnmarshalJSON(data []byte) error {
	if b := bytes.TrimSpace(data); len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*in = Text(s)
		return nil
	}
	return json.Unmarshal(data, (*[]InputItem)(in))
}

// Check returns what is wrong with the input; paths start with path.
func (in Input) Check(path string) []FieldError {
	if len(in) == 0 {
		return []FieldError{{path, "must be a non-empty string or a non-empty list"}}
	}
	var errs []FieldError
	for i, item := range in {
		at := fmt.Sprintf("%s[%d]", path, i)
		if item.bare {
			at = path
		}
		errs = append(errs, item.check(at)...)
	}
	return errs
}

func (it InputItem) check(at string) []FieldError {
	switch it.Type {
	case PartText:
		return it.checkText(at)
	case PartImage, PartFile:
		return it.checkSource(at)
	}
	return []FieldError{{at + ".type", fmt.Sprintf("must be %q, %q or %q", PartText, PartImage, PartFile)}}
}

func (it InputItem) checkText(at string) []FieldError {
	if it.Text == "" {
		return []FieldError{{at, "text must not be empty"}}
	}
	var errs []FieldError
	for i, el := range it.Elements {
		start, end := el.ByteRange[0], el.ByteRange[1]
		if start < 0 || end < start || end > len(it.Text) || !onRune(it.Text, start) || !onRune(it.Text, end) {
			errs = append(errs, FieldError{fmt.Sprintf("%s.elements[%d].byteRange", at, i), "must lie within the text, on character borders"})
		}
	}
	return errs
}

func onRune(s string, i int) bool { return i == len(s) || utf8.RuneStart(s[i]) }

func (it InputItem) checkSource(at string) []FieldError {
	var errs []FieldError
	if err := oneSource(it.Data, it.URL); err != nil {
		errs = append(errs, FieldError{at, err.Error()})
	}
	if it.MimeType == "" {
		errs = append(errs, FieldError{at + ".mimeType", "must not be empty"})
	}
	if _, err := base64.StdEncoding.DecodeString(it.Data); err != nil {
		errs = append(errs, FieldError{at + ".data", "must be base64 (standard alphabet, padded)"})
	}
	return errs
}
