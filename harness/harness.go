package harness

import (
	"context"
	"errors"
	"log/slog"

	"agentserver/protocol"
)

// A Harness starts agent sessions of one kind. Its methods are safe for concurrent use.
type Harness interface {
	// ID is the name under which clients ask for the harness. It never changes.
	ID() protocol.HarnessID
	// Capabilities says what sessions of this harness deliver. It does no I/O.
	Capabilities() protocol.Capabilities
	// Open starts or readies the agent for a session; ctx bounds only the opening. On error nothing is left running. An error that should reach
	// clients with a category is an [*Error].
	Open(ctx context.Context, spec Spec) (Session, error)
}

// A Session is one running agent. Recv is called by one goroutine; the other methods are safe to call concurrently with it and with each other.
type Session interface {
	// Apply makes the session fit spec before a turn (model, mode, MCP servers). [ErrRestart] says that only Close and a fresh Open with
	// Spec.Resume can; an agent that is gone says so too.
	Apply(ctx context.Context, spec Spec) error
	// Send hands over one turn's input and returns when the agent has it, not when the turn is done. The engine sends one turn at a time.
	Send(ctx context.Context, turn Turn) error
	// Recv returns the agent's next event; io.EOF after the last one. When ctx ends first it returns ctx's error and no event is lost.
	Recv(ctx context.Context) (Event, error)
	// Interrupt asks the agent to stop what runs; nil means that the agent confirmed it. The turn's end still comes through Recv. With nothing
	// running it is nil.
	Interrupt(ctx context.Context) error
	// Close ends the agent. It is idempotent, unblocks Recv, and returns when the agent's whole process tree is gone. When ctx ends, the agent is
	// killed at once; Close still waits for the kill to be done.
	Close(ctx context.Context) error
}

// A Steerer takes input into the turn that runs. Sessions whose harness advertises the capability implement it.
type Steerer interface {
	// Steer adds a user message to the running turn. False with a nil error says that the agent honestly declined, for example because
	// nothing runs; the input was not used then.
	Steer(ctx context.Context, input protocol.Input) (accepted bool, err error)
}

// A Killer can end its agent at once, without asking. Sessions that own a process implement it; the engine uses it as the last step of a cancel.
type Killer interface {
	// Kill kills the process tree and returns without waiting. [Exit] comes through Recv.
	Kill()
}

// ErrRestart is returned by [Session.Apply] when only a fresh process can fit the spec.
var ErrRestart = errors.New("harness: the session must be restarted to fit its configuration")

// Spec is what a session is opened with, or made to fit.
type Spec struct {
	SessionID protocol.SessionID
	// Config is the turn's configuration, validated. Drivers do not change it.
	Config protocol.RunConfig
	// Resume is the native session id to go on from; empty starts afresh. The driver reports through [SessionStarted.Resumed] whether it did.
	Resume string
	// ResumeAt is the native id of the message to go on from; empty means the end.
	ResumeAt string
	// Env is the complete environment for the child ("NAME=value"), already filtered by the operator's rules and with Config.Env layered in.
	// Drivers add what their agent needs and remove what would confuse it.
	Env []string
	// Notify takes notices while Open runs (a download's progress, say), when Recv does not exist yet. It may be nil; it returns at once and
	// must not be called after Open has returned.
	Notify func(Notice)
	// Logger takes the driver's log; nil discards. Secrets never reach it.
	Logger *slog.Logger
}

// Turn is one turn's input.
type Turn struct {
	ID protocol.TurnID
	// Input is validated; images and files given by URL only when the capability says so.
	Input protocol.Input
}

// Error is a failure with a category for clients. Message says what to do next and holds no secret.
type Error struct {
	Category protocol.ErrorCategory
	Message  string
	// Err is the cause, for [errors.Is]; it may be nil and is not shown.
	Err error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// TurnError returns err as the error of a turn: its own category where the chain holds an [*Error], else fallback.
func TurnError(err error, fallback protocol.ErrorCategory) *protocol.TurnError {
	if e, ok := errors.AsType[*Error](err); ok {
		return &protocol.TurnError{Category: e.Category, Message: e.Message}
	}
	return &protocol.TurnError{Category: fallback, Message: err.Error()}
}

// An Executable is a program that a driver starts, as resolved by the operator's rules (package provision). Args come before the driver's own.
type Executable struct {
	Path    string
	Args    []string
	Version string
}

// A Resolver finds the executable of a driver, downloading it where the operator allows that; notify (may be nil) hears of progress. It is
// called at every Open and must be quick when there is nothing to do. Nothing that a client sends reaches it.
type Resolver func(ctx context.Context, notify func(Notice)) (Executable, error)
