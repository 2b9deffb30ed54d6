package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Code is the code of a wire error.
type Code int

// The error codes of spec section 2.
const (
	CodeParseError              Code = -32700
	CodeInvalidRequest          Code = -32600
	CodeMethodNotFound          Code = -32601
	CodeInvalidParams           Code = -32602
	CodeInternalError           Code = -32603
	CodeHarnessNotAvailable     Code = -32000
	CodeUnknownSession          Code = -32001
	CodeTurnActive              Code = -32002
	CodeShuttingDown            Code = -32003
	CodeProtocolVersionMismatch Code = -32004
	CodeSessionClosing          Code = -32005
	CodeTurnConflict            Code = -32006
	CodeOverloaded              Code = -32007
)

// codeNames is the one table of the codes.
var codeNames = map[Code]string{
	CodeParseError:              "parseError",
	CodeInvalidRequest:          "invalidRequest",
	CodeMethodNotFound:          "methodNotFound",
	CodeInvalidParams:           "invalidParams",
	CodeInternalError:           "internalError",
	CodeHarnessNotAvailable:     "harnessNotAvailable",
	CodeUnknownSession:          "unknownSession",
	CodeTurnActive:              "turnActive",
	CodeShuttingDown:            "shuttingDown",
	CodeProtocolVersionMismatch: "protocolVersionMismatch",
	CodeSessionClosing:          "sessionClosing",
	CodeTurnConflict:            "turnConflict",
	CodeOverloaded:              "overloaded",
}

// String returns the code's name ("turnActive"), or its number for a code that the spec does not have.
func (c Code) String() string {
	if n, ok := codeNames[c]; ok {
		return n
	}
	return fmt.Sprint(int(c))
}

// Error is the `error` member of a response. [errors.Is] compares codes only, so that the Err values below serve as targets.
type Error struct {
	Code    Code            `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error returns the code's name and the message.
func (e *Error) Error() string { return e.Code.String() + ": " + e.Message }

// Is reports whether target is an *Error with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Targets for [errors.Is].
var (
	ErrParse               = &Error{Code: CodeParseError}
	ErrInvalidRequest      = &Error{Code: CodeInvalidRequest}
	ErrMethodNotFound      = &Error{Code: CodeMethodNotFound}
	ErrInvalidParams       = &Error{Code: CodeInvalidParams}
	ErrInternal            = &Error{Code: CodeInternalError}
	ErrHarnessNotAvailable = &Error{Code: CodeHarnessNotAvailable}
	ErrUnknownSession      = &Error{Code: CodeUnknownSession}
	ErrTurnActive          = &Error{Code: CodeTurnActive}
	ErrShuttingDown        = &Error{Code: CodeShuttingDown}
	ErrVersionMismatch     = &Error{Code: CodeProtocolVersionMismatch}
	ErrSessionClosing      = &Error{Code: CodeSessionClosing}
	ErrTurnConflict        = &Error{Code: CodeTurnConflict}
	ErrOverloaded          = &Error{Code: CodeOverloaded}
)

// Errorf returns an error with a code and no data. The message must hold no secret.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithData returns a copy of e that carries data.
func (e *Error) WithData(data any) *Error {
	raw, err := marshal(data)
	if err != nil {
		panic(fmt.Sprintf("protocol: error data: %v", err))
	}
	return &Error{e.Code, e.Message, raw}
}

// InvalidParams returns the error for params that fail validation. The message names the first field.
func InvalidParams(fields ...FieldError) *Error {
	msg := "invalid params"
	if len(fields) > 0 {
		msg = fields[0].Path + ": " + fields[0].Message
		if more := len(fields) - 1; more > 0 {
			msg += fmt.Sprintf(" (and %d more)", more)
		}
	}
	return (&Error{Code: CodeInvalidParams, Message: msg}).WithData(fields)
}

// HarnessNotAvailable returns the error for a harness that is not registered.
func HarnessNotAvailable(id HarnessID, available []HarnessID) *Error {
	return Errorf(CodeHarnessNotAvailable, "harness %q is not available here; available: %v", id, available).
		WithData(map[string]any{"available": available})
}

// UnknownSession returns the error for a session that this process has no log for.
func UnknownSession(id SessionID) *Error {
	return Errorf(CodeUnknownSession, "session %q is not known to this process", id)
}

// TurnActive returns the error for what must wait until the active turn has ended.
func TurnActive(turn TurnID) *Error {
	return Errorf(CodeTurnActive, "turn %q is active; wait for its turn.ended or cancel it", turn).WithData(map[string]any{"turnId": turn})
}

// TurnConflict returns the error for a turn id that was admitted with other input or config.
func TurnConflict(turn TurnID) *Error {
	return Errorf(CodeTurnConflict, "turn %q was admitted with different input or config; use a new turnId", turn).WithData(map[string]any{"turnId": turn})
}

// VersionMismatch returns the error for a protocol version other than [Version].
func VersionMismatch(got int) *Error {
	return Errorf(CodeProtocolVersionMismatch, "protocol version %d is not supported", got).WithData(map[string]any{"supported": []int{Version}})
}

// Overloaded returns the error for a limit of this process that is reached.
func Overloaded(what string, limit int) *Error {
	return Errorf(CodeOverloaded, "%s: the limit of %d is reached; close a session or try later", what, limit).WithData(map[string]any{"limit": limit})
}

// AsError returns err as a wire error: the *Error in its chain with err's own text, or an internalError. The text must hold no secret.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		if err == error(e) {
			return e
		}
		return &Error{e.Code, err.Error(), e.Data}
	}
	return &Error{Code: CodeInternalError, Message: err.Error()}
}
