package fakemodel

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	defaultChunk = 8
	bigChunk     = 20_000
	slowDelay    = 100 * time.Millisecond
	maxGenerated = 80 << 20 // bound of what SLOW, BIGTEXT and BIGDELTA make in one reply, in bytes: over the line limits of hosts
	maxWords     = 10_000   // bound of one SLOW
	echoLimit    = 400      // how much of a tool result or a user text a reply repeats, in bytes
)

// A planner turns the script of a conversation into the reply to one request. The script falls into segments,
// each ending with a directive that calls tools; a segment whose calls have results is over.
type planner struct {
	conv     *conversation
	cue      cue
	failures func(key string) int // counts and returns the uses of an ERRN, from 1
	budget   int                  // bytes that the script may still make up
	reply    reply
}

// plan returns the reply to conv, whose cue is c, with at most budget bytes of made-up text.
func plan(conv *conversation, c cue, usage Usage, budget int, failures func(string) int) reply {
	p := &planner{conv: conv, cue: c, failures: failures, budget: budget, reply: reply{usage: usage}}
	if p.sideRequest() {
		return p.finish()
	}
	if len(p.cue.script) == 0 {
		p.text("echo: " + clip(p.cue.full, 200))
		return p.finish()
	}
	p.play(segments(p.cue.script))
	return p.finish()
}

// segments cuts a script after every directive that calls tools.
func segments(script []line) [][]line {
	var segs [][]line
	start := 0
	for i, l := range script {
		if callVerbs[l.verb] {
			segs = append(segs, script[start:i+1])
			start = i + 1
		}
	}
	if start < len(script) {
		segs = append(segs, script[start:])
	}
	return segs
}

// play plans the first segment that is not over, or the closing words after the last.
func (p *planner) play(segs [][]line) {
	left := p.cue.results
	for _, seg := range segs {
		last := seg[len(seg)-1]
		if !callVerbs[last.verb] {
			p.say(seg)
			return
		}
		calls := p.calls(last, left)
		if calls == nil {
			left = left[min(len(left), max(1, p.width(last))):]
			p.usageOf(seg)
			continue
		}
		if len(left) == 0 || last.verb == "LOOP" {
			if p.say(seg[:len(seg)-1]) {
				return
			}
			if len(p.reply.steps) == 0 {
				p.text(leadIn(last, len(left)))
			}
		}
		p.call(last, calls)
		return
	}
	p.closing(segs[len(segs)-1])
}

// usageOf applies the USAGE directives of a segment that is over.
func (p *planner) usageOf(seg []line) {
	for _, l := range seg {
		if l.verb == "USAGE" {
			p.setUsage(l.arg)
		}
	}
}

// say plans directives that call no tool and reports whether one of them ended the reply.
func (p *planner) say(seg []line) bool {
	for _, l := range seg {
		if p.directive(l) {
			return true
		}
	}
	return false
}

// closing plans the answer to the results of a script that ends with a call.
func (p *planner) closing(seg []line) {
	results := p.cue.results
	last := results[len(results)-1]
	switch seg[len(seg)-1].verb {
	case "MULTI":
		p.text(fmt.Sprintf("Got %d results.", len(results)))
	case "TASK":
		p.text("Subagent said: " + clip(last.text, echoLimit))
	default:
		text := fmt.Sprintf("Tool said (is_error=%t): %s", last.isError, clip(last.text, echoLimit))
		if len(p.cue.extra) > 0 {
			extra := make([]string, len(p.cue.extra))
			for i, t := range p.cue.extra {
				extra[i] = clip(strings.Join(strings.Fields(t), " "), 120)
			}
			text += " | extra user texts: " + strings.Join(extra, " || ")
		}
		p.text(text)
	}
}

// finish marks the last text of a finished answer.
func (p *planner) finish() reply {
	if n := len(p.reply.steps); n > 0 && p.reply.stop == stopEnd {
		p.reply.steps[n-1].final = true
	}
	return p.reply
}

func (p *planner) text(s string) { p.pieces(piece{text: s}) }

func (p *planner) pieces(ps ...piece) {
	p.reply.steps = append(p.reply.steps, step{kind: kindText, pieces: ps})
}

// end ends the reply with s.
func (p *planner) end(s stop) bool {
	p.reply.stop = s
	return true
}

// fail replaces the reply by a failure.
func (p *planner) fail(f failure) bool {
	p.reply.fail = &f
	return true
}

