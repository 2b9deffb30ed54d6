package harness

import (
	"fmt"
	"slices"

	"agentserver/protocol"
)

// A Registry holds the harnesses that a runtime offers, in the order in which they were added. It is not changed once an engine uses it, and is
// then safe for concurrent use.
type Registry struct {
	order []protocol.HarnessID
	byID  map[protocol.HarnessID]Harness
}

// NewRegistry returns a registry of the given harnesses. It is an error when two have the same id or one has none.
func NewRegistry(all ...Harness) (*Registry, error) {
	r := &Registry{byID: make(map[protocol.HarnessID]Harness)}
	for _, h := range all {
		id := h.ID()
		if err := protocol.CheckID(string(id)); err != nil {
			return nil, fmt.Errorf("harness id %q %w", id, err)
		}
		if r.byID[id] != nil {
			return nil, fmt.Errorf("harness %q is registered twice", id)
		}
		r.order = append(r.order, id)
		r.byID[id] = h
	}
	return r, nil
}

// Get returns the harness called id, or nil.
func (r *Registry) Get(id protocol.HarnessID) Harness { return r.byID[id] }

// IDs returns the ids in the order of registration.
func (r *Registry) IDs() []protocol.HarnessID { return slices.Clone(r.order) }

// Capabilities returns every harness's capabilities.
func (r *Registry) Capabilities() map[protocol.HarnessID]protocol.Capabilities {
	all := make(map[protocol.HarnessID]protocol.Capabilities, len(r.order))
	for _, id := range r.order {
		all[id] = r.byID[id].Capabilities()
	}
	return all
}
