package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// echoServer answers every request on the other end of the returned pipe with {"m":method,"p":params}.
func echoServer(t *testing.T, o Options) Pipe {
	t.Helper()
	a, b := Memory()
	o.Handle = func(_ context.Context, r *Request) (any, error) {
		return struct {
			M string          `json:"m"`
			P json.RawMessage `json:"p,omitempty"`
		}{r.Method, r.Params}, nil
	}
	c := NewConn(t.Context(), b, o)
	t.Cleanup(func() { c.Close(CloseNormal, "") })
	return a
}

func ask(t *testing.T, p Pipe, text string) string {
	t.Helper()
	if err := p.Write(t.Context(), []byte(text)); err != nil {
		t.Fatal(err)
	}
	got, err := p.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestMalformed is the table of errors in spec section 2, text by text. The connection lives through all of them.
func TestMalformed(t *testing.T) {
	const noID = "null"
	tests := []struct {
		text string
		code int
		id   string
	}{
		{`not json`, -32700, noID},
		{`{"jsonrpc":"2.0","id":1,"method":"a"`, -32700, noID},
		{`{"jsonrpc":"2.0","id":1,"method":"a"}}`, -32700, noID},
		{`{"jsonrpc":"2.0","id":1,"method":"a"} {}`, -32700, noID},
		{`{"jsonrpc":"2.0","id":1,"method":"a",}`, -32700, noID},
		{`{"jsonrpc":"2.0","id":01,"method":"a"}`, -32700, noID},
		{`{'jsonrpc':'2.0'}`, -32700, noID},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\tb\"}", -32700, noID},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700, noID},
		{`"text"`, -32700, noID},
		{`1`, -32700, noID},
		{`null`, -32700, noID},
		{`[]`, -32700, noID},
		{`[{"jsonrpc":"2.0","id":1,"method":"a"}]`, -32700, noID},
		{`[1,2]`, -32700, noID},
		{`{}`, -32700, noID},
		{`{"id":1,"method":"a"}`, -32700, noID},
		{`{"jsonrpc":"1.0","id":1,"method":"a"}`, -32700, noID},
		{`{"jsonrpc":2.0,"id":1,"method":"a"}`, -32700, noID},
		{`{"jsonrpc":null,"id":1,"method":"a"}`, -32700, noID},
		{`{"JSONRPC":"2.0","id":1,"method":"a"}`, -32700, noID},
		{strings.Repeat(`{"a":`, 20000) + `1` + strings.Repeat(`}`, 20000), -32700, noID},
		{`{"jsonrpc":"2.0"}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":1}`, -32600, `1`},
		{`{"jsonrpc":"2.0","id":"x","params":{}}`, -32600, `"x"`},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, -32600, `1`},
		{`{"jsonrpc":"2.0","id":1,"method":null}`, -32600, `1`},
		{`{"jsonrpc":"2.0","method":["a"]}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":1,"Method":"a"}`, -32600, `1`},
		{`{"jsonrpc":"2.0","id":null,"method":"a"}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":1.5,"method":"a"}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":1.0,"method":"a"}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":1e3,"method":"a"}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":true,"method":"a"}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":{},"method":"a"}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":[1],"method":"a"}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", maxID) + `","method":"a"}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":1,"method":"a","\u006dethod":"b"}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":1,"method":"a","result":1}`, -32600, `1`},
		{`{"jsonrpc":"2.0","result":1}`, -32600, noID},
		{`{"jsonrpc":"2.0","id":9,"error":null}`, -32600, `9`},
	}
	p := echoServer(t, Options{})
	for _, tt := range tests {
		got := ask(t, p, tt.text)
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"`, tt.id, tt.code)
		if !strings.HasPrefix(got, want) {
			t.Errorf("%.80s\n got %s\nwant %s", tt.text, got, want)
		}
	}
	if got := ask(t, p, `{"jsonrpc":"2.0","id":1,"method":"alive"}`); got != `{"jsonrpc":"2.0","id":1,"result":{"m":"alive"}}` {
		t.Errorf("got %s", got)
	}
}

