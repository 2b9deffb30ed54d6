package client_test

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"

	"agentserver/client"
	"agentserver/engine"
	"agentserver/engine/eventlog"
	"agentserver/engine/wire"
	"agentserver/harness"
	"agentserver/harness/mock"
	"agentserver/internal/transport"
	"agentserver/protocol"
)

// benchSession starts a server whose session "s" holds n deltas of some 300 bytes of JSON, and returns its address and its last number.
func benchSession(b *testing.B, n string) (url string, latest uint64) {
	b.Helper()
	registry, err := harness.NewRegistry(mock.New())
	if err != nil {
		b.Fatal(err)
	}
	rt, err := engine.New(engine.Options{Registry: registry, Log: eventlog.Limits{SessionEvents: 1 << 20, SessionBytes: 1 << 30, TotalEvents: 1 << 20, TotalBytes: 1 << 30}})
	if err != nil {
		b.Fatal(err)
	}
	srv := wire.New(rt, wire.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.ServeListener(context.Background(), l)
	}()
	b.Cleanup(func() {
		srv.Shutdown(context.Background())
		<-done
	})
	url = "ws://" + l.Addr().String()
	c, err := client.Dial(b.Context(), url, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	turn, err := c.StartTurn(b.Context(), protocol.TurnStartParams{
		SessionID: "s", Input: protocol.Text("burst " + n + " 40"), Config: protocol.RunConfig{Harness: mock.ID, Cwd: os.TempDir()},
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := turn.Result(b.Context()); err != nil {
		b.Fatal(err)
	}
	sessions, err := c.Sessions(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return url, sessions[0].LatestSeq
}

// BenchmarkReplay is P13: 10 000 events, replayed page by page, decoded, and delivered in order to a handler. Its floor is BenchmarkReplayFloor.
func BenchmarkReplay(b *testing.B) {
	url, latest := benchSession(b, "10000")
	b.ReportAllocs()
	for b.Loop() {
		all := make(chan struct{})
		c, err := client.Dial(b.Context(), url, &client.Options{OnEvent: func(env protocol.Envelope) {
			if env.Seq == latest {
				close(all)
			}
		}})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Follow(b.Context(), "s", 0); err != nil {
			b.Fatal(err)
		}
		<-all
		c.Close()
	}
	b.ReportMetric(float64(latest)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkReplayFloor fetches the same pages and looks at nothing in them.
func BenchmarkReplayFloor(b *testing.B) {
	url, latest := benchSession(b, "10000")
	b.ReportAllocs()
	for b.Loop() {
		p, err := transport.Dial(b.Context(), url, transport.DialOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for from := uint64(1); from <= latest; from += 1000 {
			rpc := protocol.EventsReplayParams{SessionID: "s", FromSeq: from, Limit: 1000}
			if err := p.Write(b.Context(), request(b, rpc)); err != nil {
				b.Fatal(err)
			}
			if text, err := p.Read(b.Context()); err != nil || !strings.HasSuffix(string(text[len(text)-2:]), "}}") {
				b.Fatal(err)
			}
		}
		p.Close(transport.CloseNormal, "")
	}
	b.ReportMetric(float64(latest)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func request(b *testing.B, params protocol.EventsReplayParams) []byte {
	text, err := transport.EncodeNotification(protocol.MethodEventsReplay, params)
	if err != nil {
		b.Fatal(err)
	}
	return append(append(text[:len(text)-1], `,"id":1`...), '}')
}

// BenchmarkDeliver is a live turn of 10 000 deltas, from the agent to a handler, through everything.
func BenchmarkDeliver(b *testing.B) {
	url, _ := benchSession(b, "1")
	c, err := client.Dial(b.Context(), url, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	events := 0
	b.ReportAllocs()
	for b.Loop() {
		turn, err := c.StartTurn(b.Context(), protocol.TurnStartParams{
			Input: protocol.Text("burst 10000 40"), Config: protocol.RunConfig{Harness: mock.ID, Cwd: os.TempDir()},
		})
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range turn.Events(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
			events++
		}
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
