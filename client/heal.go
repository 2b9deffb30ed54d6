package client

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"agentserver/internal/transport"
	"agentserver/protocol"
)

// heal is the part of the loop's state that makes a stream without duplicates, holes or inversions out of what arrives (spec section 7).
type heal struct {
	cursor   protocol.SeqCursor
	sessions map[protocol.SessionID]*session
	filter   []protocol.SessionID // nil: the firehose
	allowed  map[protocol.SessionID]bool
	syncs    int        // replays that run
	queued   []*session // syncs that wait for their turn
	hash     maphash.Seed
}

// A session is what the loop knows of one session besides its cursor.
type session struct {
	id protocol.SessionID
	// held are events that came too early, by number. highest is the greatest number seen, held or not: when held is full, what comes is
	// dropped and fetched later.
	held    map[uint64]row
	highest uint64
	// first is the hash of event 1, to tell a late duplicate of it from the beginning of a fresh log; 0 when event 1 was never delivered.
	first uint64
	// sync is the replay that runs or waits; nil when none does.
	sync *syncRun
	// dormant: the server no longer knows the session; it is not synced again until something of it arrives.
	dormant bool
	turns   []*Turn // active handles
	waiters []func(error)
}

// A syncRun fetches what a session misses, page by page.
type syncRun struct {
	attempt int
	limit   int    // events a page
	from    uint64 // the cursor when the page was asked for
	again   bool   // asked for once more while it ran: what arrived meanwhile may not be in its last page
	running bool   // counted in heal.syncs
	over    bool
}

const (
	// maxSyncs is how many replays run at once, so that a reconnect with a thousand sessions does not ask for them all in one breath.
	maxSyncs = 8
	// maxHeld bounds the events held back for one session.
	maxHeld = 8192
)

func (c *core) initHeal() {
	c.sessions = make(map[protocol.SessionID]*session)
	c.hash = maphash.MakeSeed()
}

func (c *core) session(id protocol.SessionID) *session {
	s := c.sessions[id]
	if s == nil {
		s = &session{id: id}
		c.sessions[id] = s
	}
	return s
}

// live handles an event that the server sent by itself.
func (c *core) live(r row) {
	id, seq := r.env.SessionID, r.env.Seq
	if c.filter != nil && !c.allowed[id] {
		return // sent before the server took the subscription
	}
	s := c.session(id)
	s.dormant = false
	if seq == 1 && s.first != 0 && s.first == c.sum(r) {
		return // a replay was quicker than the connection's own copy; the cursor would take it for a fresh log
	}
	switch c.cursor.Advance(id, seq) {
	case protocol.Deliver:
		s.highest = max(s.highest, seq)
		c.deliver(s, r)
		c.drain(s)
	case protocol.Reset:
		c.forgetHeld(s)
		s.highest = 1
		c.deliver(s, r)
	case protocol.Gap:
		s.highest = max(s.highest, seq)
		c.hold(s, r)
		if s.sync == nil { // one that runs goes on until highest anyway
			c.startSync(s)
		}
	}
}

func (c *core) hold(s *session, r row) {
	if len(s.held) >= maxHeld {
		return
	}
	if s.held == nil {
		s.held = make(map[uint64]row)
	}
	s.held[r.env.Seq] = r
}

// drain delivers the held events that have become the next ones, and drops those that have come by another way.
func (c *core) drain(s *session) {
	for len(s.held) > 0 {
		next := c.cursor.Last(s.id) + 1
		r, ok := s.held[next]
		if !ok {
			break
		}
		delete(s.held, next)
		c.cursor.Advance(s.id, next)
		c.deliver(s, r)
	}
	if len(s.held) > 0 && s.highest <= c.cursor.Last(s.id) {
		clear(s.held)
	}
}

func (c *core) forgetHeld(s *session) {
	clear(s.held)
	if s.sync != nil {
		s.sync.again = true
	}
}

// deliver hands the next event of a session to everybody.
func (c *core) deliver(s *session, r row) {
	if r.env.Seq == 1 {
		s.first = c.sum(r)
	}
	if r.bad != nil {
		c.report(r.bad)
		c.failSession(s, r.bad)
		return
	}
	c.pushEvent(r.env)
	c.routeToTurns(s, r.env)
}

