package provision

import (
	"fmt"
	"sync"
	"time"
)

// A Stage is what an installation is doing.
type Stage string

// The stages, in the order in which they happen. Waiting is for another process that installs the same version.
const (
	Waiting     Stage = "waiting"
	Downloading Stage = "downloading"
	Verifying   Stage = "verifying"
)

// Progress is a snapshot of an installation. The zero value means that none has begun.
type Progress struct {
	Tool    Tool
	Version string
	Stage   Stage
	// Done and Total count bytes of the packed download. Total is 0 while nothing is downloaded.
	Done, Total int64
}

// String returns one line for people, such as "claude 2.1.332: downloading 12 of 177 MiB".
func (p Progress) String() string {
	const mib = 1 << 20
	head := fmt.Sprintf("%s %s: ", p.Tool, p.Version)
	switch p.Stage {
	case Waiting:
		return head + "waiting for another process that installs it"
	case Verifying:
		return head + "verifying"
	}
	return head + fmt.Sprintf("%s %d of %d MiB", p.Stage, p.Done/mib, p.Total/mib)
}

// progressInterval is the least time between two reports to one caller: four a second.
const progressInterval = 250 * time.Millisecond

// A meter holds the newest Progress: an installation writes it, any number of waiting callers read it.
type meter struct {
	mu  sync.Mutex // guards now
	now Progress
}

func (m *meter) set(p Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = p
}

func (m *meter) stage(s Stage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Stage = s
}

// done sets the bytes that have arrived so far.
func (m *meter) done(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Done = n
}

func (m *meter) load() Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}
