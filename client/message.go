package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"

	"agentserver/internal/transport"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A row is one event as it came: decoded, or the reason why it cannot be.
type row struct {
	env protocol.Envelope
	bad *DecodeError // env holds the session and the number only
}

// A message is one message from the server, decoded by the connection's reader.
type message struct {
	kind messageKind
	row  row // event

	id     int64 // response
	result []byte
	page   *page // response to a replay of the client's own
	err    error // a *protocol.Error, or why the answer cannot be decoded
}

type messageKind int

const (
	ignored messageKind = iota
	event
	response
)

// decodeMessage decodes one message. isReplay says whether id is a replay whose events shall be decoded here. What is no event and no answer to
// a request with an integer id is ignored, as the wire demands; so is what is not JSON at all, such as a line that a wrapper script prints. It
// fails on an event that cannot even be placed. The message refers to data.
func decodeMessage(data []byte, isReplay func(id int64) bool) (message, error) {
	var method, id, params, result, failure []byte
	for o := jsonscan.NewObject(data); o.Next(); {
		switch {
		case o.Is("method"):
			method = o.Value()
		case o.Is("id"):
			id = o.Value()
		case o.Is("params"):
			params = o.Value()
		case o.Is("result"):
			result = o.Value()
		case o.Is("error"):
			failure = o.Value()
		}
	}
	switch {
	case method != nil && id == nil && jsonscan.Equal(method, protocol.NotificationEvent):
		r, err := decodeRow(params)
		return message{kind: event, row: r}, err
	case method != nil || result == nil && failure == nil:
		return message{}, nil
	}
	return decodeResponse(id, result, failure, isReplay), nil
}

func decodeResponse(id, result, failure []byte, isReplay func(int64) bool) message {
	n, ok := jsonscan.Int(id)
	if !ok {
		return message{}
	}
	m := message{kind: response, id: n}
	replay := isReplay(n)
	switch {
	case failure != nil:
		e := new(protocol.Error)
		if err := json.Unmarshal(failure, e); err != nil {
			m.err = fmt.Errorf("client: the server answered a malformed error: %w", err)
		} else {
			m.err = e
		}
	case replay:
		m.page, m.err = decodePage(result)
	case !json.Valid(result):
		m.err = fmt.Errorf("client: the server answered something that is not JSON")
	default:
		m.result = result
	}
	return m
}

// decodeTooLarge makes what it can of a message that the pipe skipped: the request that it answers fails, the event that it carries is one that
// cannot be decoded. It fails when the message's beginning tells neither; a new connection then finds out what is missing.
func decodeTooLarge(big *transport.TooLargeError, isReplay func(int64) bool) (message, error) {
	for o := jsonscan.NewObject(big.Head); o.Next(); {
		switch {
		case o.Is("id"):
			if n, ok := jsonscan.Int(o.Value()); ok {
				isReplay(n)
				return message{kind: response, id: n, err: big}, nil
			}
		case o.Is("params"): // cut off
			id := protocol.SessionID(jsonscan.String(jsonscan.Get(o.Value(), "sessionId")))
			if seq, err := strconv.ParseUint(string(jsonscan.Get(o.Value(), "seq")), 10, 64); err == nil && id != "" {
				env := protocol.Envelope{SessionID: id, Seq: seq}
				return message{kind: event, row: row{env: env, bad: &DecodeError{id, seq, nil, big}}}, nil
			}
		}
	}
	return message{}, big
}

// decodeRow decodes an envelope. It fails only when not even the session and the number can be read.
func decodeRow(data []byte) (row, error) {
	env, err := protocol.DecodeEnvelope(data)
	if err == nil {
		return row{env: env}, nil
	}
	id := protocol.SessionID(jsonscan.String(jsonscan.Get(data, "sessionId")))
	seq, seqErr := strconv.ParseUint(string(jsonscan.Get(data, "seq")), 10, 64)
	if id == "" || seqErr != nil || seq == 0 || !json.Valid(data) {
		return row{}, fmt.Errorf("the server sent a malformed event: %w", err)
	}
	return row{
		env: protocol.Envelope{SessionID: id, Seq: seq},
		bad: &DecodeError{SessionID: id, Seq: seq, JSON: bytes.Clone(data), Err: err},
	}, nil
}

// A page is the result of one `events/replay`. The numbers are 0 while the log holds nothing.
type page struct {
	rows          []row
	first, latest uint64
}

// decodePage decodes the result of a replay, walking the list so that each event is looked at once.
func decodePage(data []byte) (*page, error) {
	p := &page{}
	for o := jsonscan.NewObject(data); o.Next(); {
		var err error
		switch {
		case o.Is("events"):
			p.rows, err = decodeRows(o.Value())
		case o.Is("firstAvailableSeq"):
			p.first, err = decodeSeq(o.Value())
		case o.Is("latestSeq"):
			p.latest, err = decodeSeq(o.Value())
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

func decodeSeq(raw []byte) (uint64, error) {
	if jsonscan.IsNull(raw) {
		return 0, nil
	}
	return strconv.ParseUint(string(raw), 10, 64)
}

// parallelRows is from how many rows on a page is decoded by several goroutines: the server waits for the next request meanwhile anyway.
const parallelRows = 256

func decodeRows(list []byte) ([]row, error) {
	parts, err := elements(list)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(parts))
	workers := 1
	if len(parts) >= parallelRows {
		workers = min(runtime.GOMAXPROCS(0), 4)
	}
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := 1; w < workers; w++ {
		wg.Go(func() { errs[w] = decodeSome(rows, parts, w, workers) })
	}
	errs[0] = decodeSome(rows, parts, 0, workers)
	wg.Wait()
	return rows, errors.Join(errs...)
}

// decodeSome decodes the share of one worker: a run of neighbours.
func decodeSome(rows []row, parts [][]byte, worker, workers int) error {
	for i := len(parts) * worker / workers; i < len(parts)*(worker+1)/workers; i++ {
		// A copy, so that one event that a consumer keeps does not keep the whole page in memory.
		r, err := decodeRow(bytes.Clone(parts[i]))
		if err != nil {
			return err
		}
		rows[i] = r
	}
	return nil
}

// elements returns the objects of a list.
func elements(list []byte) ([][]byte, error) {
	var parts [][]byte
	for i := 1; i < len(list); { // past the bracket
		switch list[i] {
		case '{':
			end := jsonscan.SkipValue(list, i)
			parts = append(parts, list[i:end])
			i = end
		case ' ', '\t', '\r', '\n', ',':
			i++
		case ']':
			return parts, nil
		default:
			return nil, fmt.Errorf("events: holds something that is not an object")
		}
	}
	return nil, fmt.Errorf("events: is not a list")
}

// encodeRequest returns a whole request.
func encodeRequest(id int64, method string, params []byte) []byte {
	b := make([]byte, 0, len(params)+len(method)+64)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"method":"`...)
	b = append(b, method...) // a method of ours needs no escapes
	b = append(b, '"')
	if len(params) > 0 {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

// marshalParams encodes without HTML escaping, so that text arrives byte for byte.
func marshalParams(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
