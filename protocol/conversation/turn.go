package conversation

import "agentserver/protocol"

// turnOf returns the place of a turn, making it when it is not known: its beginning was not seen then. It is taken to be the one that runs, unless
// another does.
func (s *State) turnOf(id protocol.TurnID) int {
	if place, ok := s.cur.idx.turns[id]; ok {
		return place
	}
	status := TurnRunning
	if s.cur.ActiveTurnID != "" {
		status = TurnLost
	}
	return s.addTurn(&Turn{ID: id, Seq: s.seq, Status: status})
}

func (s *State) addTurn(t *Turn) int {
	place := s.cur.Turns.Len()
	s.cur.Turns = s.cur.Turns.push(t)
	put(s.cur.idx, s.cur.idx.turns, t.ID, place)
	if t.Status == TurnRunning {
		s.cur.ActiveTurnID = t.ID
	}
	s.changed(Change{Kind: TurnChanged, TurnID: t.ID, Turn: t})
	return place
}

func (s *State) turnStarted(e *protocol.TurnStarted) {
	if s.cur.Session != nil && s.cur.Session.Ended != nil {
		next := *s.cur.Session
		next.Ended = nil
		s.setSession(next)
	}
	origin := e.Meta.GetString(protocol.MetaOrigin)
	place, known := s.cur.idx.turns[e.TurnID]
	if !known {
		if active := s.cur.ActiveTurnID; active != "" {
			s.endTurn(s.cur.idx.turns[active], Turn{Status: TurnLost})
		}
		s.addTurn(&Turn{ID: e.TurnID, Seq: s.seq, Status: TurnRunning, Origin: origin, StartedAt: e.Timestamp, Meta: e.Meta})
		return
	}
	if t := *s.cur.Turns.At(place); t.StartedAt == 0 {
		t.StartedAt, t.Origin, t.Meta = e.Timestamp, origin, e.Meta
		s.setTurn(place, t)
	}
}

func (s *State) turnEnded(e *protocol.TurnEnded) {
	place := s.turnOf(e.TurnID)
	if s.cur.Turns.At(place).Status == TurnEnded {
		return
	}
	s.endTurn(place, Turn{Status: TurnEnded, EndedAt: e.Timestamp, StopReason: e.StopReason, FinishReason: e.FinishReason,
		Tokens: e.Tokens, Cost: e.Cost, Error: e.Error, EndMeta: e.Meta})
	s.cur.Totals = s.cur.Totals.plus(e)
	totals := s.cur.Totals
	s.changed(Change{Kind: TotalsChanged, Totals: &totals})
}

// endTurn closes what is open in a turn and gives it the fields of end that tell how it ended.
func (s *State) endTurn(place int, end Turn) {
	t := *s.cur.Turns.At(place)
	if t.ID == s.cur.ActiveTurnID {
		s.closeParts(end.EndedAt)
		s.cancelPermissions(t.ID, end.EndedAt)
		s.cur.ActiveTurnID = ""
		s.opened = s.opened[:0]
		s.open = [numKinds]int{}
	}
	if message, ok := s.speaks[t.ID]; ok {
		s.closeMessage(message, end.EndedAt)
	}
	if n := s.cur.Notice; n != nil && (n.TurnID == t.ID || n.TurnID == "") {
		s.setNotice(nil)
	}
	t.Status, t.EndedAt, t.StopReason, t.FinishReason = end.Status, end.EndedAt, end.StopReason, end.FinishReason
	t.Tokens, t.Cost, t.Error, t.EndMeta = end.Tokens, end.Cost, end.Error, end.EndMeta
	s.setTurn(place, t)
}

func (s *State) setTurn(place int, t Turn) {
	s.cur.Turns = s.cur.Turns.set(place, &t)
	s.changed(Change{Kind: TurnChanged, TurnID: t.ID, Turn: &t})
}

