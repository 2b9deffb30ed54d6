package transport_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"agentserver/internal/transport"
)

// Many senders, callers and handlers share one real connection: every sender's messages arrive once and in its order, every call gets its own
// answer, and what a handler sent before its reply arrives before it.
func TestStress(t *testing.T) {
	const senders, each, calls = 4, 500, 300
	var server *transport.Conn
	accepted := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := transport.Accept(w, r, transport.AcceptOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		server = transport.NewConn(context.Background(), p, transport.Options{
			MaxQueuedTexts: 16, MaxInFlight: 8,
			Handle: func(_ context.Context, r *transport.Request) (any, error) {
				return r.Go(func(ctx context.Context, r *transport.Request) (any, error) {
					server.Notify(ctx, "before", r.Params)
					return r.Params, nil
				})
			},
		})
		close(accepted)
		<-server.Done()
		server.Close(transport.CloseNormal, "")
	}))
	defer srv.Close()
	pipe, err := transport.Dial(t.Context(), srv.URL, transport.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	next, before := map[int]int{}, map[string]bool{}
	client := transport.NewConn(t.Context(), pipe, transport.Options{Notify: func(n *transport.Notification) {
		mu.Lock()
		defer mu.Unlock()
		if n.Method == "before" {
			before[string(n.Params)] = true
			return
		}
		var v [2]int
		if err := json.Unmarshal(n.Params, &v); err != nil || next[v[0]] != v[1] {
			t.Errorf("sender %d: got %d (%v), want %d", v[0], v[1], err, next[v[0]])
		}
		next[v[0]]++
	}})
	<-accepted
	var tasks sync.WaitGroup
	for s := range senders {
		tasks.Go(func() {
			for i := range each {
				text, _ := transport.EncodeNotification("event", [2]int{s, i})
				if err := server.Send(t.Context(), text); err != nil {
					t.Errorf("send: %v", err)
				}
			}
		})
		tasks.Go(func() {
			for i := range calls {
				want := fmt.Sprintf(`"%d/%d"`, s, i)
				got, err := client.Call(t.Context(), "echo", json.RawMessage(want))
				mu.Lock()
				if err != nil || string(got) != want || !before[want] {
					t.Errorf("call: got %s, %v; want %s; notified before: %v", got, err, want, before[want])
				}
				mu.Unlock()
			}
		})
	}
	tasks.Wait()
	if _, err := client.Call(t.Context(), "echo", 1); err != nil { // everything sent before has arrived
		t.Fatal(err)
	}
	client.Close(transport.CloseNormal, "")
	for s := range senders {
		if next[s] != each {
			t.Errorf("sender %d: %d arrived", s, next[s])
		}
	}
}
