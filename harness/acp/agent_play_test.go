package acp_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func (a *scriptedAgent) prompt(id json.RawMessage, prompt []map[string]any, cancel chan struct{}) {
	a.saveSession("", "turn")
	var script string
	for _, block := range prompt {
		if text, ok := block["text"].(string); ok {
			script += text + "\n"
		}
	}
	stop := "end_turn"
	var late []string
	for line := range strings.Lines(script) {
		verb, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		select {
		case <-cancel:
			a.endCancelled(id)
			return
		default:
		}
		switch verb {
		case "STOP":
			stop = rest
		case "LATE":
			late = append(late, rest)
		case "ERR":
			code, message, _ := strings.Cut(rest, " ")
			n, _ := strconv.Atoi(code)
			a.fail(id, n, message, nil)
			return
		case "BLOCKS":
			data, _ := json.Marshal(prompt)
			a.say(string(data))
		case "HANG", "ASK":
			if !a.wait(verb, rest, cancel) {
				a.endCancelled(id)
				return
			}
		default:
			a.play(verb, rest)
		}
	}
	a.mu.Lock()
	a.cancel = nil
	a.mu.Unlock()
	a.answer(id, map[string]any{"stopReason": stop, "usage": map[string]any{"totalTokens": 45, "inputTokens": 30, "outputTokens": 15, "cachedReadTokens": 10}})
	for _, l := range late {
		time.Sleep(30 * time.Millisecond)
		verb, rest, _ := strings.Cut(l, " ")
		a.play(verb, rest)
	}
}

func (a *scriptedAgent) endCancelled(id json.RawMessage) {
	stop := a.cfg.CancelEnd
	switch stop {
	case "":
		stop = "cancelled"
	case "error":
		a.fail(id, -32603, "aborted", nil)
		return
	}
	a.answer(id, map[string]any{"stopReason": stop})
}

// wait plays what takes until somebody acts.
func (a *scriptedAgent) wait(verb, rest string, cancel chan struct{}) bool {
	if verb == "HANG" {
		<-cancel
		return false
	}
	call := map[string]any{"toolCallId": "asked", "title": rest, "kind": "execute", "status": "pending", "rawInput": map[string]any{"command": rest}}
	if path, ok := strings.CutPrefix(rest, "edit "); ok {
		call = map[string]any{"toolCallId": "asked", "title": rest, "kind": "edit",
			"content": []any{map[string]any{"type": "diff", "path": path, "oldText": nil, "newText": "new"}}}
	}
	_, answer := a.ask("session/request_permission", map[string]any{"sessionId": a.session, "toolCall": call, "options": []any{
		map[string]any{"optionId": "1", "name": "Always", "kind": "allow_always"}, map[string]any{"optionId": "2", "name": "Yes", "kind": "allow_once"},
		map[string]any{"optionId": "cancel", "name": "No", "kind": "reject_once"},
	}})
	got := string(<-answer)
	a.say("answer " + got)
	switch {
	case strings.Contains(got, `"2"`):
		a.update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "asked", "status": "completed",
			"content": []any{map[string]any{"type": "content", "content": textContent("did " + rest)}}})
	case strings.Contains(got, "cancelled"):
		<-cancel
		return false
	}
	return true
}

// play plays a line that takes no time.
func (a *scriptedAgent) play(verb, rest string) {
	switch verb {
	case "SAY":
		a.say(rest)
	case "THINK":
		a.update(map[string]any{"sessionUpdate": "agent_thought_chunk", "content": textContent(rest)})
	case "TOOL":
		a.update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": rest, "title": "Tool", "kind": "execute", "rawInput": map[string]any{}})
		a.update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": rest, "status": "in_progress", "title": "run " + rest, "rawInput": map[string]any{"command": rest}})
	case "DONE":
		a.update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": rest, "status": "completed",
			"content": []any{map[string]any{"type": "terminal", "terminalId": "t"}, map[string]any{"type": "content"}},
			"_meta":   map[string]any{"terminal_output": map[string]any{"data": "out of " + rest}, "terminal_exit": map[string]any{"exit_code": 0}}})
	case "PLAN":
		a.update(map[string]any{"sessionUpdate": "plan", "entries": []any{map[string]any{"content": rest, "priority": "high", "status": "in_progress"}, 17}})
	case "USAGE":
		cost, _ := strconv.ParseFloat(rest, 64)
		a.update(map[string]any{"sessionUpdate": "usage_update", "used": 20, "size": 1000, "cost": map[string]any{"amount": cost, "currency": "USD"}})
	case "TITLE":
		a.update(map[string]any{"sessionUpdate": "session_info_update", "title": rest})
	case "COMMANDS":
		n, _ := strconv.Atoi(rest)
		a.update(map[string]any{"sessionUpdate": "available_commands_update", "availableCommands": []any{
			map[string]any{"name": "init", "description": "Start", "input": nil, "_meta": map[string]any{"tree": strings.Repeat("x", n)}}}})
	case "STRANGE":
		a.update(map[string]any{"sessionUpdate": "hologram", "content": 7})
		a.update(map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "smell"}})
		a.update(map[string]any{"sessionUpdate": 12})
		a.notify("session/update", map[string]any{"sessionId": "another", "update": map[string]any{"sessionUpdate": "agent_message_chunk", "content": textContent("not mine")}})
		a.notify("vendor/news", []any{1})
	case "REQUEST":
		_, answer := a.ask(rest, map[string]any{"sessionId": a.session, "path": "/x"})
		a.say(string(<-answer))
	case "READ":
		_, answer := a.ask("fs/read_text_file", map[string]any{"sessionId": a.session, "path": rest, "line": 2, "limit": 1})
		a.say(string(<-answer))
	case "WRITE":
		path, text, _ := strings.Cut(rest, " ")
		_, answer := a.ask("fs/write_text_file", map[string]any{"sessionId": a.session, "path": path, "content": text})
		a.say(string(<-answer))
	case "WITHDRAW":
		id, answer := a.ask("session/request_permission", map[string]any{"sessionId": a.session, "toolCall": map[string]any{"toolCallId": "w"}, "options": []any{}})
		a.notify("$/cancel_request", map[string]any{"requestId": id})
		a.say(string(<-answer))
	case "STATE":
		a.say(fmt.Sprintf("mode=%s model=%s thought=%s turns=%d", a.mode, a.model, a.thought, a.turns))
	case "SETUP":
		a.say(a.servers + " " + a.dirs)
	case "ENV":
		a.say(os.Getenv(rest))
	case "STDERR":
		fmt.Fprintln(os.Stderr, rest)
	case "JUNK":
		a.mu.Lock()
		fmt.Print("some log line\n{\"half\": \n")
		a.mu.Unlock()
	case "BIG":
		n, _ := strconv.Atoi(rest)
		a.say(strings.Repeat("x", n))
	case "CRASH":
		fmt.Fprintln(os.Stderr, "crashing: "+rest)
		os.Exit(9)
	}
}
