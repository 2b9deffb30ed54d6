package mock

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentserver/protocol"
)

// A step is one line of a script. It returns an error that ends the run: [errInterrupted], [errGone] or an [*ended].
type step func(*player) error

// The bounds of what a script can ask for.
const (
	maxDelay = 24 * time.Hour
	maxBurst = 10_000_000
	maxDepth = 8
)

// onePixel is a PNG.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="

// verbs reads the arguments of each verb.
var verbs map[string]func(args string) (step, error)

// blocks reads the arguments of each verb that has lines below it.
var blocks map[string]func(args string, body []step) (step, error)

func init() { // the tables refer to functions that refer to the tables
	verbs = map[string]func(string) (step, error){
		"say":              readText(say),
		"think":            readText(think),
		"tool":             func(args string) (step, error) { return readTool(args, false) },
		"ask":              func(args string) (step, error) { return readTool(args, true) },
		"linger":           readLinger,
		"image":            readImage,
		"file":             readFile,
		"burst":            readBurst,
		"pace":             readDuration(func(d time.Duration) step { return func(p *player) error { p.pace = d; return nil } }),
		"delay":            readDuration(func(d time.Duration) step { return func(p *player) error { return p.wait(d) } }),
		"await":            readNothing((*player).await),
		"hang":             readNothing((*player).hang),
		"usage":            readUsage,
		"tokens":           readTokens,
		"compact":          readText(compact),
		"notice":           readPair("KIND", "TEXT", notice),
		"error":            readPair("CATEGORY", "TEXT", failure),
		"fail":             readPair("CATEGORY", "TEXT", fail),
		"raw":              readRaw,
		"config":           readNothing((*player).tellConfig),
		"recall":           readNothing((*player).recall),
		"stop":             readStop,
		"crash":            readText(crash),
		"ignore-interrupt": readNothing((*player).ignoreInterrupt),
	}
	blocks = map[string]func(string, []step) (step, error){
		"subagent":   readSubagent,
		"background": readBackground,
	}
}

// isScript reports whether a prompt's first word is a verb.
func isScript(prompt string) bool {
	for line := range strings.Lines(prompt) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			verb, _, _ := strings.Cut(line, " ")
			return verbs[verb] != nil || blocks[verb] != nil
		}
	}
	return false
}

// A line is a line of a script that does something.
type line struct {
	number, indent int
	verb, args     string
}

// parse reads a script.
func parse(prompt string) ([]step, error) {
	var lines []line
	number := 0
	for raw := range strings.Lines(prompt) {
		number++
		trimmed := strings.TrimSpace(raw)
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		l := line{number: number, indent: len(raw) - len(strings.TrimLeft(raw, " \t"))}
		l.verb, l.args, _ = strings.Cut(trimmed, " ")
		l.args = strings.TrimSpace(l.args)
		lines = append(lines, l)
	}
	steps, rest, err := parseBlock(lines, 0)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("line %d: is indented less than the first line", rest[0].number)
	}
	return steps, err
}

// parseBlock reads the lines of one indent, up to one that is indented less.
func parseBlock(lines []line, depth int) (steps []step, rest []line, err error) {
	if len(lines) == 0 {
		return nil, nil, nil
	}
	if depth > maxDepth {
		return nil, nil, fmt.Errorf("line %d: blocks are nested more than %d deep", lines[0].number, maxDepth)
	}
	indent := lines[0].indent
	for len(lines) > 0 && lines[0].indent >= indent {
		l := lines[0]
		lines = lines[1:]
		var s step
		switch {
		case l.indent > indent:
			err = fmt.Errorf("is indented, and the line above it takes no lines")
		case blocks[l.verb] != nil:
			var body []step
			if len(lines) > 0 && lines[0].indent > indent {
				if body, lines, err = parseBlock(lines, depth+1); err != nil {
					return nil, nil, err
				}
			}
			s, err = blocks[l.verb](l.args, body)
		case verbs[l.verb] != nil:
			s, err = verbs[l.verb](l.args)
		default:
			err = fmt.Errorf("%q is no verb; see the list in the documentation of package mock", l.verb)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", l.number, err)
		}
		steps = append(steps, s)
	}
	return steps, lines, nil
}

func readNothing(do func(*player) error) func(string) (step, error) {
	return func(args string) (step, error) {
		if args != "" {
			return nil, fmt.Errorf("takes no argument, has %q", args)
		}
		return do, nil
	}
}

func readText(do func(text string) step) func(string) (step, error) {
	return func(args string) (step, error) { return do(breaks(args)), nil }
}

func breaks(text string) string { return strings.ReplaceAll(text, `\n`, "\n") }

func readPair(first, second string, do func(a, b string) step) func(string) (step, error) {
	return func(args string) (step, error) {
		a, b, _ := strings.Cut(args, " ")
		if a == "" || strings.TrimSpace(b) == "" {
			return nil, fmt.Errorf("takes %s and %s", first, second)
		}
		return do(a, breaks(strings.TrimSpace(b))), nil
	}
}