// directive plans one directive that calls no tool and reports whether the reply ends with it.
func (p *planner) directive(l line) bool {
	switch l.verb {
	case "SAY":
		p.text(orElse(unescape(l.arg), "hello"))
	case "THINK", "THINKRAW":
		p.think(l)
	case "SLOW":
		p.slow(l.arg)
	case "BIGTEXT":
		p.pieces(piece{text: strings.Repeat("x", p.spend(count(l.arg, 100_000, p.budget))), chunk: bigChunk})
	case "BIGDELTA":
		p.pieces(piece{text: strings.Repeat("y", p.spend(count(l.arg, 100_000, p.budget))), chunk: maxGenerated})
	case "GATE":
		name := orElse(l.arg, "gate")
		p.pieces(piece{text: "before " + name}, piece{gate: name}, piece{text: " after " + name})
	case "IMG":
		p.text(fmt.Sprintf("saw %d image(s)", p.conv.images()))
	case "TOOLS":
		p.text(p.toolNames())
	case "ECHOMODEL":
		p.text("model=" + p.conv.model + " " + p.conv.detail)
	case "JSONOUT":
		p.text(orElse(l.arg, `{"answer":42}`))
	case "WEBSEARCH":
		p.webSearch(orElse(l.arg, "fake query"))
	case "USAGE":
		p.setUsage(l.arg)
	case "EMPTY":
	default:
		return p.ending(l)
	}
	return false
}

// ending plans the directives that end a reply in another way than a complete answer.
func (p *planner) ending(l line) bool {
	switch l.verb {
	case "ERR":
		return p.fail(parseFailure(l.arg))
	case "ERRN":
		return p.failSome(l.arg)
	case "HANG":
		if l.arg != "" {
			p.pieces(piece{text: unescape(l.arg)}, piece{hang: true})
		}
		return p.end(stopHang)
	case "DROP":
		// The wait lets the client read the text before the connection goes.
		p.pieces(piece{text: "partial text before drop", chunk: bigChunk, delay: slowDelay})
		return p.end(stopDrop)
	case "EVERR":
		p.text("partial text before error")
		return p.end(stopStreamError)
	case "MAXTOK":
		p.text("This answer is cut o")
		return p.end(stopMaxTokens)
	case "CTXLIM":
		p.text("cut by window")
		return p.end(stopContext)
	case "REFUSE":
		if l.arg != "" {
			p.text(unescape(l.arg))
		}
		return p.end(stopRefusal)
	case "PAUSE":
		if p.cue.resumed {
			p.text("resumed")
			return false
		}
		p.text("pausing")
		return p.end(stopPause)
	}
	return false
}

// think plans a thinking block, and the text of the argument if any: a lone THINK still answers.
func (p *planner) think(l line) {
	s := step{kind: kindThinking, pieces: []piece{
		{text: "**Considering** the request before answering."}, {part: true}, {text: "**Deciding** what to say."},
	}}
	if l.verb == "THINKRAW" {
		s.raw = "raw chain of thought"
	}
	p.reply.steps = append(p.reply.steps, s)
	p.text(orElse(unescape(l.arg), "thought answer"))
}

// spend takes n bytes from the budget and returns how many it got.
func (p *planner) spend(n int) int {
	n = min(n, p.budget)
	p.budget -= n
	return n
}

// slow plans "SLOW words [milliseconds]": one word a delta.
func (p *planner) slow(arg string) {
	words, ms, _ := strings.Cut(arg, " ")
	n := count(words, 50, maxWords)
	delay := time.Duration(count(ms, int(slowDelay/time.Millisecond), 60_000)) * time.Millisecond
	var ps []piece
	for i := range n {
		word := fmt.Sprintf("word%d ", i)
		if p.spend(len(word)) < len(word) {
			break
		}
		ps = append(ps, piece{text: word, chunk: len(word), delay: delay})
	}
	p.pieces(ps...)
}

// failSome plans "ERRN code n": n failures, then an answer.
func (p *planner) failSome(arg string) bool {
	code, times, _ := strings.Cut(arg, " ")
	key := fmt.Sprintf("%s\x00%d\x00%s", p.conv.session, p.cue.turn, p.cue.full)
	if c := p.failures(key); c > count(times, 1, 1000) {
		p.text(fmt.Sprintf("ok after %d failures", c-1))
		return false
	}
	return p.fail(parseFailure(code))
}

// setUsage reads "USAGE input cache_creation cache_read output [reasoning]".
func (p *planner) setUsage(arg string) {
	u := &p.reply.usage
	fields := []*int{&u.Input, &u.CacheCreation, &u.CacheRead, &u.Output, &u.Reasoning}
	for i, word := range strings.Fields(arg) {
		if i < len(fields) {
			*fields[i] = count(word, *fields[i], 1<<40)
		}
	}
}

// webSearch plans a finished search of the provider; only the Responses API has an item for it.
func (p *planner) webSearch(query string) {
	if p.conv.api == OpenAIResponses {
		p.reply.steps = append(p.reply.steps, step{kind: kindItem, item: map[string]any{
			"type": "web_search_call", "status": "completed",
			"action": map[string]any{"type": "search", "query": query, "queries": []string{query}},
		}})
	}
	p.text("searched")
}

// toolNames lists the offered tools, in order.
func (p *planner) toolNames() string {
	names := make([]string, len(p.conv.tools))
	for i, t := range p.conv.tools {
		names[i] = t.name
	}
	return strings.Join(names, ",")
}

// count reads a decimal number, def if s holds none, and bounds it by most.
func count(s string, def, most int) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 0 {
		return def
	}
	return min(n, most)
}

// clip cuts s to n bytes at a rune boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

func orElse(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
