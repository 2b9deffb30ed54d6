package client

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"agentserver/protocol"
)

// A recorder is a firehose handler that keeps what it hears.
type recorder struct {
	mu   sync.Mutex
	seqs map[protocol.SessionID][]uint64
	text map[protocol.SessionID][]byte
}

func newRecorder() *recorder {
	return &recorder{seqs: map[protocol.SessionID][]uint64{}, text: map[protocol.SessionID][]byte{}}
}

func (r *recorder) handle(env protocol.Envelope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seqs[env.SessionID] = append(r.seqs[env.SessionID], env.Seq)
	r.text[env.SessionID], _ = protocol.AppendEnvelope(r.text[env.SessionID], env)
}

func (r *recorder) of(id protocol.SessionID) []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seqs[id])
}

// check fails unless r heard exactly what the server's log holds.
func (r *recorder) check(t *testing.T, s *fakeServer, id protocol.SessionID) {
	t.Helper()
	s.mu.Lock()
	var want []byte
	for _, row := range s.logs[id].rows {
		want = append(want, row...)
	}
	s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if string(r.text[id]) != string(want) {
		t.Errorf("session %s: heard %d events, %d bytes; the log holds %d bytes; numbers %v", id, len(r.seqs[id]), len(r.text[id]), len(want), firstOdd(r.seqs[id]))
	}
}

// firstOdd describes the first number that is not its place.
func firstOdd(seqs []uint64) string {
	for i, seq := range seqs {
		if seq != uint64(i+1) {
			return fmt.Sprintf("at place %d stands %d", i+1, seq)
		}
	}
	return "in order"
}

func seeded(t *testing.T) (*rand.Rand, uint64) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1)), seed
}

func countEvents(t *testing.T, turn *Turn) int {
	t.Helper()
	n := 0
	for _, err := range turn.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestOtherRequestsFail: whatever else was under way when the connection dropped fails with a connection error.