// sum is a hash of an event's content, never 0.
func (c *core) sum(r row) uint64 {
	if r.bad != nil {
		return cmp.Or(maphash.Bytes(c.hash, r.bad.JSON), 1)
	}
	data, err := protocol.EncodeEvent(r.env.Event) // what was decoded encodes to its own bytes
	if err != nil {
		return 1
	}
	return cmp.Or(maphash.Bytes(c.hash, data), 1)
}

// syncAll fetches what every tracked session may have missed.
func (c *core) syncAll() {
	for _, id := range sortedKeys(c.sessions) {
		s := c.sessions[id]
		if c.filter != nil && !c.allowed[id] {
			continue
		}
		if len(s.waiters) > 0 || hasStartedTurn(s) || !s.dormant && (c.cursor.Last(id) > 0 || s.highest > 0) {
			c.startSync(s)
		}
	}
}

// startSync fetches what session s misses, from the cursor to the end of its log.
func (c *core) startSync(s *session) {
	switch {
	case c.link == nil:
		return // syncAll will
	case s.sync != nil:
		s.sync.again = true
		return
	}
	s.sync = &syncRun{limit: c.opts.ReplayPage}
	c.queued = append(c.queued, s)
	c.runSyncs()
}

// runSyncs begins what waits, as far as the limit allows.
func (c *core) runSyncs() {
	for c.syncs < maxSyncs && len(c.queued) > 0 && c.link != nil {
		s := c.queued[0]
		c.queued = c.queued[1:]
		if run := s.sync; run != nil && !run.running {
			run.running = true
			c.syncs++
			c.nextPage(s, run)
		}
	}
}

// nextPage asks for what follows the cursor.
func (c *core) nextPage(s *session, run *syncRun) {
	if run.over {
		return
	}
	run.again, run.from = false, c.cursor.Last(s.id)
	c.replay(s.id, run.from+1, run.limit, func(p *page, err error) { c.onPage(s, run, p, err) })
}

// replay asks for one page of a session's log, on this connection only.
func (c *core) replay(id protocol.SessionID, from uint64, limit int, done func(*page, error)) {
	params, err := marshalParams(protocol.EventsReplayParams{SessionID: id, FromSeq: from, Limit: limit})
	if err != nil {
		done(nil, err)
		return
	}
	c.send(&call{
		method: protocol.MethodEventsReplay, params: params, internal: true, replay: true,
		done: func(m message) {
			if m.err == nil && m.page == nil {
				m.err = fmt.Errorf("client: the server's answer to events/replay holds no events")
			}
			done(m.page, m.err)
		},
	})
}

// onPage merges a page, and goes on to the next, tries again, or ends.
func (c *core) onPage(s *session, run *syncRun, p *page, err error) {
	switch {
	case run.over:
		return
	case errors.Is(err, protocol.ErrUnknownSession):
		c.giveUp(s, err)
		s.dormant = true
		c.endSync(s)
		return
	}
	if _, big := errors.AsType[*transport.TooLargeError](err); big && run.limit > 1 {
		run.limit = max(run.limit/16, 1)
		c.nextPage(s, run)
		return
	}
	if err == nil {
		s.highest = max(s.highest, p.latest)
		err = c.merge(s, p)
	}
	last := c.cursor.Last(s.id)
	switch {
	case last >= s.highest && !run.again && (err == nil || last > run.from):
		c.endSync(s) // when the replay failed, live events have shown meanwhile that nothing is missing
	case err == nil && last > run.from: // by the page, or by live events
		run.attempt = 0
		c.nextPage(s, run)
	case err == nil && last >= s.highest:
		c.nextPage(s, run) // asked for again
	default:
		c.retrySync(s, run, cmp.Or(err, error(errNoProgress)))
	}
}

var errNoProgress = errors.New("the server replayed nothing although its log goes on")

