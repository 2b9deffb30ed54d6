package acp

import (
	"encoding/base64"
	"fmt"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
)

// textState is the text or thought that streams.
type textState struct {
	key       string // of the open part; empty: none
	typ       protocol.DeltaType
	messageID string
	text      strings.Builder
	blank     string // white space that is held back until more follows: some agents send a stray line break
	chunk     string // the last piece
	after     bool   // a tool call or plan came since the last text: the next one is another message
	last      string // the id of the last message
}

// chunk takes a piece of what the agent says.
func (t *translator) chunk(u *update, typ protocol.DeltaType) {
	t.addTokens(u)
	var block contentBlock
	if !lenient(u.Content, &block) {
		return
	}
	if block.Type != "text" {
		t.media(&block)
		return
	}
	t.say(typ, block.Text, u.MessageID)
}

// say takes a piece of text. Its message is another one when the id says so; without ids, when a tool call came between.
func (t *translator) say(typ protocol.DeltaType, text, messageID string) {
	if text == "" {
		return
	}
	s := &t.text
	if s.key != "" && (s.typ != typ || s.messageID != messageID) {
		t.closeText()
	}
	if s.key == "" {
		text = strings.TrimLeft(s.blank+text, "\r\n")
		if strings.TrimSpace(text) == "" {
			s.blank = text[:min(len(text), 4096)]
			return
		}
		t.openText(typ, messageID)
	}
	s.text.WriteString(text)
	s.chunk = text
	t.turn.said = true
	t.show(harness.Delta{Key: s.key, Type: typ, Text: text})
}

func (t *translator) openText(typ protocol.DeltaType, messageID string) {
	s := &t.text
	if messageID != s.last || messageID == "" && s.after {
		t.show(harness.MessageStarted{})
	}
	t.parts++
	s.key, s.typ, s.messageID, s.last = fmt.Sprintf("text-%d", t.parts), typ, messageID, messageID
	s.blank, s.after = "", false
}

// closeText ends the open text with its whole.
func (t *translator) closeText() {
	s := &t.text
	s.blank = ""
	if s.key == "" {
		return
	}
	u := harness.PartUpdate{Key: s.key, Part: &protocol.TextPart{Text: s.text.String(), State: protocol.PartDone}}
	if s.typ == protocol.DeltaReasoning {
		u.Part = &protocol.ReasoningPart{Text: s.text.String(), State: protocol.PartDone}
	}
	t.emit(u)
	s.key = ""
	s.text.Reset()
}

// lastChunk is the last piece of the text that the turn ends with, if it ends with one.
func (t *translator) lastChunk() string {
	if t.text.key == "" || t.text.typ != protocol.DeltaText {
		return ""
	}
	return strings.TrimSpace(t.text.chunk[:min(len(t.text.chunk), 2000)])
}

// media takes content that is no text.
func (t *translator) media(b *contentBlock) {
	part := mediaPart(b)
	if part == nil {
		t.strange("content", b.Type)
		return
	}
	t.closeText()
	t.parts++
	t.turn.said = true
	t.show(harness.PartUpdate{Key: fmt.Sprintf("media-%d", t.parts), Part: part})
}

// mediaPart returns the part for a content block; nil when it holds nothing.
func mediaPart(b *contentBlock) protocol.Part {
	switch b.Type {
	case "image":
		if b.Data != "" {
			return &protocol.ImagePart{Data: b.Data, MimeType: orElse(b.MimeType, "image/png")}
		}
		if b.URI != "" {
			return &protocol.ImagePart{URL: b.URI, MimeType: orElse(b.MimeType, "image/png")}
		}
	case "audio":
		if b.Data != "" {
			return &protocol.FilePart{Data: b.Data, MimeType: orElse(b.MimeType, "audio/wav")}
		}
	case "resource_link":
		if b.URI != "" {
			return &protocol.FilePart{URL: b.URI, MimeType: orElse(b.MimeType, octets), Filename: b.Name}
		}
	case "resource":
		r := &b.Resource
		switch {
		case r.Text != nil && *r.Text != "":
			return &protocol.FilePart{Data: base64.StdEncoding.EncodeToString([]byte(*r.Text)), MimeType: orElse(r.MimeType, "text/plain"), Filename: baseName(r.URI)}
		case r.Blob != "":
			return &protocol.FilePart{Data: r.Blob, MimeType: orElse(r.MimeType, octets), Filename: baseName(r.URI)}
		case r.URI != "":
			return &protocol.FilePart{URL: r.URI, MimeType: orElse(r.MimeType, octets), Filename: baseName(r.URI)}
		}
	}
	return nil
}

const octets = "application/octet-stream"

func baseName(uri string) string { return uri[strings.LastIndexByte(uri, '/')+1:] }
