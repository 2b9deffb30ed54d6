package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"agentserver/internal/transport"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A fakeServer answers the wire by the book, from logs that a test fills. Faults are injected on the connections.
type fakeServer struct {
	mu       sync.Mutex
	instance string
	logs     map[protocol.SessionID]*fakeLog
	admitted map[string]bool
	conns    []*fakeConn
	wg       sync.WaitGroup
	dials    int
	calls    map[string]int // by method

	refuse func(attempt int) error                           // dial
	script func(p protocol.TurnStartParams)                  // turn/start, after its ack
	answer func(method string, params []byte) (any, error)   // nil, nil: by the book
	mangle func(c *fakeConn, frame []byte) (frames [][]byte) // what is sent of an event
}

type fakeLog struct {
	rows  [][]byte // envelopes; rows[0] has number first
	first uint64
}

func newFake(t testing.TB) *fakeServer {
	s := &fakeServer{instance: "one", logs: map[protocol.SessionID]*fakeLog{}, admitted: map[string]bool{}, calls: map[string]int{}}
	t.Cleanup(s.stop)
	return s
}

func (s *fakeServer) stop() {
	s.cut(io.EOF)
	s.wg.Wait()
}

// open is a dialer's open.
func (s *fakeServer) open(context.Context) (transport.Pipe, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials++
	if s.refuse != nil {
		if err := s.refuse(s.dials); err != nil {
			return nil, err
		}
	}
	a, b := newMemPipe(), newMemPipe()
	a.peer, b.peer = b, a
	c := &fakeConn{server: s, pipe: b, client: a}
	s.conns = append(s.conns, c)
	s.wg.Go(c.serve)
	return a, nil
}

// connect returns a client of s, closed when the test ends.
func (s *fakeServer) connect(t testing.TB, opts *Options) *Client {
	t.Helper()
	c, err := start(t.Context(), opts, dialer{open: s.open}, s.open)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// cut ends every connection, as a network does.
func (s *fakeServer) cut(err error) {
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	for _, c := range conns {
		c.pipe.fail(err)
		c.client.fail(err)
	}
}

// restart is a new process on the same address.
func (s *fakeServer) restart(instance string) {
	s.mu.Lock()
	s.instance, s.logs, s.admitted = instance, map[protocol.SessionID]*fakeLog{}, map[string]bool{}
	s.mu.Unlock()
	s.cut(errors.New("connection reset"))
}

// emit appends events and sends them to every connection.
func (s *fakeServer) emit(id protocol.SessionID, events ...protocol.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		e.Header().SessionID = id
		e.Header().Timestamp = 1
		l := s.log(id)
		seq := l.first + uint64(len(l.rows))
		env, err := protocol.AppendEnvelope(nil, protocol.Envelope{SessionID: id, Seq: seq, Event: e})
		if err != nil {
			panic(err)
		}
		l.rows = append(l.rows, env)
		s.broadcast(eventFrame(env))
	}
}

func (s *fakeServer) log(id protocol.SessionID) *fakeLog {
	l := s.logs[id]
	if l == nil {
		l = &fakeLog{first: 1}
		s.logs[id] = l
	}
	return l
}

func (s *fakeServer) broadcast(frame []byte) {
	for _, c := range s.conns {
		frames := [][]byte{frame}
		if s.mangle != nil {
			frames = s.mangle(c, frame)
		}
		for _, f := range frames {
			c.client.deliver(f)
		}
	}
}

// evict drops the oldest rows up to and including seq.
func (s *fakeServer) evict(id protocol.SessionID, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[id]
	if seq < l.first {
		return
	}
	n := min(int(seq-l.first+1), len(l.rows))
	l.rows, l.first = l.rows[n:], l.first+uint64(n)
}

