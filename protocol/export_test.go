package protocol

import (
	"maps"
	"slices"
)

func keys[K ~string, V any](m map[K]V) []string {
	var out []string
	for k := range m {
		out = append(out, string(k))
	}
	return out
}

func EventTypesForTest() []string   { return keys(events) }
func PartTypesForTest() []string    { return keys(parts) }
func DeltaTypesForTest() []string   { return keys(deltas) }
func ToolStatusesForTest() []string { return keys(toolStates) }
func CodesForTest() []Code          { return slices.Collect(maps.Keys(codeNames)) }
func MethodsForTest() []string {
	return []string{MethodInitialize, MethodTurnStart, MethodTurnCancel, MethodTurnSteer, MethodPermissionRespond, MethodSessionClose, MethodSessionList,
		MethodSessionSnapshot, MethodEventsReplay, MethodEventsSubscribe, MethodShutdown}
}
