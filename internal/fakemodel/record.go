package fakemodel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

const (
	maxRecordedBodies   = 256 << 20 // bytes; the oldest bodies go first
	maxRecordedRequests = 100_000   // later requests are answered but not recorded
)

// A Request is one recorded HTTP request. Header and Body hold secrets as they came: keep them out of test logs.
type Request struct {
	N       int // from 1, in order of arrival
	API     API // "" for a path that belongs to none
	Method  string
	Path    string
	Query   string
	Header  http.Header
	Body    json.RawMessage // nil if there was none, it was not JSON, or it was dropped to bound memory
	Size    int             // bytes of the body
	Call    int             // number of the model call, 0 if the request is not one
	Session string          // of the model call
	Turn    string          // of the model call
	Script  string          // the directive that the reply starts from, as written; "" without one
	Done    bool            // the reply has ended
	Err     error           // why it ended early: the client went away, a scripted drop
}

// Decode unmarshals the body into v.
func (r Request) Decode(v any) error {
	if r.Body == nil {
		return fmt.Errorf("fakemodel: request %d (%s %s) has no JSON body", r.N, r.Method, r.Path)
	}
	return json.Unmarshal(r.Body, v)
}

// Requests returns copies of all recorded requests, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = *r
	}
	return out
}

// Calls returns the recorded model calls only.
func (s *Server) Calls() []Request {
	var calls []Request
	for _, r := range s.Requests() {
		if r.Call > 0 {
			calls = append(calls, r)
		}
	}
	return calls
}

// WaitRequest returns the first recorded request for which match is true, waiting for one until ctx ends or the server closes.
// A request is looked at again whenever it changes, so match may ask for Done. match is called without locks held.
func (s *Server) WaitRequest(ctx context.Context, match func(Request) bool) (Request, error) {
	for {
		changed := s.changes()
		for _, r := range s.Requests() {
			if match(r) {
				return r, nil
			}
		}
		if err := s.wait(ctx, changed, "a matching request"); err != nil {
			return Request{}, err
		}
	}
}

// WaitCalls waits until n model calls have arrived and returns all that have.
func (s *Server) WaitCalls(ctx context.Context, n int) ([]Request, error) {
	for {
		changed := s.changes()
		if calls := s.Calls(); len(calls) >= n {
			return calls, nil
		}
		if err := s.wait(ctx, changed, fmt.Sprintf("%d model calls", n)); err != nil {
			return nil, err
		}
	}
}

// changes returns a channel that is closed at the next change of the recorded state.
func (s *Server) changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// wait waits for changed.
func (s *Server) wait(ctx context.Context, changed <-chan struct{}, what string) error {
	select {
	case <-changed:
		return nil
	case <-s.ctx.Done():
		return errors.New("fakemodel: the server closed while waiting for " + what)
	case <-ctx.Done():
		return fmt.Errorf("fakemodel: gave up waiting for %s, check what the client sent with Requests: %w", what, context.Cause(ctx))
	}
}

// notify wakes the waiters. The caller holds mu.
func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// record registers a request whose body is not read yet.
func (s *Server) record(r *http.Request, api API) *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := &Request{
		N: len(s.requests) + 1, API: api, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(),
	}
	if len(s.requests) < maxRecordedRequests {
		s.requests = append(s.requests, rec)
	}
	s.notify()
	return rec
}

// setBody stores the body of rec and drops the oldest bodies over the bound.
func (s *Server) setBody(rec *Request, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.Size = len(body)
	if json.Valid(body) {
		rec.Body = body
		s.bodies += int64(len(body))
	}
	for ; s.bodies > maxRecordedBodies && s.dropped < len(s.requests); s.dropped++ {
		old := s.requests[s.dropped]
		s.bodies -= int64(len(old.Body))
		old.Body = nil
	}
	s.notify()
}

// finish marks the reply to rec as ended.
func (s *Server) finish(rec *Request, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.Done, rec.Err = true, err
	s.notify()
}

// startCall numbers a model call.
func (s *Server) startCall(rec *Request, conv *conversation, c cue) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	rec.Call, rec.Session, rec.Turn = s.calls, conv.session, turnOf(conv, c)
	if len(c.script) > 0 {
		rec.Script = c.full
	}
	s.notify()
	return s.calls
}

// turnOf names the turn: the CLI's id, else the ordinal of the scripted user message.
func turnOf(conv *conversation, c cue) string {
	if conv.turnID != "" {
		return conv.turnID
	}
	return strconv.Itoa(c.turn)
}

// countFailure counts the uses of an ERRN.
func (s *Server) countFailure(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[key]++
	return s.failures[key]
}

// recordUsage stores what the call reported, if it got as far as a stream.
func (s *Server) recordUsage(call int, rec *Request, conv *conversation, c cue, p *player) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage = append(s.usage, UsageRecord{
		Call: call, API: conv.api, Session: conv.session, Turn: turnOf(conv, c), Model: conv.model,
		Usage: p.usage, Complete: p.complete,
	})
}

func (s *Server) requestID(rec *Request) string { return fmt.Sprintf("req_fake_%04d", rec.N) }
