package claude

import (
	"strconv"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
)

// compaction follows the compaction that runs, or ran last.
type compaction struct {
	count        int
	running      bool
	wantsSummary bool // the next user line holds it
	last         harness.Compaction
}

func (t *translator) compacting(l *systemLine) {
	switch {
	case l.Status == "compacting" && !t.compact.running:
		t.compact.running = true
		t.compactEvent(harness.Compaction{Key: t.compactKey(true), Status: protocol.CompactionInProgress})
	case l.CompactResult == "failed" && t.compact.running:
		t.compact.running = false
		t.compactEvent(harness.Compaction{Key: t.compactKey(false), Status: protocol.CompactionFailed})
		if l.CompactError != "" {
			t.emit(harness.Notice{Kind: protocol.NoticeWarning, Message: "the conversation was not compacted: " + t.redact.Text(l.CompactError)})
		}
	}
}

// compacted handles the boundary, which comes with or without a status before.
func (t *translator) compacted(l *systemLine) {
	e := harness.Compaction{Key: t.compactKey(!t.compact.running), Status: protocol.CompactionCompleted}
	t.compact.running = false
	if m := l.Compact; m != nil {
		e.PreTokens, e.PostTokens = m.PreTokens, m.PostTokens
		e.Trigger = protocol.CompactionTrigger(m.Trigger)
	}
	t.compact.wantsSummary = true
	t.compactEvent(e)
}

func (t *translator) compactSummary(l *messageLine) {
	t.compact.wantsSummary = false
	var texts []string
	for _, b := range l.Message.Content {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	if len(texts) == 0 {
		return
	}
	e := t.compact.last
	e.Summary = strings.Join(texts, "\n")
	t.compactEvent(e)
}

func (t *translator) compactEvent(e harness.Compaction) {
	t.compact.last = e
	t.emit(e) // which opens no turn: the engine keeps it for the next
}

func (t *translator) compactKey(fresh bool) string {
	if fresh {
		t.compact.count++
	}
	return "compaction-" + strconv.Itoa(t.compact.count)
}
