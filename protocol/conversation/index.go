package conversation

import (
	"slices"
	"sync"

	"agentserver/protocol"
)

// An index says where things are. It is shared by a state and all its snapshots: places never change, and a snapshot looks past those that were
// added after it. The state writes; it alone may read without the lock.
type index struct {
	mu       sync.RWMutex
	turns    map[protocol.TurnID]int
	messages map[protocol.MessageID]int // places in the timeline
	compacts map[protocol.CompactionID]int
	requests map[protocol.RequestID]int
	parts    map[protocol.PartID]partPlace
	calls    map[string]partPlace // tool parts by tool call id, the first of an id
	children map[string][]int     // messages by parent tool call id
}

// A partPlace is the message's place in the timeline, and the part's in the message.
type partPlace struct{ message, part int }

func newIndex() *index {
	return &index{
		turns:    make(map[protocol.TurnID]int),
		messages: make(map[protocol.MessageID]int),
		compacts: make(map[protocol.CompactionID]int),
		requests: make(map[protocol.RequestID]int),
		parts:    make(map[protocol.PartID]partPlace),
		calls:    make(map[string]partPlace),
		children: make(map[string][]int),
	}
}

// put adds to one of an index's maps.
func put[K comparable](x *index, m map[K]int, id K, place int) {
	x.mu.Lock()
	m[id] = place
	x.mu.Unlock()
}

// find looks something up in one of an index's maps, for a snapshot in which there are n places.
func find[K comparable](x *index, m map[K]int, id K, n int) (int, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i, ok := m[id]
	return i, ok && i < n
}

func (x *index) putPart(p protocol.Part, at partPlace) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.parts[p.Header().ID] = at
	if tool, ok := p.(*protocol.ToolPart); ok {
		if _, known := x.calls[tool.ToolCallID]; !known {
			x.calls[tool.ToolCallID] = at
		}
	}
}

func (x *index) putChild(parent string, message int) {
	if parent == "" {
		return
	}
	x.mu.Lock()
	x.children[parent] = append(x.children[parent], message)
	x.mu.Unlock()
}

// childrenOf returns the places of the messages under a tool call, in a snapshot with n places, in order.
func (x *index) childrenOf(call string, n int) []int {
	x.mu.RLock()
	all := x.children[call]
	x.mu.RUnlock()
	var out []int
	for _, i := range all {
		if i < n {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return out
}
