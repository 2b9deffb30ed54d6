package acp

import (
	"encoding/base64"
	"strings"

	"agentserver/protocol"
)

type contentBlock struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MimeType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Resource struct {
		URI      string  `json:"uri"`
		MimeType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     string  `json:"blob"`
	} `json:"resource"`
}

// promptInput returns a prompt as input. Links and embedded texts become text: every harness takes that, and the agent opens a link by itself.
func promptInput(blocks []contentBlock) (protocol.Input, error) {
	var in protocol.Input
	text := func(s string) {
		if s != "" {
			in = append(in, protocol.InputItem{Type: protocol.PartText, Text: s})
		}
	}
	for i := range blocks {
		b := &blocks[i]
		switch b.Type {
		case "text":
			text(b.Text)
		case "image":
			in = append(in, protocol.InputItem{Type: protocol.PartImage, Data: b.Data, MimeType: orElse(b.MimeType, "image/png")})
		case "resource_link":
			text(link(b.Name, b.URI))
		case "resource":
			r := &b.Resource
			if r.Text != nil {
				text(link("", r.URI) + "\n```\n" + *r.Text + "\n```")
			} else if r.Blob != "" {
				in = append(in, protocol.InputItem{Type: protocol.PartFile, Data: r.Blob, MimeType: orElse(r.MimeType, "application/octet-stream"),
					Filename: r.URI[strings.LastIndexByte(r.URI, '/')+1:]})
			}
		default:
			return nil, failure(codeInvalidParams, "content of type "+b.Type+" is not supported")
		}
	}
	if len(in) == 0 {
		return nil, failure(codeInvalidParams, "the prompt is empty")
	}
	for _, item := range in {
		if _, err := base64.StdEncoding.DecodeString(item.Data); err != nil {
			return nil, failure(codeInvalidParams, "data must be base64")
		}
	}
	return in, nil
}

// link writes a reference as editors write it in a prompt: a file by its path.
func link(name, uri string) string {
	target := strings.TrimPrefix(uri, "file://")
	if name == "" {
		name = target[strings.LastIndexByte(target, '/')+1:]
	}
	return "[" + name + "](" + target + ")"
}
