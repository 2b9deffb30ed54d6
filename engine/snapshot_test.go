package engine

import (
	"testing"

	"agentserver/harness"
	"agentserver/protocol"
)

// TestSnapshotThatComesTooLate: a snapshot that was asked for before its session was closed, and is made after the id was used again, keeps no state:
// it would count against StateBytes for ever.
func TestSnapshotThatComesTooLate(t *testing.T) {
	registry, err := harness.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Shutdown(t.Context())
	r.store.Append("s", &protocol.SessionNotice{Kind: protocol.NoticeWarning, Message: "of another session with the same id"})
	f := &folder{id: "s"}
	if _, err := r.fold(f); err != nil || r.stateBytes.Load() == 0 {
		t.Fatalf("a snapshot in time: %v", err)
	}
	r.retire(f)
	if _, err := r.fold(f); err == nil || r.stateBytes.Load() != 0 {
		t.Errorf("error %v, %d bytes are kept", err, r.stateBytes.Load())
	}
}
