package codex

import (
	"cmp"
	"strconv"
	"strings"

	"agentserver/protocol"
)

// diffContent shows a change: the whole content of a file that is added or deleted, else one item a hunk, with its lines of context.
func diffContent(c fileChange) []protocol.ToolContent {
	if c.Path == "" {
		return nil
	}
	path := cmp.Or(c.Kind.MovePath, c.Path)
	switch {
	case c.Diff == "":
		return nil // `codex exec` gives none
	case c.Kind.Type == "add":
		return []protocol.ToolContent{protocol.DiffContent(path, nil, c.Diff)}
	case c.Kind.Type == "delete":
		return []protocol.ToolContent{protocol.DiffContent(path, &c.Diff, "")}
	}
	var content []protocol.ToolContent
	for _, h := range hunks(c.Diff) {
		content = append(content, protocol.DiffContent(path, &h.before, h.after))
	}
	return content
}

type hunk struct {
	line          int // of the new file, from 1
	before, after string
}

// hunks reads unified hunks. Lines that are none are passed over.
func hunks(diff string) []hunk {
	var all []hunk
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "@@") {
			all = append(all, hunk{line: hunkLine(line)})
			continue
		}
		if len(all) == 0 || line == "" {
			continue
		}
		h := &all[len(all)-1]
		switch text := line[1:]; line[0] {
		case '-':
			h.before += text
		case '+':
			h.after += text
		case ' ':
			h.before += text
			h.after += text
		}
	}
	return all
}

// hunkLine reads the start in the new file out of "@@ -1,2 +3,4 @@".
func hunkLine(header string) int {
	_, rest, _ := strings.Cut(header, "+")
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	n, _ := strconv.Atoi(digits)
	return n
}

// firstHunkLine is where a change begins; 0 for a whole file.
func firstHunkLine(c fileChange) int {
	if c.Kind.Type != "update" {
		return 0
	}
	for line := range strings.Lines(c.Diff) {
		if strings.HasPrefix(line, "@@") {
			return hunkLine(line)
		}
	}
	return 0
}
