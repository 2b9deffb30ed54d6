package streamcheck

import (
	"bytes"

	"agentserver/protocol"
	"agentserver/protocol/conversation"
)

// foldWindow bounds how many events are folded before the states are compared and begun anew.
const foldWindow = 4096

// folds are two states of the same events, of which the second gets every upsert twice.
type folds struct {
	once, twice *conversation.State
	n           int
}

func (f *folds) reset() {
	f.once, f.twice, f.n = conversation.New("s"), conversation.New("s"), 0
}

// add folds an event in and reports whether the states have come to differ, which it finds out when idle is set and when there are many events.
func (f *folds) add(e protocol.Event, idle bool) (differ bool) {
	f.once.ApplyEvent(e)
	f.twice.ApplyEvent(e)
	if isUpsert(e) {
		f.twice.ApplyEvent(e)
	}
	f.n++
	if !idle && f.n < foldWindow {
		return false
	}
	a, errA := f.once.Snapshot().MarshalJSON()
	b, errB := f.twice.Snapshot().MarshalJSON()
	f.reset()
	return errA != nil || errB != nil || !bytes.Equal(a, b)
}

func isUpsert(e protocol.Event) bool {
	switch e.(type) {
	case *protocol.MessagePartDelta, *protocol.ErrorEvent, *protocol.UnknownEvent, *protocol.Raw:
		return false
	}
	return true
}
