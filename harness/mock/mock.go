package mock

import (
	"context"
	"fmt"
	"sync"

	"agentserver/harness"
	"agentserver/protocol"
)

// ID is the id of the harness.
const ID protocol.HarnessID = "mock"

// maxRemembered bounds how many conversations a harness remembers; beyond it the oldest is forgotten.
const maxRemembered = 1024

// A Harness is the mock. Its methods are safe for concurrent use. Create one with [New].
type Harness struct {
	mu     sync.Mutex // guards the rest
	minted int
	memory map[string]*conversation
	oldest []string // the keys of memory, in the order in which they were made
}

// A conversation is what an agent remembers. It outlives its agent.
type conversation struct {
	native string

	mu      sync.Mutex // guards the rest
	prompts []string
	minted  int
}

// New returns a harness that remembers nothing.
func New() *Harness { return &Harness{memory: make(map[string]*conversation)} }

// ID implements [harness.Harness].
func (h *Harness) ID() protocol.HarnessID { return ID }

// Capabilities implements [harness.Harness].
func (h *Harness) Capabilities() protocol.Capabilities {
	return protocol.Capabilities{
		MultiTurn:          true,
		SessionResume:      true,
		ModelSwitch:        protocol.ModelSwitchInSession,
		ThinkingLevels:     []protocol.ThinkingLevel{protocol.ThinkingOff, protocol.ThinkingLow, protocol.ThinkingMedium, protocol.ThinkingHigh, protocol.ThinkingXHigh},
		Images:             true,
		ImageURLs:          true,
		Files:              true,
		PermissionRequests: true,
		Steering:           true,
		Cost:               true,
		Unsupported:        []string{"additionalDirectories", "systemPromptAppend", "maxTurns", "resumeSessionAt"},
	}
}

// Open implements [harness.Harness]. It starts one goroutine, which Close joins.
func (h *Harness) Open(ctx context.Context, spec harness.Spec) (harness.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &session{
		harness: h,
		config:  spec.Config,
		events:  make(chan harness.Event),
		inbox:   make(chan *run),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	var found bool
	s.memory, found = h.remember(spec.Resume)
	if spec.Resume != "" {
		s.resumed = &found
	}
	go s.live()
	return s, nil
}

// remember returns the conversation called native, or a new one.
func (h *Harness) remember(native string) (c *conversation, found bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.memory[native]; c != nil {
		return c, true
	}
	h.minted++
	c = &conversation{native: fmt.Sprintf("mock-%d", h.minted)}
	h.memory[c.native] = c
	h.oldest = append(h.oldest, c.native)
	if len(h.oldest) > maxRemembered {
		delete(h.memory, h.oldest[0])
		h.oldest = h.oldest[1:]
	}
	return c, false
}

// key mints the key of a part, unique in the conversation.
func (c *conversation) key(prefix string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.minted++
	return fmt.Sprintf("%s-%s-%d", c.native, prefix, c.minted)
}

func (c *conversation) add(prompt string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prompts = append(c.prompts, prompt)
}

// earlier returns the prompts before the current one.
func (c *conversation) earlier() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.prompts[:max(len(c.prompts)-1, 0)]
}
