package protocol

import "encoding/json"

// The methods of spec section 2, and the one notification.
const (
	MethodInitialize        = "initialize"
	MethodTurnStart         = "turn/start"
	MethodTurnCancel        = "turn/cancel"
	MethodTurnSteer         = "turn/steer"
	MethodPermissionRespond = "permission/respond"
	MethodSessionClose      = "session/close"
	MethodSessionList       = "session/list"
	MethodSessionSnapshot   = "session/snapshot"
	MethodEventsReplay      = "events/replay"
	MethodEventsSubscribe   = "events/subscribe"
	MethodShutdown          = "shutdown"
	NotificationEvent       = "event"
)

// Info names a program and its version.
type Info struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// InitializeParams are the params of `initialize`.
type InitializeParams struct {
	ProtocolVersion int   `json:"protocolVersion"`
	Client          *Info `json:"client,omitempty"`
}

// InitializeResult is the result of `initialize`.
type InitializeResult struct {
	ProtocolVersion int `json:"protocolVersion"`
	// InstanceID names this process's set of logs: another one on reconnect says that every log is gone.
	InstanceID string                     `json:"instanceId"`
	Server     Info                       `json:"server"`
	Harnesses  map[HarnessID]Capabilities `json:"harnesses"`
}

// TurnStartParams are the params of `turn/start`. Missing ids are minted.
type TurnStartParams struct {
	SessionID SessionID `json:"sessionId,omitempty"`
	TurnID    TurnID    `json:"turnId,omitempty"`
	Input     Input     `json:"input"`
	Config    RunConfig `json:"config"`
}

// TurnStartResult is the ack of `turn/start`.
type TurnStartResult struct {
	SessionID SessionID `json:"sessionId"`
	TurnID    TurnID    `json:"turnId"`
	// Deduplicated says that this turn was admitted before and nothing was run.
	Deduplicated bool `json:"deduplicated,omitempty"`
}

// TurnCancelParams are the params of `turn/cancel`. Without a turn id, whatever turn is active is meant.
type TurnCancelParams struct {
	SessionID SessionID `json:"sessionId"`
	TurnID    TurnID    `json:"turnId,omitempty"`
}

// CancelOutcome says what `turn/cancel` did.
type CancelOutcome string

// The outcomes of a cancel.
const (
	// CancelConfirmed: the harness confirmed the interrupt.
	CancelConfirmed CancelOutcome = "cancelled"
	// CancelUnconfirmed: dispatched, not confirmed in time; the engine escalates by itself and the turn ends in any case.
	CancelUnconfirmed CancelOutcome = "unconfirmed"
	// CancelNoActiveTurn: the turn that was meant is not active.
	CancelNoActiveTurn CancelOutcome = "no_active_turn"
)

// TurnCancelResult is the result of `turn/cancel`.
type TurnCancelResult struct {
	Outcome CancelOutcome `json:"outcome"`
	// TurnID is the turn that was cancelled.
	TurnID TurnID `json:"turnId,omitempty"`
	// ActiveTurnID is the turn that is active instead, where one is.
	ActiveTurnID TurnID `json:"activeTurnId,omitempty"`
}

// TurnSteerParams are the params of `turn/steer`.
type TurnSteerParams struct {
	SessionID SessionID `json:"sessionId"`
	TurnID    TurnID    `json:"turnId"`
	Input     Input     `json:"input"`
}

// AcceptedResult is the result of `turn/steer` and `permission/respond`.
type AcceptedResult struct {
	Accepted bool `json:"accepted"`
}

// PermissionRespondParams are the params of `permission/respond`.
type PermissionRespondParams struct {
	SessionID SessionID         `json:"sessionId"`
	RequestID RequestID         `json:"requestId"`
	Outcome   PermissionOutcome `json:"outcome"`
}

// SessionParams are the params of `session/close` and `session/snapshot`.
type SessionParams struct {
	SessionID SessionID `json:"sessionId"`
}

// SessionCloseResult is the result of `session/close`.
type SessionCloseResult struct {
	Closed bool `json:"closed"`
}

// EventsReplayParams are the params of `events/replay`. FromSeq counts from 1; a Limit of 0 means all that is held.
type EventsReplayParams struct {
	SessionID SessionID `json:"sessionId"`
	FromSeq   uint64    `json:"fromSeq"`
	Limit     int       `json:"limit,omitempty"`
}

// EventsReplayResult is the result of `events/replay`: the events with seq >= fromSeq, in order. FirstAvailableSeq above fromSeq says that the
// beginning was evicted. Both numbers are nil while the log holds nothing.
type EventsReplayResult struct {
	Events            []Envelope `json:"events"`
	FirstAvailableSeq *uint64    `json:"firstAvailableSeq"`
	LatestSeq         *uint64    `json:"latestSeq"`
}

