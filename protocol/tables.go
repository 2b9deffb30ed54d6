package protocol

import (
	"maps"
	"slices"
)

// The tables of the unions, for generators and tests: a value of each member (all fields zero), sorted by discriminator. Unknown members are not
// among them.

// EventValues returns a new zero value of every known event.
func EventValues() []Event { return values(events) }

// PartValues returns a new zero value of every known part.
func PartValues() []Part { return values(parts) }

// DeltaValues returns a new zero value of every known delta.
func DeltaValues() []Delta { return values(deltas) }

// ToolStateValues returns a new zero value of every tool state.
func ToolStateValues() []ToolState { return values(toolStates) }

// Codes returns every error code of spec section 2, lowest first.
func Codes() []Code { return slices.Sorted(maps.Keys(codeNames)) }

// A MethodInfo describes one method: pointers to zero values of its params and its result.
type MethodInfo struct {
	Name           string
	Params, Result any
}

// Methods returns every method, in the order of spec section 2.
func Methods() []MethodInfo {
	return []MethodInfo{
		{MethodInitialize, new(InitializeParams), new(InitializeResult)},
		{MethodTurnStart, new(TurnStartParams), new(TurnStartResult)},
		{MethodTurnCancel, new(TurnCancelParams), new(TurnCancelResult)},
		{MethodTurnSteer, new(TurnSteerParams), new(AcceptedResult)},
		{MethodPermissionRespond, new(PermissionRespondParams), new(AcceptedResult)},
		{MethodSessionClose, new(SessionParams), new(SessionCloseResult)},
		{MethodSessionList, new(Empty), new(SessionListResult)},
		{MethodSessionSnapshot, new(SessionParams), new(SessionSnapshotResult)},
		{MethodEventsReplay, new(EventsReplayParams), new(EventsReplayResult)},
		{MethodEventsSubscribe, new(EventsSubscribeParams), new(Empty)},
		{MethodShutdown, new(Empty), new(Empty)},
	}
}

// Empty is the object without members: {}.
type Empty struct{}

func values[K ~string, V any](table map[K]func() V) []V {
	var out []V
	for _, k := range slices.Sorted(maps.Keys(table)) {
		out = append(out, table[k]())
	}
	return out
}
