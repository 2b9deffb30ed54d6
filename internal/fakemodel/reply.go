package fakemodel

import "time"

// A reply is the planned answer to one model call: either a failure before any stream, or steps and how they end.
type reply struct {
	fail  *failure
	steps []step
	stop  stop
	usage Usage // Output 0: computed from what is streamed
}

// A stop is why the model stopped, in neutral terms.
type stop int

const (
	stopEnd stop = iota
	stopTool
	stopMaxTokens
	stopRefusal
	stopPause
	stopContext
	stopDrop        // cut the connection
	stopStreamError // an error event inside the stream
	stopHang        // never end
)

// A step is one content block, or a raw item of the Responses API.
type step struct {
	kind   blockKind
	call   toolCall       // kindTool
	item   map[string]any // kindItem
	raw    string         // kindThinking: the raw chain of thought that comes with the summary
	pieces []piece
	final  bool // kindText: the last text of a finished answer
}

// A blockKind tells what a content block holds.
type blockKind int

const (
	kindText blockKind = iota
	kindThinking
	kindTool
	kindItem
)

// A piece is what happens inside a block: text to stream, then a gate to wait at, or the end of a part.
type piece struct {
	text  string
	chunk int           // bytes a delta; 0 means defaultChunk
	delay time.Duration // after each delta
	gate  string
	hang  bool
	part  bool // start the next part of a thinking summary
}

// A toolCall is a call that names a tool of the request.
type toolCall struct {
	tool
	args  string // JSON arguments, or free-form input for a custom tool
	delay time.Duration
}
