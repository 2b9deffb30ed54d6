package claude

import (
	"maps"
	"slices"

	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A turn is the engine's turn: from Send to TurnEnd. While the CLI works on something that it began by itself, the message is held.
type turn struct {
	active  bool
	uuid    string // of its message
	line    []byte // the message, until it is sent
	sent    bool
	began   bool // an init line came after it was sent
	acked   bool // the CLI works on the message
	stirred bool // the CLI has woken up since

	said        bool   // the main agent has shown something
	lastUUID    string // of the main agent's last message
	interrupted bool
	cancelID    string        // our request to take the message out of the CLI's queue
	interruptID string        // our last interrupt
	confirmed   chan struct{} // closed when the interrupt has worked

	steers      map[string]bool   // uuids of further messages that the CLI has not taken up yet
	steerCancel map[string]string // request id → uuid: our requests to take them out again
	waiting     []*steer          // messages that wait for a tool to run
	held        *harness.TurnEnd  // the end, while steers are outstanding

	startError string // why the CLI gave up before any turn
}

// A steer is a message for the running turn that we hold back while text streams: the CLI would make it a turn of its own.
type steer struct {
	uuid string
	line []byte
	done chan bool // gets one value: whether it was sent
}

// begin starts the engine's turn with a user line.
func (t *translator) begin(uuid string, line []byte) {
	t.confirm()
	t.turn = turn{active: true, uuid: uuid, line: line}
	t.opened = false
	if !t.running {
		t.sendHeld()
	}
}

// sendHeld sends the turn's message, if it was held.
func (t *translator) sendHeld() {
	if t.turn.active && t.turn.line != nil {
		t.send(t.turn.line)
		t.turn.line, t.turn.sent = nil, true
		return
	}
	if t.turn.active && !t.turn.sent { // cancelled before it was sent
		t.endTurn(harness.TurnEnd{StopReason: protocol.StopCancelled})
	}
}

// turnBegins handles the init line of a turn.
func (t *translator) turnBegins() {
	if !t.turn.active || !t.turn.sent {
		return
	}
	t.turn.began = true
	if t.turn.interrupted && t.turn.interruptID == "" {
		t.turn.interruptID = t.request(object{"subtype": "interrupt"})
	}
}

// acknowledge handles the CLI's word that it works on a message.
func (t *translator) acknowledge(uuid string) {
	if uuid == "" {
		return
	}
	if uuid == t.turn.uuid {
		t.turn.acked = true
	}
	delete(t.turn.steers, uuid)
}

// lifecycle handles what 2.1.332 tells of our messages.
func (t *translator) lifecycle(l *lifecycleLine) {
	switch {
	case l.State == "started":
		t.acknowledge(l.UUID)
	case l.State == "cancelled" && l.UUID != "":
		delete(t.turn.steers, l.UUID)
		if t.turn.active && t.turn.sent && l.UUID == t.turn.uuid && !t.turn.began { // no turn will come of it
			t.endTurn(harness.TurnEnd{StopReason: protocol.StopCancelled})
		}
	}
}

// busy reports whether there is something to interrupt.
func (t *translator) busy() bool { return t.turn.active || t.running || t.opened }

// interrupt stops what runs. The channel is closed when that has worked.
func (t *translator) interrupt() <-chan struct{} {
	tn := &t.turn
	if tn.confirmed == nil {
		tn.confirmed = make(chan struct{})
	}
	confirmed := tn.confirmed
	tn.interrupted = true
	t.releaseSteers(false)
	t.takeBackSteers()
	switch {
	case tn.active && !tn.sent:
		tn.line = nil
		if t.running {
			tn.interruptID = t.request(object{"subtype": "interrupt"})
		} else {
			t.sendHeld()
		}
	case tn.active && !tn.began && !tn.acked:
		// The CLI has not taken up the message: an interrupt may find nothing to stop, and the turn would start after it. So the message is
		// taken out of its queue, and what starts all the same is interrupted once more at its init line.
		tn.cancelID = t.request(object{"subtype": "cancel_async_message", "message_uuid": tn.uuid})
		t.request(object{"subtype": "interrupt"})
	case tn.active || t.running:
		tn.interruptID = t.request(object{"subtype": "interrupt"})
	default:
		t.stopTasks()
	}
	return confirmed
}

// takeBackSteers takes the messages that the CLI has queued out of its queue, for an interrupt does not drop them.
func (t *translator) takeBackSteers() {
	for _, uuid := range slices.Sorted(maps.Keys(t.turn.steers)) {
		if t.turn.steerCancel == nil {
			t.turn.steerCancel = map[string]string{}
		}
		t.turn.steerCancel[t.request(object{"subtype": "cancel_async_message", "message_uuid": uuid})] = uuid
	}
}

// stopTasks ends a turn that only work in the background has opened, and that work.
func (t *translator) stopTasks() {
	for _, id := range slices.Sorted(maps.Keys(t.tasks)) {
		t.request(object{"subtype": "stop_task", "task_id": id})
	}
	t.endTurn(harness.TurnEnd{StopReason: protocol.StopCancelled})
}

// turnResponse handles the answers to what interrupt and steering have asked.
func (t *translator) turnResponse(r response) {
	tn := &t.turn
	switch {
	case r.id == tn.cancelID && tn.active:
		tn.cancelID = ""
		switch {
		case isTrue(jsonscan.Get(r.body, "cancelled")):
			t.endTurn(harness.TurnEnd{StopReason: protocol.StopCancelled})
		case tn.began && tn.interruptID == "":
			tn.interruptID = t.request(object{"subtype": "interrupt"})
		} // else the init line is still to come
	case r.id == tn.interruptID && r.err == nil:
		t.confirm()
	default:
		if uuid, ok := tn.steerCancel[r.id]; ok {
			delete(tn.steerCancel, r.id)
			delete(tn.steers, uuid)
		}
	}
}

func (t *translator) confirm() {
	if t.turn.confirmed != nil {
		close(t.turn.confirmed)
		t.turn.confirmed = nil
	}
}

// stateChanged is the backstop for results that never come: an idle CLI has no turn left.
func (t *translator) stateChanged(l *systemLine) {
	if l.State == "running" {
		t.turn.stirred = t.turn.active && t.turn.sent
	}
	if l.State != "idle" {
		return
	}
	t.running = false
	switch {
	case t.turn.held != nil:
		t.endTurn(*t.turn.held)
	case t.turn.active && !t.turn.sent:
		t.sendHeld()
	case t.turn.active && (t.turn.began || t.turn.stirred):
		t.dropUnfinished()
		end := harness.TurnEnd{StopReason: protocol.StopEndTurn}
		if t.turn.interrupted {
			end.StopReason = protocol.StopCancelled
		}
		t.endTurn(end)
	}
}

// endTurn ends the engine's turn.
func (t *translator) endTurn(end harness.TurnEnd) {
	if t.turn.lastUUID != "" {
		end.Meta = end.Meta.With(MetaMessageID, t.turn.lastUUID)
	}
	end.Tokens, end.Cost = t.acct.take()
	t.finalGauge(end.Tokens)
	end.Background = t.background()
	end.Own = !t.turn.active // no input was sent for it
	for _, key := range slices.Sorted(maps.Keys(t.perms)) {
		t.emit(harness.PermissionWithdrawn{Key: key})
	}
	t.emit(end)
	t.confirm()
	t.releaseSteers(false)
	t.turn = turn{}
	t.opened = false
	t.askAgain()
}

// quiet reports whether a turn is open that only work in the background has opened, with nothing left that would end it.
func (t *translator) quiet() bool {
	return t.opened && !t.turn.active && !t.running && len(t.perms) == 0
}

// endQuiet ends such a turn. What still runs goes on in the background.
func (t *translator) endQuiet() {
	if t.quiet() {
		t.endTurn(harness.TurnEnd{StopReason: protocol.StopEndTurn})
	}
}

// steer adds a message to the running turn: at once while a tool runs, else as soon as one does. It reports false when there is no turn.
func (t *translator) steer(s *steer) bool {
	tn := &t.turn
	if !tn.active || !tn.sent || tn.interrupted || tn.held != nil {
		return false
	}
	tn.waiting = append(tn.waiting, s)
	if t.working() {
		t.steerNow()
	}
	return true
}

// steerNow sends the messages that waited for a tool.
func (t *translator) steerNow() {
	if len(t.turn.waiting) == 0 || !t.working() {
		return
	}
	if t.turn.steers == nil {
		t.turn.steers = map[string]bool{}
	}
	for _, s := range t.turn.waiting {
		t.send(s.line)
		t.turn.steers[s.uuid] = true
	}
	t.releaseSteers(true)
}

// releaseSteers tells those who wait whether their message was sent.
func (t *translator) releaseSteers(sent bool) {
	for _, s := range t.turn.waiting {
		s.done <- sent // has room
	}
	t.turn.waiting = nil
}

// forgetSteer drops a message whose sender has stopped waiting. It reports whether it was still held.
func (t *translator) forgetSteer(s *steer) bool {
	n := len(t.turn.waiting)
	t.turn.waiting = slices.DeleteFunc(t.turn.waiting, func(w *steer) bool { return w == s })
	return len(t.turn.waiting) < n
}
