package protocol_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"agentserver/protocol"
)

func TestSeqCursor(t *testing.T) {
	for _, c := range []struct {
		name      string
		last, seq uint64
		want      protocol.Verdict
		then      uint64
	}{
		{"first event", 0, 1, protocol.Deliver, 1},
		{"next event", 7, 8, protocol.Deliver, 8},
		{"the same again", 7, 7, protocol.Duplicate, 7},
		{"an older one", 7, 3, protocol.Duplicate, 7},
		{"zero", 7, 0, protocol.Duplicate, 7},
		{"first again after one", 1, 1, protocol.Duplicate, 1},
		{"fresh log", 2, 1, protocol.Reset, 1},
		{"fresh log after many", 900, 1, protocol.Reset, 1},
		{"a hole of one", 7, 9, protocol.Gap, 7},
		{"never seen, from the middle", 0, 2, protocol.Gap, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cur protocol.SeqCursor
			if c.last > 0 {
				cur.Seek("s", c.last)
			}
			if got := cur.Advance("s", c.seq); got != c.want || cur.Last("s") != c.then {
				t.Errorf("got %v, last %d; want %v, last %d", got, cur.Last("s"), c.want, c.then)
			}
		})
	}
}

// TestSeqCursorModel drives the cursor with random deliveries of two sessions and holds it to a list of what was delivered.
func TestSeqCursorModel(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var cur protocol.SeqCursor
		delivered := map[protocol.SessionID][]uint64{}
		for range 400 {
			s := protocol.SessionID([]string{"a", "b"}[rng.IntN(2)])
			seq := uint64(rng.IntN(int(cur.Last(s))+3)) + rng.Uint64N(2)
			had := delivered[s]
			var last uint64
			if len(had) > 0 {
				last = had[len(had)-1]
			}
			switch cur.Advance(s, seq) {
			case protocol.Deliver:
				if seq != last+1 {
					t.Fatalf("seed %d: delivered %d after %d", seed, seq, last)
				}
				delivered[s] = append(had, seq)
			case protocol.Reset:
				if seq != 1 || last < 2 {
					t.Fatalf("seed %d: reset by %d after %d", seed, seq, last)
				}
				delivered[s] = []uint64{1}
			case protocol.Duplicate:
				if seq != 0 && !slices.Contains(had, seq) {
					t.Fatalf("seed %d: %d called a duplicate, delivered %v", seed, seq, had)
				}
			case protocol.Gap:
				if seq <= last+1 {
					t.Fatalf("seed %d: gap at %d after %d", seed, seq, last)
				}
			}
		}
	}
	var cur protocol.SeqCursor
	cur.Seek("b", 2)
	cur.Seek("a", 1)
	if got := cur.Sessions(); !slices.Equal(got, []protocol.SessionID{"a", "b"}) {
		t.Errorf("Sessions = %v", got)
	}
	if cur.Reset("a"); cur.Last("a") != 0 {
		t.Error("Reset kept the cursor")
	}
}
