package fakemodel

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// An API is a dialect that the server speaks.
type API string

// The dialects, told apart by path.
const (
	Anthropic       API = "anthropic"        // POST /v1/messages
	OpenAIResponses API = "openai-responses" // POST /v1/responses
	OpenAIChat      API = "openai-chat"      // POST /v1/chat/completions
	Gemini          API = "gemini"           // POST /v1beta/models/…:streamGenerateContent and :generateContent
)

// DefaultMaxBody is the largest request body accepted unless [Options] says otherwise, in bytes, after decompression.
const DefaultMaxBody = 64 << 20

// Options tunes a server; the zero value is the default.
type Options struct {
	// Usage replaces DefaultUsage if it is not zero.
	Usage Usage
	// Header is added to every streamed reply, for example rate-limit headers.
	Header http.Header
	// ChunkDelay is waited after every delta that has no delay of its own.
	ChunkDelay time.Duration
	// MaxBody bounds a request body, in bytes; 0 means DefaultMaxBody. Larger ones are answered with 413.
	MaxBody int64
}

// A Server is a scripted model endpoint on a loopback port. Its methods are safe for concurrent use.
type Server struct {
	opts Options
	url  string
	http *http.Server

	ctx    context.Context // ends every reply when the server closes
	cancel context.CancelFunc
	wg     sync.WaitGroup // the accept loop and the connections
	once   sync.Once

	mu       sync.Mutex // guards what follows
	changed  chan struct{}
	requests []*Request
	bodies   int64
	dropped  int // the requests before this index have no body any more
	calls    int
	gates    map[string]*gate
	failures map[string]int
	usage    []UsageRecord
}

// Start listens on a free port of 127.0.0.1 and serves until Close; nil options are the defaults.
func Start(opts *Options) (*Server, error) {
	if opts == nil {
		opts = &Options{}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fakemodel: cannot listen on loopback, check that 127.0.0.1 is up: %w", err)
	}
	s := &Server{
		opts: *opts, url: "http://" + ln.Addr().String(),
		changed: make(chan struct{}), gates: map[string]*gate{}, failures: map[string]int{},
	}
	if s.opts.MaxBody <= 0 {
		s.opts.MaxBody = DefaultMaxBody
	}
	if s.opts.Usage == (Usage{}) {
		s.opts.Usage = DefaultUsage
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ConnState:         s.connState,
	}
	s.wg.Go(func() { _ = s.http.Serve(ln) }) // ends with ErrServerClosed
	return s, nil
}

// URL is the root of the server, "http://127.0.0.1:port", without a slash at the end. The OpenAI dialects want URL()+"/v1".
func (s *Server) URL() string { return s.url }

// Close cuts all connections, those of hanging and gated replies too, and returns when every goroutine of the server
// has ended. It is idempotent.
func (s *Server) Close() {
	s.once.Do(func() {
		s.cancel()
		_ = s.http.Close()
	})
	s.wg.Wait()
}

// connState counts the connections, so that Close can wait for them.
func (s *Server) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.wg.Add(1)
	case http.StateClosed:
		s.wg.Done()
	}
}

// ServeHTTP records the request and answers it in the dialect of its path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := dialectOf(r)
	rec := s.record(r, d.api)
	err := s.serve(w, r, d, rec)
	s.finish(rec, err)
	if err != nil {
		panic(http.ErrAbortHandler) // or the server would end a reply that was cut short as if it were whole
	}
}

// serve reads the body and dispatches.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, d dialect, rec *Request) error {
	body, err := readBody(w, r, s.opts.MaxBody)
	s.setBody(rec, body)
	if err != nil {
		f := failure{status: http.StatusBadRequest, message: err.Error()}
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			f = failure{status: http.StatusRequestEntityTooLarge, message: "request body over the limit, send less than " + fmt.Sprint(s.opts.MaxBody) + " bytes"}
		}
		return d.fail(w, s.requestID(rec), f)
	}
	if d.decode == nil {
		return s.plain(w, r, d, rec, body)
	}
	conv, err := d.decode(r, body)
	if err != nil {
		return d.fail(w, s.requestID(rec), failure{status: http.StatusBadRequest, message: "send a valid request body: " + err.Error()})
	}
	return s.answer(r.Context(), w, d, rec, conv)
}

// plain answers what is not a model call.
func (s *Server) plain(w http.ResponseWriter, r *http.Request, d dialect, rec *Request, body []byte) error {
	switch {
	case r.Method == http.MethodHead:
		w.WriteHeader(http.StatusOK)
		return nil
	case d.plain != nil:
		return writeJSON(w, http.StatusOK, d.plain(body))
	}
	return d.fail(w, s.requestID(rec), failure{
		status: http.StatusNotFound, kind: "not_found",
		message: "no route " + r.Method + " " + r.URL.Path + ", see the package documentation of fakemodel for those it has",
	})
}

// answer plans and plays the reply to a model call.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, d dialect, rec *Request, conv *conversation) error {
	cue := conv.cue()
	call := s.startCall(rec, conv, cue)
	rep := plan(conv, cue, s.opts.Usage, maxGenerated, s.countFailure)
	if rep.fail != nil && rep.fail.drop {
		return errDrop
	}
	if rep.fail != nil && !(rep.fail.inStream && d.api == OpenAIResponses) {
		return d.fail(w, s.requestID(rec), *rep.fail)
	}
	sink := &sink{w: w, rc: http.NewResponseController(w), streaming: conv.stream, header: s.opts.Header, call: call}
	if d.api == Anthropic {
		w.Header().Set("Request-Id", s.requestID(rec))
	}
	p := &player{server: s, sink: sink, out: d.stream(sink, conv), delay: s.opts.ChunkDelay}
	defer func() { s.recordUsage(call, rec, conv, cue, p) }()
	return p.play(ctx, rep)
}

// readBody returns the whole body, decompressed; errors name what to change.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	body := http.MaxBytesReader(w, r.Body, most)
	switch enc := strings.ToLower(r.Header.Get("Content-Encoding")); enc {
	case "", "identity":
		return io.ReadAll(body)
	case "gzip":
		zr, err := gzip.NewReader(body)
		if err != nil {
			return nil, fmt.Errorf("body is not gzip, fix Content-Encoding: %w", err)
		}
		defer zr.Close()
		data, err := io.ReadAll(http.MaxBytesReader(w, zr, most))
		if err != nil {
			return nil, fmt.Errorf("gzip body: %w", err)
		}
		return data, nil
	default:
		_, _ = io.Copy(io.Discard, body)
		return nil, fmt.Errorf("content encoding %q is not supported, send gzip or none", enc)
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(v)
}
