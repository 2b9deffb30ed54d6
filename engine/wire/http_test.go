package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/engine/wire"
	"agentserver/internal/transport"
	"agentserver/internal/transport/transporttest"
	"agentserver/protocol"
)

// listen serves s on a free port and returns its host:port.
func listen(t *testing.T, s *wire.Server) string {
	t.Helper()
	l, err := wire.Listen(t.Context(), "0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.ServeListener(context.Background(), l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil && !errors.Is(err, wire.ErrServerClosed) { // it may not have begun before the end of a short test
			t.Errorf("ServeListener returned %v", err)
		}
	})
	return l.Addr().String()
}

func get(t *testing.T, url string, header http.Header) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// TestListener: the endpoint, /healthz, the token, the origin, on a real socket.
func TestListener(t *testing.T) {
	var log syncBuffer
	s := newServer(t, wire.Options{Token: "sesame", Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	addr := listen(t, s)
	if status, body := get(t, "http://"+addr+"/healthz", http.Header{}); status != 200 || !strings.Contains(body, `"ok"`) {
		t.Errorf("healthz: %d %s", status, body)
	}
	for name, header := range map[string]http.Header{
		"no token":     {},
		"wrong token":  {"Authorization": {"Bearer sesame2"}},
		"wrong scheme": {"Authorization": {"Basic sesame"}},
	} {
		_, err := transport.Dial(t.Context(), "ws://"+addr+"/ws", transport.DialOptions{Header: header})
		refusal, ok := errors.AsType[*transport.HandshakeError](err)
		if !ok || refusal.Status != http.StatusUnauthorized || !strings.Contains(refusal.Body, "Authorization: Bearer") {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := http.Header{"Authorization": {"Bearer sesame"}}
	if status, _ := get(t, "http://"+addr+"/ws", good); status != http.StatusUpgradeRequired {
		t.Errorf("a plain GET is answered %d", status)
	}
	foreign := http.Header{"Authorization": {"Bearer sesame"}, "Origin": {"https://evil.example"}}
	if _, err := transport.Dial(t.Context(), "ws://"+addr, transport.DialOptions{Header: foreign}); err == nil {
		t.Error("a foreign page was let in")
	}
	pipe, err := transport.Dial(t.Context(), "ws://"+addr, transport.DialOptions{Header: good})
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, pipe: pipe}
	p.ask("1", "initialize", `{"protocolVersion":2}`)
	p.ask("1", "turn/start", fmt.Sprintf(`{"sessionId":"s","input":"hunter1","config":{"harness":"script","cwd":%q,"apiKey":"hunter2","env":{"A":"hunter3"}}}`, t.TempDir()))
	p.events(protocol.EventTurnEnded)
	if got := p.ask("1", "turn/start", `{"sessionId":"s","input":"x","config":{"harness":"script","cwd":"/","apiKey":123456}}`); !strings.Contains(got, "config.apiKey") || strings.Contains(got, "123456") {
		t.Error(got)
	}
	s.Close()
	_, err = pipe.Read(context.Background())
	if code := transport.CodeOf(err); code != transport.CloseGoingAway {
		t.Errorf("closed with %v", err)
	}
	pipe.Close(transport.CloseNormal, "")
	for _, secret := range []string{"sesame", "hunter", "123456"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %q:\n%s", secret, log.String())
		}
	}
}

// TestSecondListener: a port that is taken gives an error that says what to do.
func TestSecondListener(t *testing.T) {
	addr := listen(t, newServer(t, wire.Options{}))
	if _, err := wire.Listen(t.Context(), addr); err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "another port") {
		t.Errorf("got %v", err)
	}
}

// TestMaxConnections: one too many is refused before the upgrade.
func TestMaxConnections(t *testing.T) {
	s := newServer(t, wire.Options{MaxConnections: 1})
	addr := listen(t, s)
	first, err := transport.Dial(t.Context(), "ws://"+addr, transport.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close(transport.CloseNormal, "")
	eventually(t, "the first connection", func() bool { return s.Connections() == 1 })
	_, err = transport.Dial(t.Context(), "ws://"+addr, transport.DialOptions{})
	if refusal, ok := errors.AsType[*transport.HandshakeError](err); !ok || refusal.Status != http.StatusServiceUnavailable {
		t.Errorf("got %v", err)
	}
}

// TestMounted: the handler works under somebody else's ServeMux, with text and binary frames and several messages in one.
func TestMounted(t *testing.T) {
	s := newServer(t, wire.Options{})
	mux := http.NewServeMux()
	mux.Handle("/agents/ws", s.Handler())
	srv := httptest.NewServer(mux)
	defer srv.Close()
	defer s.Close()
	pipe, err := transport.Dial(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http")+"/agents/ws", transport.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close(transport.CloseNormal, "")
	p := &peer{t: t, pipe: pipe}
	if got := p.ask("1", "initialize", `{"protocolVersion":2}`); !strings.Contains(got, `"protocolVersion":2`) {
		t.Error(got)
	}
}

// TestStdio: one message a line; the end of stdin ends the turn that runs, whose end is still told.
func TestStdio(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep ", keep), func(t *testing.T) {
			s := newServer(t, wire.Options{})
			inR, inW, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			outR, outW, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer inR.Close()
			defer outR.Close()
			served := make(chan error, 1)
			go func() {
				served <- s.ServeStdio(context.Background(), inR, outW, keep)
				outW.Close()
			}()
			fmt.Fprintf(inW, "\n  \n"+`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":2}}`+"\r\n")
			fmt.Fprintf(inW, `{"jsonrpc":"2.0","id":2,"method":"turn/start","params":%s}`+"\n", startParams(t, "s", "t", "hang"))
			inW.Close()
			out, err := io.ReadAll(outR)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-served; err != nil {
				t.Errorf("ServeStdio returned %v", err)
			}
			for _, want := range []string{`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2`, `{"jsonrpc":"2.0","id":2,"result":`} {
				if !strings.Contains(string(out), want) {
					t.Errorf("%s is missing in\n%s", want, out)
				}
			}
			if told := strings.Contains(string(out), `"session.ended"`); told == keep {
				t.Errorf("the end was told: %v\n%s", told, out)
			}
		})
	}
}

