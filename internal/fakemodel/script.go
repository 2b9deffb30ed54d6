package fakemodel

import (
	"slices"
	"strings"
)

// A line is one directive of a script: an upper-case verb at the start of a line, and what follows it.
type line struct {
	verb string
	arg  string
}

// verbs lists the directives; true marks one whose argument runs on over the following lines that are not
// directives themselves.
var verbs = map[string]bool{
	"SAY": false, "THINK": false, "THINKRAW": false, "TOOL": true, "SHELL": false, "SHELLESC": false,
	"SHELLPOLL": false, "SHELLSTDIN": false, "MULTI": true, "LOOP": true, "SLOW": false, "SLOWTOOL": false,
	"HANG": false, "GATE": false, "ERR": false, "ERRN": false, "MAXTOK": false, "REFUSE": false, "TASK": false,
	"BIGTEXT": false, "BIGDELTA": false, "DROP": false, "EVERR": false, "EMPTY": false, "IMG": false,
	"PAUSE": false, "CTXLIM": false, "PATCH": false, "PATCHRAW": true, "PATCHUPD": false, "PLAN": false,
	"CUSTOM": true, "WEBSEARCH": false, "TOOLS": false, "ECHOMODEL": false, "JSONOUT": false, "USAGE": false,
}

// parseScript returns the directives of text, in order. Lines before the first directive, and between
// directives whose argument is a single line, are prose and ignored.
func parseScript(text string) []line {
	var script []line
	var more []string // the lines that run on from the last directive
	end := func() {
		if n := len(script); n > 0 {
			script[n-1].arg = strings.TrimRight(strings.Join(append([]string{script[n-1].arg}, more...), "\n"), " \t\n")
		}
		more = nil
	}
	for raw := range strings.Lines(text) {
		raw = strings.TrimRight(raw, "\r\n")
		verb, arg, _ := strings.Cut(strings.TrimLeft(raw, " \t"), " ")
		if _, ok := verbs[verb]; ok {
			end()
			script = append(script, line{verb: verb, arg: strings.TrimSpace(arg)})
		} else if n := len(script); n > 0 && verbs[script[n-1].verb] {
			more = append(more, raw)
		}
	}
	end()
	return script
}

// unescape turns the two characters \n into a line break, so that one directive line can hold several lines.
func unescape(s string) string { return strings.ReplaceAll(s, `\n`, "\n") }

// injected are the openings of texts that a CLI itself puts into user messages; they are never a script.
var injected = []string{
	"<system-reminder>", "<environment_context", "<user_instructions", "<permissions", "<skills", "<turn_aborted",
	"<apps", "<collaboration", "<multi_agent", "<local-command", "<command-", "<task-notification", "# AGENTS.md",
	"[Request interrupted",
}

// scriptText reduces a user text to what the user wrote: "" for injected texts, without system reminders otherwise.
func scriptText(text string) string {
	trimmed := strings.TrimSpace(text)
	if slices.ContainsFunc(injected, func(p string) bool { return strings.HasPrefix(trimmed, p) }) {
		return ""
	}
	const open, closing = "<system-reminder>", "</system-reminder>"
	var kept strings.Builder
	for {
		before, rest, found := strings.Cut(trimmed, open)
		kept.WriteString(before)
		if !found {
			return kept.String()
		}
		_, trimmed, _ = strings.Cut(rest, closing)
	}
}
