package codex_test

import (
	"testing"

	"agentserver/harness"
	"agentserver/protocol"
)

// An engine that does not listen holds codex back, and can interrupt and close all the same.
func TestRealSlowReceiver(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes, with the race detector")
	}
	r := newRig(t).open()
	r.send("BIGTEXT 50000000") // more than the session queues
	r.until("text", isText)
	r.interrupt()
	size := 0
	r.on = func(e harness.Event) {
		if d, ok := e.(harness.Delta); ok {
			size += len(d.Text)
		}
	}
	wantEnd(t, r.finish(), protocol.StopCancelled)
	if size > 50_000_000 {
		t.Errorf("%d bytes were queued", size)
	}
}