// TestDialOut: the server connects to a relay, and again when the relay drops it, until it is closed.
func TestDialOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, wire.Options{})
		accepted := make(chan transport.Pipe)
		relay := transporttest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer relay-token" {
				http.Error(w, "no", http.StatusUnauthorized)
				return
			}
			p, err := transport.Accept(w, r, transport.AcceptOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			accepted <- p
		}))
		defer relay.Close()
		done := make(chan error, 1)
		go func() {
			done <- s.DialOut(context.Background(), "ws://relay.test/", &wire.DialOutOptions{Token: "relay-token", HTTPClient: relay.HTTPClient()})
		}()
		for i := range 3 {
			pipe := <-accepted
			p := &peer{t: t, pipe: pipe}
			if got := p.ask("1", "initialize", `{"protocolVersion":2}`); !strings.Contains(got, "instance-1") {
				t.Errorf("%d: %s", i, got)
			}
			if i == 2 {
				go func() { // the closing handshake needs a reader
					pipe.Read(context.Background())
					pipe.Close(transport.CloseNormal, "")
				}()
				break
			}
			pipe.Close(transport.CloseNormal, "")
		}
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("DialOut returned %v", err)
		}
		err := newServer(t, wire.Options{}).DialOut(context.Background(), "ws://relay.test/", &wire.DialOutOptions{HTTPClient: relay.HTTPClient()})
		if refusal, ok := errors.AsType[*transport.HandshakeError](err); !ok || refusal.Status != http.StatusUnauthorized {
			t.Errorf("a refused DialOut returned %v", err)
		}
	})
}

// TestDeadPeer: a peer that vanished without a word, and one that takes nothing, are both closed in time (RB47, RB48).
func TestDeadPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, wire.Options{})
		n := transporttest.New(t, s.Handler())
		defer n.Close()
		pipe, err := n.Dial(t.Context(), transport.DialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer pipe.Close(transport.CloseNormal, "")
		synctest.Wait()
		if s.Connections() != 1 {
			t.Fatalf("%d connections", s.Connections())
		}
		link := n.Links()[0]
		link.Stall(transporttest.ToClient)
		link.Stall(transporttest.ToServer)
		time.Sleep(2 * time.Minute)
		if s.Connections() != 0 {
			t.Error("a dead connection is still held")
		}
	})
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