func readDuration(do func(time.Duration) step) func(string) (step, error) {
	return func(args string) (step, error) {
		d, err := duration(args)
		if err != nil {
			return nil, err
		}
		return do(d), nil
	}
}

func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxDelay {
		return 0, fmt.Errorf("%q is no duration; write it as 200ms or 1.5s, at most %v", s, maxDelay)
	}
	return d, nil
}

func readStop(args string) (step, error) {
	if args == "" || strings.ContainsAny(args, " \t") {
		return nil, fmt.Errorf("takes a stop reason, one word")
	}
	return stop(args), nil
}

// numbers reads between least and most numbers that are not negative.
func numbers(args string, least, most int) ([]int64, error) {
	fields := strings.Fields(args)
	if len(fields) < least || len(fields) > most {
		return nil, fmt.Errorf("takes %d to %d numbers, has %d", least, most, len(fields))
	}
	var ns []int64
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no number from 0 on", f)
		}
		ns = append(ns, n)
	}
	return ns, nil
}

func readUsage(args string) (step, error) {
	ns, err := numbers(args, 1, 2)
	if err != nil {
		return nil, err
	}
	return usage(append(ns, 0)), nil
}

func readTokens(args string) (step, error) {
	ns, err := numbers(args, 2, 4)
	if err != nil {
		return nil, err
	}
	return tokens(ns), nil
}

func readBurst(args string) (step, error) {
	ns, err := numbers(args, 1, 2)
	if err != nil {
		return nil, err
	}
	ns = append(ns, 8)
	if ns[0] > maxBurst || ns[1] > 1<<20 {
		return nil, fmt.Errorf("at most %d deltas of 1 MiB each", maxBurst)
	}
	return burst(int(ns[0]), int(ns[1])), nil
}

func readImage(args string) (step, error) {
	mime, data := "image/png", onePixel
	if args != "" {
		m, d, both := strings.Cut(args, " ")
		if _, err := base64.StdEncoding.DecodeString(d); err != nil || !both || d == "" {
			return nil, fmt.Errorf("takes a MIME type and base64, or nothing")
		}
		mime, data = m, d
	}
	return image(mime, data), nil
}

func readFile(args string) (step, error) {
	name, content, ok := strings.Cut(args, " ")
	if !ok {
		return nil, fmt.Errorf("takes NAME and TEXT")
	}
	return file(name, breaks(content)), nil
}

func readRaw(args string) (step, error) {
	if !json.Valid([]byte(args)) {
		return nil, fmt.Errorf("takes JSON")
	}
	return raw(json.RawMessage(args)), nil
}

// A call is a tool call of a script.
type call struct {
	name   string
	input  json.RawMessage
	output string
	failed bool // output is an error
	ask    bool
	linger time.Duration // above 0 for one that goes on after the turn
}

func readTool(args string, ask bool) (step, error) {
	c, err := readCall(args)
	if err != nil {
		return nil, err
	}
	c.ask = ask
	return c.play, nil
}

func readLinger(args string) (step, error) {
	first, rest, _ := strings.Cut(args, " ")
	d, err := duration(first)
	if err != nil {
		return nil, err
	}
	c, err := readCall(rest)
	if err != nil {
		return nil, err
	}
	c.linger = max(d, 1)
	return c.play, nil
}

// readCall reads NAME {json} [-> OUTPUT or ! ERROR].
func readCall(args string) (*call, error) {
	c := &call{input: json.RawMessage("{}"), output: "ok"}
	var rest string
	c.name, rest, _ = strings.Cut(strings.TrimSpace(args), " ")
	if c.name == "" {
		return nil, fmt.Errorf("takes NAME {json} [-> OUTPUT or ! ERROR]")
	}
	rest = strings.TrimSpace(rest)
	if strings.HasPrefix(rest, "{") {
		dec := json.NewDecoder(strings.NewReader(rest))
		if err := dec.Decode(&c.input); err != nil {
			return nil, fmt.Errorf("the input of %s is no JSON object: %w", c.name, err)
		}
		rest = strings.TrimSpace(rest[dec.InputOffset():])
	}
	switch {
	case rest == "":
	case strings.HasPrefix(rest, "->"):
		c.output = breaks(strings.TrimSpace(rest[2:]))
	case strings.HasPrefix(rest, "!"):
		c.failed, c.output = true, breaks(strings.TrimSpace(rest[1:]))
	default:
		return nil, fmt.Errorf("%q stands where -> OUTPUT or ! ERROR could", rest)
	}
	return c, nil
}

func readSubagent(args string, body []step) (step, error) {
	kind, description, _ := strings.Cut(args, " ")
	if kind == "" {
		return nil, fmt.Errorf("takes TYPE DESCRIPTION")
	}
	return subagent(protocol.Subagent{Type: kind, Description: strings.TrimSpace(description)}, body), nil
}

func readBackground(args string, body []step) (step, error) {
	d, err := duration(args)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, fmt.Errorf("has no indented lines below it")
	}
	return background(d, body), nil
}
