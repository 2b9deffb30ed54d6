package examples

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"agentserver/protocol"
	"agentserver/protocol/conversation"
	"agentserver/protocol/conversation/conversationtest"
)

// foldScript folds the envelopes of each line of stdin's and prints the state after it. A line {"state":…} begins anew with that state.
const foldScript = `
import { Conversation, emptyState } from %q;
import { createInterface } from 'node:readline';
let c;
for await (const line of createInterface({ input: process.stdin })) {
  const x = JSON.parse(line);
  if (x.state) c = new Conversation(x.state);
  else (c ??= new Conversation(emptyState(x.sessionId))).apply(x);
  console.log(JSON.stringify(c.state));
}`

// TestFold holds fold.mjs to package conversation: on streams that hold all of the contract, both are in the same state after each event, also when
// an event is delivered twice, when the fold goes on from a snapshot, and when a turn ends with everything open.
func TestFold(t *testing.T) {
	f := &foldTest{t: t}
	f.stream(conversationtest.Stream(1, 400))
	for seed := range uint64(40) {
		s := conversationtest.Stream(seed, 100)
		s = s[:20+2*seed]
		last := s[len(s)-1]
		st := conversation.New("")
		for _, env := range s {
			st.Apply(env)
		}
		if turn := st.Snapshot().ActiveTurnID; turn != "" {
			end := &protocol.TurnEnded{TurnID: turn, StopReason: protocol.StopCancelled}
			end.SessionID, end.Timestamp = last.SessionID, last.Event.Header().Timestamp+5
			s = append(s, protocol.Envelope{SessionID: last.SessionID, Seq: last.Seq + 1, Event: end})
		}
		f.stream(s)
	}
	f.compare()
}

type foldTest struct {
	t    *testing.T
	in   bytes.Buffer
	want [][]byte
}

func (f *foldTest) stream(all []protocol.Envelope) {
	st := conversation.New(all[0].SessionID)
	f.state(st)
	for i, env := range all {
		line, err := protocol.AppendEnvelope(nil, env)
		if err != nil {
			f.t.Fatal(err)
		}
		st.Apply(env)
		f.expect(line, st)
		switch {
		case i%13 == 5:
			f.expect(line, st)
		case i%17 == 3:
			f.state(st)
		}
	}
}

// state lets the script begin anew with a state.
func (f *foldTest) state(st *conversation.State) {
	raw, err := json.Marshal(st.Snapshot())
	if err != nil {
		f.t.Fatal(err)
	}
	f.expect(fmt.Appendf(nil, `{"state":%s}`, raw), st)
}

func (f *foldTest) expect(line []byte, st *conversation.State) {
	f.in.Write(append(line, '\n'))
	raw, err := json.Marshal(st.Snapshot())
	if err != nil {
		f.t.Fatal(err)
	}
	f.want = append(f.want, raw)
}

func (f *foldTest) compare() {
	lines := bytes.Split(bytes.TrimSpace(f.in.Bytes()), []byte("\n"))
	script := fmt.Sprintf(foldScript, here(f.t, "fold.mjs"))
	out := bufio.NewScanner(bytes.NewReader(node(f.t, &f.in, "--input-type=module", "-e", script)))
	out.Buffer(nil, 64<<20)
	for i, raw := range f.want {
		if !out.Scan() {
			f.t.Fatalf("only %d states of %d", i, len(f.want))
		}
		if !reflect.DeepEqual(decode(f.t, raw), decode(f.t, out.Bytes())) {
			f.t.Fatalf("after %s\nthe state is\n%s\nwant\n%s", lines[i], out.Bytes(), raw)
		}
	}
}

func decode(t *testing.T, raw []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