// merge delivers a page's events in order. It fails on a page with a hole in it.
func (c *core) merge(s *session, p *page) error {
	last := c.cursor.Last(s.id)
	if p.first > last+1 {
		c.lose(s, p.first-1, nil)
	}
	for _, r := range p.rows {
		if r.env.SessionID != s.id {
			return fmt.Errorf("the server replayed events of another session")
		}
		if r.env.Seq <= c.cursor.Last(s.id) {
			continue // delivered meanwhile; not the cursor's business, which would take a 1 for a fresh log
		}
		if c.cursor.Advance(s.id, r.env.Seq) != protocol.Deliver {
			return fmt.Errorf("the server replayed event %d where %d was next", r.env.Seq, c.cursor.Last(s.id)+1)
		}
		delete(s.held, r.env.Seq)
		c.deliver(s, r)
	}
	c.drain(s)
	return nil
}

// retrySync tries again after a while, or gives up.
func (c *core) retrySync(s *session, run *syncRun, err error) {
	run.attempt++
	if run.attempt >= c.opts.ReplayAttempts {
		c.giveUp(s, err)
		c.endSync(s)
		return
	}
	c.after(c.opts.ReplayDelay, func() { c.nextPage(s, run) })
}

// giveUp accepts that what is missing cannot be had, and goes on with what is held.
func (c *core) giveUp(s *session, err error) {
	if len(s.held) == 0 {
		if _, wire := errors.AsType[*protocol.Error](err); !wire || !errors.Is(err, protocol.ErrUnknownSession) {
			err = &GapError{SessionID: s.id, First: c.cursor.Last(s.id) + 1, Err: err}
			c.report(err)
		}
		c.failSession(s, err)
		s.highest = c.cursor.Last(s.id)
		return
	}
	if errors.Is(err, protocol.ErrUnknownSession) {
		c.failSession(s, err)
	}
	for len(s.held) > 0 {
		c.lose(s, slices.Min(slices.Collect(maps.Keys(s.held)))-1, err)
		c.drain(s)
	}
	s.highest = c.cursor.Last(s.id)
}

// lose moves the cursor past a hole that cannot be filled, up to and including last, and tells whom it concerns.
func (c *core) lose(s *session, last uint64, why error) {
	gap := &GapError{SessionID: s.id, First: c.cursor.Last(s.id) + 1, Last: last, Err: why}
	c.report(gap)
	c.failSession(s, gap)
	c.cursor.Seek(s.id, last)
	s.highest = max(s.highest, last)
	maps.DeleteFunc(s.held, func(seq uint64, _ row) bool { return seq <= last })
}

// endSync ends a session's sync, tells who waits for it, and lets the next one run.
func (c *core) endSync(s *session) {
	s.sync.over = true
	s.sync = nil
	c.syncs--
	waiters := s.waiters
	s.waiters = nil
	for _, done := range waiters {
		done(nil)
	}
	c.runSyncs()
}

// dropSyncs forgets all syncs without telling anybody: the next connection begins them anew.
func (c *core) dropSyncs() {
	for _, s := range c.sessions {
		if s.sync != nil {
			s.sync.over = true
			s.sync = nil
		}
	}
	c.syncs, c.queued = 0, nil
}

// afterSync calls done in the loop once session s has caught up with its log, or cannot.
func (c *core) afterSync(s *session, done func(error)) {
	s.waiters = append(s.waiters, done)
	c.startSync(s)
}

// newInstance gives up the earlier process's logs: first every active turn handle fails, then all cursors and held events are forgotten.
func (c *core) newInstance() {
	c.failTurns(ErrInstanceChanged)
	c.cursor = protocol.SeqCursor{}
	kept := make(map[protocol.SessionID]*session)
	for id, s := range c.sessions {
		if len(s.waiters) > 0 || len(s.turns) > 0 { // not begun: they wait to be sent to whatever process there is
			kept[id] = &session{id: id, waiters: s.waiters, turns: s.turns}
		}
	}
	c.sessions = kept
}

// endWaiters tells everybody who waits for a sync that there will be none.
func (c *core) endWaiters(err error) {
	for _, id := range sortedKeys(c.sessions) {
		s := c.sessions[id]
		waiters := s.waiters
		s.waiters = nil
		for _, done := range waiters {
			done(err)
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