func eventFrame(env []byte) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"event","params":%s}`, env)
}

type fakeConn struct {
	server       *fakeServer
	pipe, client *memPipe
}

func (c *fakeConn) serve() {
	for {
		data, err := c.pipe.Read(context.Background())
		if err != nil {
			return
		}
		id := jsonscan.Get(data, "id")
		method := jsonscan.String(jsonscan.Get(data, "method"))
		c.handle(id, method, jsonscan.Get(data, "params"))
	}
}

func (c *fakeConn) handle(id []byte, method string, params []byte) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[method]++
	var result any
	var err error
	if s.answer != nil {
		s.mu.Unlock()
		result, err = s.answer(method, params)
		s.mu.Lock()
	}
	var then func()
	if result == nil && err == nil {
		result, then, err = c.byTheBook(method, params)
	}
	if err != nil {
		e, ok := errors.AsType[*protocol.Error](err)
		if !ok {
			return // no answer at all
		}
		failure, _ := json.Marshal(e)
		c.client.deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, failure))
		return
	}
	data, _ := marshalParams(result)
	c.client.deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, data))
	if then != nil {
		s.wg.Go(then)
	}
}

func (c *fakeConn) byTheBook(method string, params []byte) (result any, then func(), err error) {
	s := c.server
	switch method {
	case protocol.MethodInitialize:
		return protocol.InitializeResult{ProtocolVersion: 2, InstanceID: s.instance}, nil, nil
	case protocol.MethodTurnStart:
		var p protocol.TurnStartParams
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, nil, err
		}
		key := string(p.SessionID) + "/" + string(p.TurnID)
		again := s.admitted[key]
		s.admitted[key] = true
		if !again && s.script != nil {
			then = func() { s.script(p) }
		}
		s.log(p.SessionID)
		return protocol.TurnStartResult{SessionID: p.SessionID, TurnID: p.TurnID, Deduplicated: again}, then, nil
	case protocol.MethodEventsReplay:
		var p protocol.EventsReplayParams
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, nil, err
		}
		return s.replay(p)
	case protocol.MethodEventsSubscribe, protocol.MethodShutdown:
		return struct{}{}, nil, nil
	}
	return nil, nil, protocol.Errorf(protocol.CodeMethodNotFound, "%s", method)
}

func (s *fakeServer) replay(p protocol.EventsReplayParams) (any, func(), error) {
	l := s.logs[p.SessionID]
	if l == nil {
		return nil, nil, protocol.UnknownSession(p.SessionID)
	}
	type result struct {
		Events []json.RawMessage `json:"events"`
		First  *uint64           `json:"firstAvailableSeq"`
		Latest *uint64           `json:"latestSeq"`
	}
	r := result{Events: []json.RawMessage{}}
	if len(l.rows) > 0 {
		last := l.first + uint64(len(l.rows)) - 1
		r.First, r.Latest = &l.first, &last
		first := l.first
		r.First = &first
		for seq := max(p.FromSeq, l.first); seq <= last && (p.Limit == 0 || len(r.Events) < p.Limit); seq++ {
			r.Events = append(r.Events, l.rows[seq-l.first])
		}
	}
	return r, nil, nil
}

// A memPipe is one end of a pipe in memory that never blocks a writer.
type memPipe struct {
	peer  *memPipe
	queue *queue[[]byte]
	ready [][]byte
	mu    sync.Mutex
	black bool // swallows everything, in both directions, and says nothing
	gone  chan struct{}
	once  sync.Once
	err   error
}

func newMemPipe() *memPipe { return &memPipe{queue: newQueue[[]byte](-1), gone: make(chan struct{})} }

func (p *memPipe) Read(ctx context.Context) ([]byte, error) {
	for {
		if len(p.ready) > 0 {
			msg := p.ready[0]
			p.ready = p.ready[1:]
			return msg, nil
		}
		p.ready, _, _ = p.queue.take()
		if len(p.ready) > 0 {
			continue
		}
		select {
		case <-p.queue.wake:
		case <-p.gone:
			return nil, p.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (p *memPipe) Write(ctx context.Context, texts ...[]byte) error {
	select {
	case <-p.gone:
		return p.err
	default:
	}
	for _, text := range texts {
		p.peer.deliver(text)
	}
	return nil
}

// deliver hands text to whoever reads p.
func (p *memPipe) deliver(text []byte) {
	p.mu.Lock()
	black := p.black
	p.mu.Unlock()
	if !black {
		p.queue.push(append([]byte(nil), text...))
	}
}

func (p *memPipe) swallow() {
	for _, end := range []*memPipe{p, p.peer} {
		end.mu.Lock()
		end.black = true
		end.mu.Unlock()
	}
}

// fail ends this end. What the peer has sent already is lost, as with a reset.
func (p *memPipe) fail(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.gone)
	})
}

func (p *memPipe) Close(transport.CloseCode, string) error {
	p.fail(errors.New("pipe closed"))
	p.peer.fail(io.EOF)
	return nil
}

// The events that the tests use.

func turnStarted(id protocol.TurnID) protocol.Event { return &protocol.TurnStarted{TurnID: id} }
func turnEnded(id protocol.TurnID) protocol.Event {
	return &protocol.TurnEnded{TurnID: id, StopReason: protocol.StopEndTurn}
}
func delta(id protocol.TurnID, i int) protocol.Event {
	return &protocol.MessagePartDelta{TurnID: id, MessageID: "m", OutputIndex: 1, PartID: "p", Delta: &protocol.TextDelta{Text: fmt.Sprint("<", i, "> & so on")}}
}
