package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentserver/docs/schema"
	"agentserver/protocol"
	"agentserver/protocol/streamcheck"
)

// A tape holds what one client was told: each session's envelopes, as JSON. It is safe for concurrent use.
type tape struct {
	mu      sync.Mutex
	streams map[protocol.SessionID][]string
	grown   chan struct{} // closed and replaced when something was added
}

func newTape() *tape {
	return &tape{streams: map[protocol.SessionID][]string{}, grown: make(chan struct{})}
}

func (p *tape) add(id protocol.SessionID, envelope string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams[id] = append(p.streams[id], envelope)
	close(p.grown)
	p.grown = make(chan struct{})
}

// envelope is a handler of a client.
func (p *tape) envelope(env protocol.Envelope) {
	line, err := protocol.AppendEnvelope(nil, env)
	if err != nil {
		line = fmt.Appendf(nil, "an envelope does not encode: %v", err)
	}
	p.add(env.SessionID, string(line))
}

// raw takes an envelope as it came.
func (p *tape) raw(envelope []byte) {
	var head struct {
		SessionID protocol.SessionID `json:"sessionId"`
	}
	_ = json.Unmarshal(envelope, &head) // check says what is wrong with it
	p.add(head.SessionID, string(envelope))
}

func (p *tape) stream(id protocol.SessionID) ([]string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.streams[id]), p.grown
}

// until waits until some event of a session matches.
func (p *tape) until(t *testing.T, id protocol.SessionID, what string, match func(protocol.Event) bool) {
	t.Helper()
	for seen := 0; ; {
		lines, grown := p.stream(id)
		for ; seen < len(lines); seen++ {
			if env, err := protocol.DecodeEnvelope([]byte(lines[seen])); err == nil && match(env.Event) {
				return
			}
		}
		select {
		case <-grown:
		case <-after(t):
			t.Fatalf("no %s within %v; the stream is\n%s", what, patience, strings.Join(lines, "\n"))
		}
	}
}

// ended waits for the end of n turns of a session.
func (p *tape) ended(t *testing.T, id protocol.SessionID, n int) {
	t.Helper()
	p.until(t, id, fmt.Sprintf("turn.ended number %d", n), func(e protocol.Event) bool {
		if _, ok := e.(*protocol.TurnEnded); ok {
			n--
		}
		return n == 0
	})
}

// envelopeSchema is the published schema of an envelope, with no member allowed that it does not describe.
var envelopeSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.JSON))
	if err != nil {
		return nil, err
	}
	for name, d := range doc.(map[string]any)["$defs"].(map[string]any) {
		if d := d.(map[string]any); d["properties"] != nil && !strings.HasPrefix(name, "Unknown") {
			d["additionalProperties"] = false
		}
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("wire.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("wire.json#/$defs/Envelope")
})

// check holds every stream to the contract and to the schema. Without whole, a turn may lack its end.
func (p *tape) check(t *testing.T, whole bool) {
	t.Helper()
	def, err := envelopeSchema()
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, lines := range p.streams {
		c := streamcheck.New()
		for _, line := range lines {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
			if err == nil {
				err = def.Validate(value)
			}
			if err != nil {
				t.Errorf("session %s: not as the schema says: %v\n%s", id, err, line)
			}
			env, err := protocol.DecodeEnvelope([]byte(line))
			if err != nil {
				t.Errorf("session %s: %v\n%s", id, err, line)
				continue
			}
			for _, v := range c.Add(env) {
				t.Errorf("session %s: %v\n%s", id, v, line)
			}
		}
		if !whole {
			continue
		}
		for _, v := range c.Finish() {
			t.Errorf("session %s: %v", id, v)
		}
	}
}

// same compares a session's stream on two tapes, once both have n ended turns.
func same(t *testing.T, id protocol.SessionID, turns int, got, want *tape) {
	t.Helper()
	got.ended(t, id, turns)
	want.ended(t, id, turns)
	a, _ := got.stream(id)
	b, _ := want.stream(id)
	for i := range min(len(a), len(b)) { // what follows the last turn's end may have reached only one of them yet
		if canonical(t, a[i]) != canonical(t, b[i]) {
			t.Fatalf("event %d differs:\n%s\n%s", i+1, a[i], b[i])
		}
	}
}

// canonical is the JSON with its members in order and its texts escaped in one way.
func canonical(t *testing.T, text string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
