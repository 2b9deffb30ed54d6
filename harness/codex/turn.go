package codex

import (
	"maps"
	"slices"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
)

// A turn is the engine's turn: from Send to TurnEnd.
type turn struct {
	active  bool
	call    int64         // our turn/start
	id      string        // codex's id, once it is known
	started chan struct{} // closed when codex works on it
	begun   bool          // started is closed

	interrupted bool
	interruptID int64 // our turn/interrupt
	cleanID     int64 // our order to kill the commands
	confirmed   chan struct{}
	failure     *protocol.TurnError // why we interrupted it ourselves
}

// begin starts the engine's turn with a call.
func (t *translator) begin(method string, params any) int64 {
	t.confirm()
	t.turn = turn{active: true, started: make(chan struct{})}
	t.opened = false
	for _, th := range t.threads {
		th.spoke, th.inTool = false, false
	}
	t.turn.call = t.request(method, params)
	return t.turn.call
}

// takeBack forgets a turn that codex has not taken.
func (t *translator) takeBack() {
	t.confirm()
	t.turn = turn{}
}

// turnParam is turn/started and turn/completed.
type turnParam struct {
	ThreadID string `json:"threadId"`
	Turn     struct {
		ID     string     `json:"id"`
		Status string     `json:"status"`
		Error  *turnError `json:"error"`
	} `json:"turn"`
}

// turnAnswer handles the answers to what turns have asked.
func (t *translator) turnAnswer(method string, a answer) {
	tn := &t.turn
	switch {
	case a.id == tn.call && a.err == nil && method == "turn/start":
		// While codex works on a turn of its own, this is a steer of that one: its id comes back, and no new turn begins.
		var r turnParam
		decode(t, a.result, func(_ *translator, p *turnParam) { r = *p })
		tn.id = r.Turn.ID
		if tn.id == t.running && tn.id != "" {
			t.works()
		}
	case a.id == tn.call && a.err != nil:
		t.takeBack()
	case a.id == tn.interruptID && a.err == nil && tn.cleanID == 0:
		t.confirm() // there is nothing to kill
	case a.id == tn.cleanID && a.err == nil:
		t.confirm()
	case a.id == tn.cleanID:
		t.strange("answer", method+": "+a.err.Error())
		t.confirm()
	}
}

func (t *translator) turnStarted(p *turnParam) {
	th := t.threadOf(p.ThreadID)
	th.turn = p.Turn.ID
	if !th.main {
		return
	}
	t.running = p.Turn.ID
	t.emit(harness.SessionStarted{NativeSessionID: t.native, Model: t.model, Resumed: t.resumed})
	if t.turn.active && (t.turn.id == "" || t.turn.id == p.Turn.ID) {
		t.turn.id = p.Turn.ID
		t.works()
	}
}

// works says that codex works on the engine's turn. An interrupt that came before this would have found no turn, so it goes out only now.
func (t *translator) works() {
	if t.turn.begun {
		return
	}
	t.turn.begun = true
	close(t.turn.started)
	if t.turn.interrupted {
		t.sendInterrupt()
	}
}

// busy reports whether there is something to interrupt.
func (t *translator) busy() bool { return t.turn.active || t.opened || t.running != "" }

// interrupt stops what runs. The channel is closed when that has worked.
func (t *translator) interrupt() <-chan struct{} {
	tn := &t.turn
	if tn.confirmed == nil {
		tn.confirmed = make(chan struct{})
	}
	confirmed := tn.confirmed
	tn.interrupted = true
	switch {
	case tn.active && !tn.begun: // at turn/started
	case t.running != "":
		t.sendInterrupt()
	default: // only sub-agents work
		t.interruptAgents()
		t.endTurn(harness.TurnEnd{StopReason: protocol.StopCancelled})
	}
	return confirmed
}

// sendInterrupt stops the turn, the sub-agents, and the commands, which codex itself would leave running.
func (t *translator) sendInterrupt() {
	t.turn.interruptID = t.request("turn/interrupt", object{"threadId": t.native, "turnId": t.running})
	t.interruptAgents()
	t.turn.cleanID = t.request("thread/backgroundTerminals/clean", object{"threadId": t.native})
}

func (t *translator) interruptAgents() {
	for _, id := range slices.Sorted(maps.Keys(t.threads)) {
		if th := t.threads[id]; !th.main && th.turn != "" {
			t.request("turn/interrupt", object{"threadId": id, "turnId": th.turn})
			t.request("thread/backgroundTerminals/clean", object{"threadId": id})
		}
	}
}

func (t *translator) confirm() {
	if t.turn.confirmed != nil {
		close(t.turn.confirmed)
		t.turn.confirmed = nil
	}
}

func (t *translator) turnCompleted(p *turnParam) {
	th := t.threadOf(p.ThreadID)
	th.turn = ""
	t.over(p.Turn.ID)
	if !th.main {
		t.settle(func(c *call) bool { return c.thread == th }, p.Turn.Status != "interrupted")
		t.agentEnded(th.id, p.Turn.Status == "interrupted")
		if t.opened && !t.turn.active && t.running == "" && !t.agentsWork() {
			t.endTurn(harness.TurnEnd{StopReason: protocol.StopEndTurn})
		}
		return
	}
	t.running = ""
	if t.turn.active && t.turn.id != "" && t.turn.id != p.Turn.ID {
		return // codex's own, that ended as ours began
	}
	if !t.turn.active && !t.opened {
		return
	}
	t.endTurn(t.endOf(p))
}

func (t *translator) agentsWork() bool {
	for _, th := range t.threads {
		if !th.main && th.turn != "" {
			return true
		}
	}
	return false
}

