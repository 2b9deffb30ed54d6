package eventlog

import (
	"hash/maphash"
	"slices"

	"agentserver/protocol"
)

// A memory keeps the last numbers of sessions that have no log, those closed last up to a limit. Ids are kept as hashes: should two ever collide, a
// session's numbers start higher than they need to.
type memory struct {
	seed  maphash.Seed
	limit int
	last  map[uint64]remnant
	puts  uint64
	fifo  []mark // oldest first; those that a later put has replaced stay for a while
}

// A remnant is what is left of a log that is gone.
type remnant struct {
	seq  uint64 // the last number given
	lost uint64 // the position of the newest entry evicted
	put  uint64 // which put it was
}

// A mark is the place of a remnant in the order of the puts.
type mark struct{ hash, put uint64 }

func newMemory(limit int) *memory {
	return &memory{seed: maphash.MakeSeed(), limit: limit, last: make(map[uint64]remnant)}
}

func (m *memory) put(id protocol.SessionID, r remnant) {
	h := maphash.String(m.seed, string(id))
	m.puts++
	r.put = m.puts
	m.last[h] = r
	m.fifo = append(m.fifo, mark{h, r.put})
	for len(m.last) > m.limit {
		if !m.stale(m.fifo[0]) {
			delete(m.last, m.fifo[0].hash)
		}
		m.fifo = m.fifo[1:]
	}
	if len(m.fifo) > 2*m.limit {
		m.fifo = slices.DeleteFunc(m.fifo, m.stale)
	}
}

// stale reports whether a later put has replaced k.
func (m *memory) stale(k mark) bool { return m.last[k.hash].put != k.put }

func (m *memory) get(id protocol.SessionID) remnant {
	return m.last[maphash.String(m.seed, string(id))]
}
