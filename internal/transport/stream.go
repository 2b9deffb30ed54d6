package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/sourcegraph/jsonrpc2"
)

// A stream is a Conn as jsonrpc2 sees it: its ObjectStream and its Handler. jsonrpc2 never sees a payload, only skeletons with our numbers
// for ids; the package comment says why.
type stream struct {
	*Conn
	rest []byte // Tolerant: what follows the message that was found in a text

	// What jsonrpc2 is about to write. It calls onSend and WriteObject one after the other under its own lock.
	req  *jsonrpc2.Request
	resp *jsonrpc2.Response
}

// ReadObject implements jsonrpc2.ObjectStream. It runs on the read loop, and deals with everything but requests and the responses to
// [Conn.Call] by itself. Its error is the end of the loop.
func (s *stream) ReadObject(v any) error {
	<-s.ready
	for {
		m, err := s.next()
		if err != nil {
			return s.end(err)
		}
		var skeleton []byte
		switch m.kind {
		case isNotification:
			s.notify(m)
		case isRequest:
			r, err := s.accept(m)
			if err != nil {
				return s.end(err)
			}
			skeleton = fmt.Appendf(nil, `{"id":%d,"method":%s}`, r.num, m.rawMethod)
		case isResponse:
			if slot, waits := s.response(m); waits {
				skeleton = fmt.Appendf(nil, `{"id":%d,"result":null}`, slot)
			}
		}
		if skeleton != nil {
			return v.(json.Unmarshaler).UnmarshalJSON(skeleton)
		}
	}
}

// next returns the next message. What is none is answered or passed over here.
func (s *stream) next() (message, error) {
	for {
		text := s.rest
		if s.rest = nil; text == nil {
			var err error
			text, err = s.pipe.Read(context.Background())
			if tooLarge, ok := errors.AsType[*TooLargeError](err); ok {
				if err := s.reject(&rejection{nil, Error{Code: codeInvalidRequest, Message: tooLarge.Error()}}, tooLarge.Head); err != nil {
					return message{}, err
				}
				continue
			}
			if err != nil {
				return message{}, err
			}
		}
		m, why := parse(text, !s.o.Tolerant)
		if why == nil {
			return m, nil
		}
		if s.o.Tolerant && why.err.Code == codeParse {
			before, object, after := firstObject(text)
			if object != nil && len(object) < len(text) {
				s.passOver("junk around a message", before)
				if m, why = parse(object, false); why == nil {
					s.rest = trim(after)
					return m, nil
				}
				s.rest = trim(after)
				text = object
			}
		}
		if err := s.reject(why, text); err != nil {
			return message{}, err
		}
	}
}

func (s *stream) passOver(why string, text []byte) {
	if text = trim(text); len(text) > 0 {
		s.junk(why, text)
	}
}

// reject reports a text that is no message and, unless tolerant, answers it. The answer waits for room, so that a flood of junk is as slow as
// its sender reads.
func (s *stream) reject(why *rejection, text []byte) error {
	s.passOver(why.err.Message, text)
	if s.o.Tolerant {
		return nil
	}
	if err := s.out.waitRoom(s.ctx); err != nil {
		return err
	}
	return s.post(s.write.failure(why.id, &why.err))
}

func (s *stream) notify(m message) {
	if s.o.Notify != nil {
		s.guard(m.method, func() { s.o.Notify(&Notification{Method: m.method, Params: m.params, Text: m.text}) })
	}
}

// response completes the call that m answers. waits says that jsonrpc2 must wake it, under slot.
func (s *stream) response(m message) (slot uint64, waits bool) {
	id, err := strconv.ParseUint(string(m.id), 10, 64)
	call := s.takeCall(id)
	if err != nil || call == nil {
		s.passOver("a response that answers nothing", m.text)
		return 0, false
	}
	if m.err != nil && string(m.err) != "null" {
		call.err = decodeError(m.err)
	} else {
		call.result = m.result
	}
	if call.done == nil {
		return call.slot, true
	}
	s.freeSlot(call.slot)
	s.guard(call.method, func() { call.done(call.result, call.err) })
	return 0, false
}

// end is the end of the read loop.
func (s *stream) end(cause error) error {
	if cause == io.EOF && s.o.Linger > 0 {
		s.linger()
	}
	s.fail(cause)
	err := closedError{s.Err()}
	for _, call := range s.takeCallbacks() {
		s.guard(call.method, func() { call.done(nil, err) })
	}
	close(s.readDone)
	return cause
}

// linger waits until every request is answered and every answer is written.
func (s *stream) linger() {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Linger)
	defer cancel()
	for range cap(s.inFlight) {
		select {
		case s.inFlight <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
	s.out.waitIdle(ctx)
}

// Handle implements jsonrpc2.Handler.
func (s *stream) Handle(_ context.Context, _ *jsonrpc2.Conn, req *jsonrpc2.Request) {
	if r := s.request(req.ID.Num); r != nil {
		r.run(s.o.Handle)
	}
}

func (s *stream) onSend(req *jsonrpc2.Request, resp *jsonrpc2.Response) { s.req, s.resp = req, resp }

// WriteObject implements jsonrpc2.ObjectStream. It only queues.
func (s *stream) WriteObject(any) error {
	if s.resp != nil {
		r := s.request(s.resp.ID.Num)
		if s.resp.Error != nil {
			return s.post(s.write.failure(r.id, fromJSONRPC2(s.resp.Error)))
		}
		return s.post(s.write.result(r.id, *s.resp.Result))
	}
	return s.sendCall(s.req.ID.Num)
}

// Close implements jsonrpc2.ObjectStream. jsonrpc2 calls it once.
func (s *stream) Close() error {
	s.mu.Lock()
	code, why := s.closeCode, s.closeWhy
	s.mu.Unlock()
	s.fail(&CloseError{Code: code, Reason: why})
	err := s.pipe.Close(code, why)
	close(s.closed)
	return err
}

func fromJSONRPC2(e *jsonrpc2.Error) *Error {
	out := &Error{Code: e.Code, Message: e.Message}
	if e.Data != nil {
		out.Data = *e.Data
	}
	return out
}
