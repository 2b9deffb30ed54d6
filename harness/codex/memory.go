package codex

import "sync"

// A memory holds what a harness knows of threads that codex does not tell, across the processes of a session. It is bounded, and safe for concurrent
// use. The zero value is empty.
type memory struct {
	mu           sync.Mutex
	totals       map[string]tokenCount // what `codex exec` said that a thread has used
	instructions map[string]string     // the systemPromptAppend that a thread has
}

// maxRemembered bounds the threads of each kind.
const maxRemembered = 4096

// used turns a thread's total into what was used since the last call; known is false when that cannot be told.
func (m *memory) used(thread string, total tokenCount, fresh bool) (used tokenCount, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	base, known := m.totals[thread]
	if m.totals == nil || len(m.totals) >= maxRemembered {
		m.totals = map[string]tokenCount{}
	}
	m.totals[thread] = total
	used = total.minus(base)
	return used, (known || fresh) && !used.negative()
}

// instructed returns the instructions that a thread has; known is false for a thread that is new here.
func (m *memory) instructed(thread string) (text string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, known = m.instructions[thread]
	return text, known
}

func (m *memory) instruct(thread, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.instructions == nil || len(m.instructions) >= maxRemembered {
		m.instructions = map[string]string{}
	}
	m.instructions[thread] = text
}