func (t *translator) endOf(p *turnParam) harness.TurnEnd {
	switch {
	case t.turn.failure != nil:
		return harness.TurnEnd{StopReason: protocol.StopError, Error: t.turn.failure}
	case p.Turn.Status == "interrupted":
		return harness.TurnEnd{StopReason: protocol.StopCancelled, FinishReason: p.Turn.Status}
	case p.Turn.Status == "failed":
		if p.Turn.Error == nil {
			p.Turn.Error = &turnError{}
		}
		return failedEnd(p.Turn.Error, t.redact)
	}
	return harness.TurnEnd{StopReason: protocol.StopEndTurn, FinishReason: p.Turn.Status}
}

// endTurn ends the engine's turn, and what codex has left open in it.
func (t *translator) endTurn(end harness.TurnEnd) {
	completed := end.StopReason != protocol.StopCancelled && end.StopReason != protocol.StopError
	t.settle(func(c *call) bool { return c.thread.main }, completed)
	for _, id := range slices.Sorted(maps.Keys(t.compact)) {
		status := protocol.CompactionFailed
		if end.StopReason == protocol.StopCancelled {
			status = protocol.CompactionCancelled
		}
		t.compacted(id, status)
	}
	for _, key := range slices.Sorted(maps.Keys(t.perms)) {
		if p := t.perms[key]; p.thread == t.native || !completed {
			delete(t.perms, key)
			t.emit(harness.PermissionWithdrawn{Key: key})
		}
	}
	var used tokenCount
	for _, th := range t.threads {
		used = used.plus(th.acct.take())
	}
	end.Tokens = used.tokens()
	end.Background = slices.Sorted(maps.Keys(t.calls))
	t.emit(end)
	if t.turn.cleanID == 0 {
		t.confirm()
	}
	confirmed, cleanID, interruptID := t.turn.confirmed, t.turn.cleanID, t.turn.interruptID
	if t.turn.active && !t.turn.begun {
		close(t.turn.started)
	}
	t.turn = turn{}
	if confirmed != nil { // the commands are still being killed
		t.turn.confirmed, t.turn.cleanID, t.turn.interruptID = confirmed, cleanID, interruptID
	}
	t.opened = false
	t.progress()
}

// settle ends the calls that codex has left open. In a turn that completed, commands and sub-agents go on in the background.
func (t *translator) settle(match func(*call) bool, completed bool) {
	for _, id := range slices.Sorted(maps.Keys(t.calls)) {
		c := t.calls[id]
		if !match(c) {
			continue
		}
		if completed && (c.part.ToolName == toolCommand || c.part.Subagent != nil && t.agentRuns(c)) {
			continue
		}
		t.end(id, &protocol.ToolCancelled{Input: c.input})
	}
}

// settleAll ends every call, for codex is gone.
func (t *translator) settleAll() {
	t.settle(func(*call) bool { return true }, false)
}

// errorParams is the error notification. An error that ends the turn comes again with turn/completed.
type errorParams struct {
	ThreadID  string    `json:"threadId"`
	Error     turnError `json:"error"`
	WillRetry bool      `json:"willRetry"`
}

// failed tells of an error that codex gets over by itself.
func (t *translator) failed(p *errorParams) {
	if !p.WillRetry {
		return
	}
	text := p.Error.text()
	if p.Error.Details != "" {
		text += " (" + p.Error.Details + ")"
	}
	if !t.retrying {
		t.retrying = true
		t.emit(harness.Failure{Category: p.Error.category(), Message: t.redact.Text(text)})
	}
	t.waiting = strings.Contains(text, "waiting for network") || p.Error.category() == protocol.CategoryNetwork
	notice := harness.Notice{Kind: protocol.NoticeRetry, Message: t.redact.Text(text)}
	notice.Progress = attempts(p.Error.Message)
	t.emit(notice)
}

// progress notes that the model answers.
func (t *translator) progress() { t.waiting, t.retrying = false, false }

// attempts reads "Reconnecting... 2/5".
func attempts(message string) *protocol.Progress {
	_, counts, _ := strings.Cut(message, "... ")
	done, total, ok := strings.Cut(counts, "/")
	d, t := numbers(done), numbers(total)
	if !ok || len(d) != 1 || len(t) != 1 {
		return nil
	}
	return &protocol.Progress{Done: int64(d[0]), Total: int64(t[0]), Unit: "attempts"}
}

// noNetwork is the error of a turn that only waits. It is not changed.
var noNetwork = &protocol.TurnError{Category: protocol.CategoryNetwork, Message: "codex has no network and would wait for ever: check the server's network, then send the turn again"}

// giveUp ends a turn that does nothing but wait for the network.
func (t *translator) giveUp() {
	if !t.waiting || !t.turn.active || t.turn.interrupted {
		return
	}
	t.turn.failure = noNetwork
	t.interrupt()
}

// usageParams is a thread's account after a model call.
type usageParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	Usage    struct {
		Total  tokenCount `json:"total"`
		Last   tokenCount `json:"last"`
		Window int64      `json:"modelContextWindow"`
	} `json:"tokenUsage"`
}

func (t *translator) usage(p *usageParams) {
	th := t.threadOf(p.ThreadID)
	t.progress()
	if th.main && p.TurnID != t.running && p.TurnID != t.turn.id && !t.ended[p.TurnID] {
		// Of a turn that an earlier process ran: codex tells it after a resume, maybe when the next turn has begun.
		th.acct = accounting{known: true, base: p.Usage.Total, total: p.Usage.Total}
		return
	}
	th.acct.update(p.Usage.Total, p.Usage.Last)
	if th.main && p.Usage.Last.Total > 0 && !t.ended[p.TurnID] {
		t.emit(harness.Usage{Used: p.Usage.Last.Total, Size: p.Usage.Window})
	}
}