// TestIgnored holds that stray notifications and responses are not answered.
func TestIgnored(t *testing.T) {
	var junk []string
	p := echoServer(t, Options{Junk: func(why string, _ []byte) { junk = append(junk, why) }})
	for _, text := range []string{
		`{"jsonrpc":"2.0","method":"hello"}`, `{"jsonrpc":"2.0","method":"hello","params":[1]}`, `{"jsonrpc":"2.0","id":1,"result":null}`,
		`{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`, ` `, "\r\n",
	} {
		p.Write(t.Context(), []byte(text))
	}
	if got := ask(t, p, `{"jsonrpc":"2.0","id":1,"method":"a"}`); got != `{"jsonrpc":"2.0","id":1,"result":{"m":"a"}}` {
		t.Errorf("got %s", got)
	}
	if len(junk) != 3 {
		t.Errorf("junk: %q", junk)
	}
}

// TestIDs holds that an id comes back as the same token, also when two requests share it.
func TestIDs(t *testing.T) {
	p := echoServer(t, Options{})
	for _, id := range []string{`0`, `-1`, `-0`, `18446744073709551616`, `-9223372036854775809`, strings.Repeat("9", 400), `""`, `"1"`, `"ü"`,
		`"\u00fc\u003c"`, `"<&>"`, `"\ud800"`, `"a\/b"`} {
		want := `{"jsonrpc":"2.0","id":` + id + `,"result":{"m":"a"}}`
		if got := ask(t, p, `{"jsonrpc":"2.0","id":`+id+`,"method":"a"}`); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

func TestDuplicateIDs(t *testing.T) {
	a, b := Memory()
	requests := make(chan *Request, 2)
	c := NewConn(t.Context(), b, Options{Handle: func(_ context.Context, r *Request) (any, error) {
		requests <- r
		return r.Later()
	}})
	defer c.Close(CloseNormal, "")
	a.Write(t.Context(), []byte(`{"jsonrpc":"2.0","id":5,"method":"a"}`), []byte(`{"jsonrpc":"2.0","id":5,"method":"b"}`))
	first, second := <-requests, <-requests
	for _, r := range []*Request{second, first} {
		r.Reply(r.Method, nil)
		r.Reply("again", nil)
		if got, _ := a.Read(t.Context()); string(got) != `{"jsonrpc":"2.0","id":5,"result":"`+r.Method+`"}` {
			t.Errorf("got %s", got)
		}
	}
}

// TestBytes holds that params reach the handler, and results the peer, byte for byte.
func TestBytes(t *testing.T) {
	p := echoServer(t, Options{})
	for _, params := range []string{`{"z":1,"a":"<b>&\u00e4\u2028","z":1.50,"n":1e400}`, `[1, 2]`, `"s"`, `null`, "{ \"a\" :\t1 }"} {
		got := ask(t, p, `{"params":`+params+`,"method":"e\u0063ho","jsonrpc":"2\u002e0","id":1}`)
		// The handler's struct goes through encoding/json, which compacts: so compare with what it makes of the bytes.
		want := strings.NewReplacer(" ", "", "\t", "").Replace(params)
		if got != `{"jsonrpc":"2.0","id":1,"result":{"m":"echo","p":`+want+`}}` {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// TestTolerant is how a child's stdout is read: robustness rows 35 to 37.
func TestTolerant(t *testing.T) {
	var notes, junk []string
	done := make(chan struct{})
	a, b := Memory()
	c := NewConn(t.Context(), b, Options{
		Tolerant: true, Versionless: true,
		Notify: func(n *Notification) {
			notes = append(notes, string(n.Text))
			if n.Method == "end" {
				close(done)
			}
		},
		Junk: func(_ string, text []byte) { junk = append(junk, string(text)) },
	})
	defer c.Close(CloseNormal, "")
	for _, text := range []string{
		"\xef\xbb\xbf" + `{"jsonrpc":"2.0","method":"bom"}` + "\r",
		"\x1b[33mwarning: {update} available\x1b[0m",
		`log line {"jsonrpc":"2.0","method":"glued","params":{"a":{}}} and more`,
		`{"method":"one"}{"method":"two"}{"level":"info","msg":"x"}{"method":"three"}`,
		`{"level":"info","msg":"json log"}`, `[1,2]`, `{"id":null,"error":{"code":-32600,"message":"x"}}`, `{"id":1.5,"method":"bad id"}`,
		`{"method":"extra","emittedAtMs":5}`, `{"method":"broken"`, strings.Repeat("{", 100), `{"method":"end"}`,
	} {
		a.Write(t.Context(), []byte(text))
	}
	<-done
	wantNotes := `{"jsonrpc":"2.0","method":"bom"} {"jsonrpc":"2.0","method":"glued","params":{"a":{}}} {"method":"one"} {"method":"two"} {"method":"three"} {"method":"extra","emittedAtMs":5} {"method":"end"}`
	if got := strings.Join(notes, " "); got != wantNotes {
		t.Errorf("got  %s\nwant %s", got, wantNotes)
	}
	if len(junk) != 10 {
		t.Errorf("junk %d: %q", len(junk), junk)
	}
	// Nothing was answered, and what we write has no version.
	if err := c.Notify(t.Context(), "<hi>", map[string]string{"a": "<"}); err != nil {
		t.Fatal(err)
	}
	if got, _ := a.Read(t.Context()); string(got) != `{"method":"<hi>","params":{"a":"<"}}` {
		t.Errorf("got %s", got)
	}
}

// TestOneOrder holds that notifications, requests and responses are seen in the order of the wire.
func TestOneOrder(t *testing.T) {
	var seen []string
	done := make(chan struct{})
	a, b := Memory()
	c := NewConn(t.Context(), b, Options{
		Tolerant: true,
		Notify:   func(n *Notification) { seen = append(seen, n.Method) },
		Handle: func(_ context.Context, r *Request) (any, error) {
			seen = append(seen, r.Method)
			return nil, nil
		},
	})
	defer c.Close(CloseNormal, "")
	err := c.Start(t.Context(), "session/prompt", struct{}{}, func(r json.RawMessage, err error) {
		seen = append(seen, fmt.Sprint(string(r), err))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context(), "x", nil, func(_ json.RawMessage, err error) {
		seen = append(seen, err.Error())
		close(done)
	}); err != nil {
		t.Fatal(err)
	}
	if got, _ := a.Read(t.Context()); string(got) != `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{}}` {
		t.Errorf("got %s", got)
	}
	for _, text := range []string{`{"method":"u1"}`, `{"id":1,"method":"ask"}`, `{"method":"u2"}`, `{"id":1,"result":{"stop":1}}`, `{"id":1,"result":"again"}`,
		`{"method":"u3"}`, `{"id":2,"error":"odd"}`} {
		a.Write(t.Context(), []byte(text))
	}
	<-done
	want := `u1 ask u2 {"stop":1}<nil> u3 the peer answered with an error that cannot be read (code -32603)`
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestCallAfterNotifications holds that a response does not overtake notifications, also for a caller that waits in Call.
func TestCallAfterNotifications(t *testing.T) {
	n := 0
	var s *Conn
	a, b := Memory()
	ready := make(chan struct{})
	s = NewConn(t.Context(), b, Options{Handle: func(ctx context.Context, r *Request) (any, error) {
		<-ready
		return r.Go(func(ctx context.Context, r *Request) (any, error) {
			for i := range 1000 {
				s.Notify(ctx, "event", i)
			}
			return nil, nil
		})
	}})
	close(ready)
	defer s.Close(CloseNormal, "")
	c := NewConn(t.Context(), a, Options{Notify: func(m *Notification) {
		if string(m.Params) == fmt.Sprint(n) {
			n++
		}
	}})
	defer c.Close(CloseNormal, "")
	if _, err := c.Call(t.Context(), "go", nil); err != nil || n != 1000 {
		t.Errorf("saw %d in order, %v", n, err)
	}
}
