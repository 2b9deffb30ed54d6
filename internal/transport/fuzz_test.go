package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
)

var fuzzSeeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"a","params":{"z":[1,-0.5e+3,true,false,null,"\u00e4\n"]}}`, `{"jsonrpc":"2.0","method":"event","params":[]}`,
	`{"jsonrpc":"2.0","id":"x","result":{}}`, `{"id":null,"error":{"code":-1,"message":"m"}}`, `[{}]`, `{"a":{"b":[[]]}}`, `{"a":1}{"b":2}`,
	"{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a" 1}`, `{"a":1,}`, `{,}`, `{"a":tru}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, ` {} `,
	"junk {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"a\"} junk", "\xef\xbb\xbf{}", strings.Repeat("[", 300), strings.Repeat(`{"":`, 300),
}

// FuzzScanner compares the scanner with encoding/json, text by text and member by member.
func FuzzScanner(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		members := 0
		err := validObject(data, func(k, v []byte) {
			if members++; !json.Valid(k) || !json.Valid(v) {
				t.Errorf("member %q: %q", k, v)
			}
		})
		want := json.Valid(data) && utf8.Valid(data) && len(data) > 0 && data[0] == '{' && data[len(data)-1] == '}'
		if (err == nil) != want {
			t.Errorf("%q: %v, want valid %v", data, err, want)
		}
		before, object, after := firstObject(data)
		if got := bytes.Join([][]byte{before, object, after}, nil); !bytes.Equal(got, data) {
			t.Errorf("%q was cut into %q %q %q", data, before, object, after)
		}
		if object != nil && (!json.Valid(object) || object[0] != '{') {
			t.Errorf("no object: %q", object)
		}
	})
}

// FuzzReadObject sends arbitrary bytes to a Conn: whatever they are, every answer is a JSON-RPC response, and the connection lives.
func FuzzReadObject(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add([]byte(s), false)
		f.Add([]byte(s+"\n"+s), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, tolerant bool) {
		r, w := io.Pipe()
		in := io.MultiReader(bytes.NewReader(data), strings.NewReader("\n"+`{"jsonrpc":"2.0","id":"last","method":"last"}`+"\n"))
		c := NewConn(context.Background(), NewLines(&duplex{in, w, r}, PipeOptions{MaxMessageBytes: 1000}), Options{
			Tolerant: tolerant, Logger: quiet(), Linger: time.Minute,
			Handle: func(_ context.Context, r *Request) (any, error) { return r.Params, nil },
		})
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			var m struct {
				JSONRPC string          `json:"jsonrpc"`
				ID      json.RawMessage `json:"id"`
				Result  json.RawMessage `json:"result"`
				Error   *Error          `json:"error"`
			}
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil || m.JSONRPC != "2.0" || m.ID == nil || (m.Result == nil) == (m.Error == nil) {
				t.Fatalf("answer %q: %v", lines.Bytes(), err)
			}
			if string(m.ID) == `"last"` {
				break
			}
		}
		if lines.Err() != nil {
			t.Error(lines.Err())
		}
		go io.Copy(io.Discard, r)
		c.Close(CloseNormal, "")
	})
}

type duplex struct {
	io.Reader
	io.Writer
	r *io.PipeReader
}

func (d *duplex) Close() error {
	d.r.Close()
	return d.Writer.(io.Closer).Close()
}

// FuzzFrames lets the library read the frames that we write.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("a"), 1, true)
	f.Add([]byte("abc"), 30_000, true)
	f.Add([]byte("0123456789"), 125, false)
	f.Fuzz(func(t *testing.T, unit []byte, times int, client bool) {
		if len(unit) == 0 || times < 0 || len(unit)*times > 1<<20 {
			return
		}
		texts := [][]byte{unit, bytes.Repeat(unit, times), unit, unit}
		var wire bytes.Buffer
		out := newOutlet(&wire, DefaultWriteTimeout, nil, func() {})
		fr := framer{client: client}
		if err := out.writeUnits(context.Background(), func(b *batch) {
			for _, text := range texts {
				fr.text(b, text)
			}
		}); err != nil {
			t.Fatal(err)
		}
		wire.Write(pingFrame(client))
		peer := readerConn(t, &wire, !client)
		defer peer.CloseNow()
		for _, want := range texts {
			typ, got, err := peer.Read(context.Background())
			if err != nil || typ != websocket.MessageText || !bytes.Equal(got, want) {
				t.Fatalf("got %v, %d bytes, %v; want %d bytes", typ, len(got), err, len(want))
			}
		}
	})
}

// readerConn returns the library's connection that reads what is in wire, as a client or as a server.
func readerConn(t *testing.T, wire *bytes.Buffer, client bool) *websocket.Conn {
	t.Helper()
	stream := &duplexBuffer{Reader: wire}
	if !client {
		return acceptOver(t, stream)
	}
	tr := handshake(func(r *http.Request) *http.Response {
		return &http.Response{StatusCode: 101, Body: stream, Header: http.Header{
			"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Accept": {acceptKey(r.Header.Get("Sec-WebSocket-Key"))},
		}}
	})
	c, _, err := websocket.Dial(context.Background(), "ws://x/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(-1)
	return c
}
