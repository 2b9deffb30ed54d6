package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"agentserver/internal/transport"
	"agentserver/protocol"
)

// FuzzDecodeMessage: whatever a server sends, decoding ends with a message or an error.
func FuzzDecodeMessage(f *testing.F) {
	env := `{"sessionId":"s","seq":1,"event":{"type":"turn.started","sessionId":"s","timestamp":1,"turnId":"t"}}`
	for _, s := range []string{
		`{"jsonrpc":"2.0","method":"event","params":` + env + `}`,
		`{"jsonrpc":"2.0","id":1,"result":{"events":[` + env + `, ` + env + `],"firstAvailableSeq":1,"latestSeq":null}}`,
		`{"jsonrpc":"2.0","id":2,"error":{"code":-32001,"message":"m","data":{}}}`, `{"id":1,"result":{"events":[7]}}`, `{"id":1,"result":{"events":{`,
		`{"jsonrpc":"2.0","method":"event","params":{"sessionId":"s","seq":2,"event":{"type":"turn.ended"}}}`, `[]`, `{`, ``, `{"id":1,"error":7}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeMessage(data, func(id int64) bool { return id == 1 })
		if err != nil {
			return
		}
		rows := []row{m.row}
		if m.page != nil {
			rows = m.page.rows
		}
		for _, r := range rows {
			if (m.kind == event || m.page != nil) && (r.env.SessionID == "" || r.env.Seq == 0 || r.bad == nil && r.env.Event == nil) {
				t.Errorf("half an event: %+v", r)
			}
		}
		decodeTooLarge(&transport.TooLargeError{Size: len(data), Head: data}, func(int64) bool { return false })
	})
}

// TestTooLarge: a message over the limit fails the request that it answers, or is the one event that cannot be read; the connection lives, and
// a replay whose page is too large asks for less.
func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		server := transport.NewLines(theirs, transport.PipeOptions{})
		s := newFake(t)
		conn := &fakeConn{server: s, pipe: newMemPipe(), client: newMemPipe()}
		s.wg.Go(func() { // what the fake server says goes out on the line pipe
			for {
				text, err := conn.client.Read(t.Context())
				if err != nil {
					return
				}
				server.Write(t.Context(), text)
			}
		})
		s.wg.Go(func() {
			defer conn.client.fail(io.EOF)
			for {
				text, err := server.Read(t.Context())
				if err != nil {
					return
				}
				conn.pipe.deliver(text)
			}
		})
		s.conns = append(s.conns, conn)
		s.wg.Go(conn.serve)
		rec := newRecorder()
		c, err := Attach(t.Context(), ours, &Options{OnEvent: rec.handle, MaxMessageBytes: 2000})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		turn := start1(t, c)
		big := &protocol.MessagePartDelta{TurnID: "t", MessageID: "m", PartID: "p", Delta: &protocol.TextDelta{Text: strings.Repeat("x", 3000)}}
		s.emit("s", turnStarted("t"), big, turnEnded("t"))
		_, err = turn.Result(t.Context())
		if e, ok := errors.AsType[*DecodeError](err); !ok || e.Seq != 2 {
			t.Errorf("got %v", err)
		}
		// 40 events of some 200 bytes do not fit one message.
		s.mangle = func(*fakeConn, []byte) [][]byte { return nil }
		for i := range 40 {
			s.emit("s2", delta("t", i))
		}
		s.mangle = nil
		s.emit("s2", delta("t", 40))
		synctest.Wait()
		rec.check(t, s, "s2")
		s.answer = func(method string, _ []byte) (any, error) {
			if method == protocol.MethodSessionList {
				return map[string]string{"x": strings.Repeat("x", 3000)}, nil
			}
			return nil, nil
		}
		_, err = c.Sessions(t.Context())
		if _, ok := errors.AsType[*transport.TooLargeError](err); !ok {
			t.Errorf("got %v", err)
		}
		if got := rec.of("s"); !slices.Equal(got, []uint64{1, 3}) {
			t.Error(fmt.Sprint(got))
		}
	})
}