// EventsSubscribeParams are the params of `events/subscribe`: the sessions whose events this connection gets; nil is the firehose.
type EventsSubscribeParams struct {
	SessionIDs []SessionID `json:"sessionIds"`
}

// MarshalJSON writes an empty list of events as [].
func (r EventsReplayResult) MarshalJSON() ([]byte, error) {
	type plain EventsReplayResult
	if r.Events == nil {
		r.Events = []Envelope{}
	}
	return marshal(plain(r))
}

// SessionInfo is a row of [SessionListResult].
type SessionInfo struct {
	SessionID         SessionID `json:"sessionId"`
	Harness           HarnessID `json:"harness"`
	NativeSessionID   string    `json:"nativeSessionId,omitempty"`
	Model             string    `json:"model,omitempty"`
	Cwd               string    `json:"cwd"`
	ActiveTurnID      TurnID    `json:"activeTurnId,omitempty"`
	FirstAvailableSeq uint64    `json:"firstAvailableSeq"`
	LatestSeq         uint64    `json:"latestSeq"`
	// CreatedAt and UpdatedAt are in milliseconds since the Unix epoch.
	CreatedAt int64 `json:"createdAt"`
	UpdatedAt int64 `json:"updatedAt"`
}

// SessionListResult is the result of `session/list`, oldest session first.
type SessionListResult struct {
	Sessions []SessionInfo `json:"sessions"`
}

// MarshalJSON writes an empty list of sessions as [].
func (r SessionListResult) MarshalJSON() ([]byte, error) {
	type plain SessionListResult
	if r.Sessions == nil {
		r.Sessions = []SessionInfo{}
	}
	return marshal(plain(r))
}

// SessionSnapshotResult is the result of `session/snapshot`: the fold of the log up to and including Seq. State is the JSON of
// conversation.State.
type SessionSnapshotResult struct {
	SessionID SessionID       `json:"sessionId"`
	Seq       uint64          `json:"seq"`
	State     json.RawMessage `json:"state"`
}

// Check returns what is wrong with the params, as far as can be seen without the engine.
func (p *InitializeParams) Check() []FieldError {
	if p.ProtocolVersion <= 0 {
		return []FieldError{{"protocolVersion", "must be an integer above 0"}}
	}
	return nil
}

// Check returns what is wrong with the params, as far as can be seen without the engine.
func (p *TurnStartParams) Check() []FieldError {
	errs := checkIDs("sessionId", string(p.SessionID), false)
	errs = append(errs, checkIDs("turnId", string(p.TurnID), false)...)
	errs = append(errs, p.Input.Check("input")...)
	return append(errs, p.Config.Check("config")...)
}

// Check returns what is wrong with the params, as far as can be seen without the engine.
func (p *TurnCancelParams) Check() []FieldError {
	return append(checkIDs("sessionId", string(p.SessionID), true), checkIDs("turnId", string(p.TurnID), false)...)
}

// Check returns what is wrong with the params, as far as can be seen without the engine.
func (p *TurnSteerParams) Check() []FieldError {
	errs := append(checkIDs("sessionId", string(p.SessionID), true), checkIDs("turnId", string(p.TurnID), true)...)
	return append(errs, p.Input.Check("input")...)
}

// Check returns what is wrong with the params, as far as can be seen without the engine.
func (p *PermissionRespondParams) Check() []FieldError {
	errs := append(checkIDs("sessionId", string(p.SessionID), true), checkIDs("requestId", string(p.RequestID), true)...)
	if err := p.Outcome.validate(); err != nil {
		errs = append(errs, FieldError{"outcome", err.Error()})
	}
	return errs
}

// Check returns what is wrong with the params, as far as can be seen without the engine.
func (p *SessionParams) Check() []FieldError { return checkIDs("sessionId", string(p.SessionID), true) }

// Check returns what is wrong with the params, as far as can be seen without the engine.
func (p *EventsReplayParams) Check() []FieldError {
	errs := checkIDs("sessionId", string(p.SessionID), true)
	if p.FromSeq == 0 {
		errs = append(errs, FieldError{"fromSeq", "must be an integer above 0"})
	}
	if p.Limit < 0 {
		errs = append(errs, FieldError{"limit", "must be an integer above 0"})
	}
	return errs
}

// Check returns what is wrong with the params, as far as can be seen without the engine.
func (p *EventsSubscribeParams) Check() []FieldError {
	var errs []FieldError
	for _, id := range p.SessionIDs {
		errs = append(errs, checkIDs("sessionIds", string(id), true)...)
	}
	return errs
}

func checkIDs(path, id string, required bool) []FieldError {
	if id == "" && !required {
		return nil
	}
	if err := CheckID(id); err != nil {
		return []FieldError{{path, err.Error()}}
	}
	return nil
}
