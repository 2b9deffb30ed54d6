package eventlog

import (
	"hash/maphash"

	"agentserver/protocol"
)

// A memory keeps the last numbers of sessions that have no log, the newest up to a limit. Ids are kept as hashes: should two ever collide, a
// session's numbers start higher than they need to.
type memory struct {
	seed  maphash.Seed
	limit int
	last  map[uint64]remnant
	fifo  []uint64 // hashes, oldest first; taken ones stay until their turn comes
}

// A remnant is what is left of a log that is gone.
type remnant struct {
	seq  uint64 // the last number given
	lost uint64 // the position of the newest entry evicted
}

func newMemory(limit int) *memory {
	return &memory{seed: maphash.MakeSeed(), limit: limit, last: make(map[uint64]remnant)}
}

func (m *memory) put(id protocol.SessionID, r remnant) {
	h := maphash.String(m.seed, string(id))
	if _, ok := m.last[h]; !ok {
		m.fifo = append(m.fifo, h)
	}
	m.last[h] = r
	for len(m.fifo) > m.limit {
		delete(m.last, m.fifo[0])
		m.fifo = m.fifo[1:]
	}
}

func (m *memory) get(id protocol.SessionID) remnant {
	return m.last[maphash.String(m.seed, string(id))]
}
