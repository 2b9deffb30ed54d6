package agent

import "time"

// A Script is what an agent does.
type Script []Rule

// A Rule says what is done when something happens.
type Rule struct {
	On Trigger
	Do Actions
	// Times is how often the rule applies; 0 is always.
	Times int `json:",omitempty"`
}

// A Trigger is what sets a rule off. Make one with [Started], [Input], [EndOfInput] or [Signal].
type Trigger struct {
	Start  bool     `json:",omitempty"`
	Line   []string `json:",omitempty"` // all of which the line holds
	EOF    bool     `json:",omitempty"`
	Signal string   `json:",omitempty"`
}

// Started is the start of the process.
func Started() Trigger { return Trigger{Start: true} }

// Input is a line on stdin that holds all of the given texts. With none it is any line.
func Input(holds ...string) Trigger { return Trigger{Line: append([]string{""}, holds...)} }

// EndOfInput is the end of stdin.
func EndOfInput() Trigger { return Trigger{EOF: true} }

// Signal is SIGINT ("interrupt") or SIGTERM ("terminated"), which does nothing else then.
func Signal(name string) Trigger { return Trigger{Signal: name} }

// Actions are done one after the other.
type Actions []Action

// An Action is one thing that an agent does: exactly one field is set. Make one with the functions of this package.
type Action struct {
	Line     *string       `json:",omitempty"`
	Bytes    []byte        `json:",omitempty"`
	Long     *long         `json:",omitempty"`
	Stderr   *string       `json:",omitempty"`
	Sleep    time.Duration `json:",omitempty"`
	Repeat   *repeat       `json:",omitempty"`
	Stop     bool          `json:",omitempty"`
	Exit     *int          `json:",omitempty"`
	Kill     bool          `json:",omitempty"`
	Close    bool          `json:",omitempty"`
	Ignore   bool          `json:",omitempty"`
	Deaf     bool          `json:",omitempty"`
	Grandkid *grandchild   `json:",omitempty"`
}

type long struct {
	Before string
	N      int
	After  string
}

type repeat struct {
	N     int
	Every time.Duration
	Do    Actions
}

type grandchild struct {
	For    time.Duration
	Ignore bool // SIGTERM and SIGINT
	Own    bool // in a session of its own
}

// Line writes a line to stdout.
func Line(text string) Action { return Action{Line: &text} }

// Bytes writes bytes to stdout as they are, without a line ending: half a line, invalid UTF-8, junk.
func Bytes(data string) Action { return Action{Bytes: []byte(data)} }

// LongLine writes a line of before, n times the letter x, and after.
func LongLine(before string, n int, after string) Action {
	return Action{Long: &long{before, n, after}}
}

// Stderr writes a line to stderr.
func Stderr(text string) Action { return Action{Stderr: &text} }

// Sleep waits.
func Sleep(d time.Duration) Action { return Action{Sleep: d} }

// Repeat does actions n times, and for ever when n is 0, waiting between the rounds.
func Repeat(n int, every time.Duration, do ...Action) Action {
	return Action{Repeat: &repeat{n, every, do}}
}

// Stop stops all other rules that play, and waits until they have.
func Stop() Action { return Action{Stop: true} }

// Exit ends the process with a status.
func Exit(status int) Action { return Action{Exit: &status} }

// KillSelf ends the process by SIGKILL.
func KillSelf() Action { return Action{Kill: true} }

// CloseStdout closes stdout; the process lives on.
func CloseStdout() Action { return Action{Close: true} }

// IgnoreSignals ignores SIGINT and SIGTERM from here on.
func IgnoreSignals() Action { return Action{Ignore: true} }

// StopReading reads nothing more from stdin, and does not see its end.
func StopReading() Action { return Action{Deaf: true} }

// Grandchild starts a process that inherits stdout and stderr and holds them open for a time.
func Grandchild(lives time.Duration) Action { return Action{Grandkid: &grandchild{For: lives}} }

// StubbornGrandchild is [Grandchild] in a session of its own, which ignores SIGINT and SIGTERM.
func StubbornGrandchild(lives time.Duration) Action {
	return Action{Grandkid: &grandchild{For: lives, Ignore: true, Own: true}}
}