// plus returns the totals with one more turn.
func (t Totals) plus(e *protocol.TurnEnded) Totals {
	t.Turns++
	if k := e.Tokens; k != nil {
		t.Tokens.Input += k.Input
		t.Tokens.Output += k.Output
		t.Tokens.Reasoning += k.Reasoning
		if k.Cache != nil {
			var sum protocol.CacheTokens
			if t.Tokens.Cache != nil {
				sum = *t.Tokens.Cache
			}
			sum.Read += k.Cache.Read
			sum.Write += k.Cache.Write
			sum.WriteEphemeral5m += k.Cache.WriteEphemeral5m
			sum.WriteEphemeral1h += k.Cache.WriteEphemeral1h
			t.Tokens.Cache = &sum
		}
	}
	if e.Cost != nil {
		t.Costs = addCost(t.Costs, *e.Cost)
	}
	return t
}

// addCost returns a new list of sums.
func addCost(sums []protocol.Cost, c protocol.Cost) []protocol.Cost {
	if c.Currency == "" {
		c.Currency = "USD"
	}
	out := append([]protocol.Cost(nil), sums...)
	for i := range out {
		if out[i].Currency == c.Currency {
			out[i].Amount += c.Amount
			return out
		}
	}
	return append(out, c)
}

func (s *State) permissionRequested(e *protocol.PermissionRequested) {
	turn := s.turnOf(e.TurnID)
	if _, known := s.cur.idx.requests[e.RequestID]; known {
		return
	}
	p := &Permission{RequestID: e.RequestID, TurnID: e.TurnID, Seq: s.seq, At: e.Timestamp, Title: e.Title, ToolCall: e.ToolCall, Options: e.Options}
	if t := s.cur.Turns.At(turn); t.Status != TurnRunning {
		p.resolve(protocol.Cancelled(), t.EndedAt)
	} else {
		s.cur.pending++
	}
	s.addPermission(p)
}

func (s *State) addPermission(p *Permission) {
	place := s.cur.Permissions.Len()
	s.cur.Permissions = s.cur.Permissions.push(p)
	put(s.cur.idx, s.cur.idx.requests, p.RequestID, place)
	s.skipSettled()
	s.changed(Change{Kind: PermissionChanged, TurnID: p.TurnID, Permission: p})
}

func (s *State) permissionResolved(e *protocol.PermissionResolved) {
	place, known := s.cur.idx.requests[e.RequestID]
	if !known { // the request was not seen
		s.turnOf(e.TurnID)
		p := &Permission{RequestID: e.RequestID, TurnID: e.TurnID, Seq: s.seq, At: e.Timestamp, Options: []protocol.PermissionOption{}}
		p.resolve(e.Outcome, e.Timestamp)
		s.addPermission(p)
		return
	}
	s.resolve(place, e.Outcome, e.Timestamp)
}

// resolve settles a request, unless it is settled.
func (s *State) resolve(place int, outcome protocol.PermissionOutcome, at int64) {
	p := *s.cur.Permissions.At(place)
	if !p.Pending() {
		return
	}
	p.resolve(outcome, at)
	s.cur.pending--
	s.cur.Permissions = s.cur.Permissions.set(place, &p)
	s.skipSettled()
	s.changed(Change{Kind: PermissionChanged, TurnID: p.TurnID, Permission: &p})
}

func (p *Permission) resolve(outcome protocol.PermissionOutcome, at int64) {
	p.Outcome, p.ResolvedAt = &outcome, at
}

// skipSettled keeps the place from which on pending requests are looked for.
func (s *State) skipSettled() {
	for s.cur.pendingFrom < s.cur.Permissions.Len() && !s.cur.Permissions.At(s.cur.pendingFrom).Pending() {
		s.cur.pendingFrom++
	}
}

func (s *State) cancelPermissions(turn protocol.TurnID, at int64) {
	for place := s.cur.pendingFrom; s.cur.pending > 0 && place < s.cur.Permissions.Len(); place++ {
		if p := s.cur.Permissions.At(place); p.Pending() && p.TurnID == turn {
			s.resolve(place, protocol.Cancelled(), at)
		}
	}
}
