package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"agentserver/internal/transport"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// decodeParams decodes and checks params. Members that this build does not know are passed over, a known one of the wrong type is invalidParams,
// and absent params are those without members.
func decodeParams[P any](raw json.RawMessage) (*P, error) {
	p := new(P)
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, p); err != nil {
			return nil, protocol.InvalidParams(fieldError(err))
		}
	}
	if errs := emptyIDs(raw); len(errs) > 0 {
		return nil, protocol.InvalidParams(errs...)
	}
	if c, ok := any(p).(interface{ Check() []protocol.FieldError }); ok {
		if errs := c.Check(); len(errs) > 0 {
			return nil, protocol.InvalidParams(errs...)
		}
	}
	return p, nil
}

// emptyIDs refuses an optional id that is given and empty. Decoded it looks like one that was left out, and a cancel of no turn in particular stops
// whatever runs.
func emptyIDs(params json.RawMessage) []protocol.FieldError {
	var errs []protocol.FieldError
	for _, name := range []string{"sessionId", "turnId"} {
		if string(jsonscan.Get(params, name)) == `""` {
			errs = append(errs, protocol.FieldError{Path: name, Message: "must not be empty; where it is optional, leave it out"})
		}
	}
	return errs
}

// fieldError says which field cannot be decoded, in the words of the wire and without its value, which may be a secret.
func fieldError(err error) protocol.FieldError {
	e, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return protocol.FieldError{Path: "params", Message: "cannot be decoded; see the method's description"}
	}
	path := e.Field
	if path == "" {
		path = "params"
	}
	got, _, isNumber := strings.Cut(e.Value, " ")
	if isNumber {
		got = "number of this kind"
	}
	return protocol.FieldError{Path: path, Message: fmt.Sprintf("must not be a JSON %s", got)}
}

// wireError returns err as it goes out: the *protocol.Error in its chain, or an internal error without its text, which may hold a secret.
func wireError(err error) *transport.Error {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		return &transport.Error{Code: int64(protocol.CodeInternalError), Message: "internal error; see the server's log"}
	}
	return &transport.Error{Code: int64(e.Code), Message: e.Message, Data: e.Data}
}
