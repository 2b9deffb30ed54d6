package conversation_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"agentserver/protocol"
	"agentserver/protocol/conversation"
	"agentserver/protocol/conversation/conversationtest"
)

func TestRedeliveryChangesNothing(t *testing.T) {
	for seed := range uint64(60) {
		stream := conversationtest.Stream(seed, 400)
		want := fold(t, stream)
		rng := rand.New(rand.NewPCG(seed, 7))
		st := conversation.New("")
		for i := 0; i < len(stream); i++ {
			st.Apply(stream[i])
			if rng.IntN(10) == 0 { // a reconnect replays from somewhere before
				for j := rng.IntN(i + 1); j <= i; j++ {
					if changes := st.Apply(stream[j]); len(changes) > 0 {
						t.Fatalf("seed %d: event %d changed something the second time: %v", seed, j+1, changes[0].Kind)
					}
				}
			}
		}
		if got := encode(t, st.Snapshot()); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the fold differs\n%s\n%s", seed, got, want)
		}
	}
}

// TestUpsertsAreIdempotent applies every upsert twice, with no number that would tell.
func TestUpsertsAreIdempotent(t *testing.T) {
	for seed := range uint64(60) {
		once, twice := conversation.New("s"), conversation.New("s")
		for _, env := range conversationtest.Stream(seed, 400) {
			once.ApplyEvent(env.Event)
			twice.ApplyEvent(env.Event)
			switch env.Event.(type) {
			case *protocol.MessagePartDelta, *protocol.ErrorEvent, *protocol.UnknownEvent:
			default:
				twice.ApplyEvent(env.Event)
			}
		}
		if got, want := encode(t, twice.Snapshot()), encode(t, once.Snapshot()); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the fold differs\n%s\n%s", seed, got, want)
		}
	}
}

// TestSessionsInterleave mixes the streams of several sessions at random.
func TestSessionsInterleave(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	streams := make([][]protocol.Envelope, 5)
	states := make([]*conversation.State, len(streams))
	var want [][]byte
	for i := range streams {
		streams[i] = conversationtest.Stream(uint64(100+i), 300)
		states[i] = conversation.New(streams[i][0].SessionID)
		want = append(want, fold(t, streams[i]))
	}
	for left := len(streams); left > 0; {
		i := rng.IntN(len(streams))
		if len(streams[i]) == 0 {
			continue
		}
		for _, st := range states {
			st.Apply(streams[i][0])
		}
		if streams[i] = streams[i][1:]; len(streams[i]) == 0 {
			left--
		}
	}
	for i, st := range states {
		if got := encode(t, st.Snapshot()); !bytes.Equal(got, want[i]) {
			t.Errorf("session %d: the fold differs", i)
		}
	}
}

// TestRestore goes on from the JSON of a snapshot, from the snapshot itself, and as the state that never stopped.
func TestRestore(t *testing.T) {
	for seed := range uint64(40) {
		stream := conversationtest.Stream(seed, 300)
		want := fold(t, stream)
		rng := rand.New(rand.NewPCG(seed, 9))
		st := conversation.New("")
		for _, env := range stream {
			st.Apply(env)
			switch rng.IntN(40) {
			case 0:
				data := encode(t, st.Snapshot())
				parsed, err := conversation.Parse(data)
				if err != nil {
					t.Fatalf("seed %d, after %d: %v\n%s", seed, env.Seq, err, data)
				}
				if again := encode(t, parsed); !bytes.Equal(again, data) {
					t.Fatalf("seed %d, after %d: the JSON form changes\n%s\n%s", seed, env.Seq, data, again)
				}
				st = conversation.FromSnapshot(parsed)
			case 1:
				old := st
				st = conversation.FromSnapshot(st.Snapshot())
				old.Apply(protocol.Envelope{SessionID: env.SessionID, Seq: env.Seq + 1, Event: &protocol.MessageStarted{TurnID: "other", MessageID: "other", Role: protocol.RoleUser}})
			}
		}
		if got := encode(t, st.Snapshot()); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the fold differs\n%s\n%s", seed, got, want)
		}
	}
}

// TestSnapshotsStay takes snapshots all the way, reads them on other goroutines meanwhile, and finds them as they were.
func TestSnapshotsStay(t *testing.T) {
	stream := conversationtest.Stream(5, 3000)
	st := conversation.New("")
	type kept struct {
		shot *conversation.Snapshot
		want []byte
		part protocol.PartID
	}
	var all []kept
	readers := make(chan kept, 100)
	done := make(chan int)
	go func() {
		n := 0
		for k := range readers {
			k.shot.Part(k.part)
			for range k.shot.Groups() {
				n++
			}
			k.shot.MarshalJSON()
		}
		done <- n
	}()
	for i, env := range stream {
		k := kept{}
		for _, c := range st.Apply(env) {
			k.part = c.PartID
		}
		k.shot = st.Snapshot()
		if i%97 == 0 {
			k.want = encode(t, k.shot)
			all = append(all, k)
			readers <- k
		}
	}
	close(readers)
	<-done
	for _, k := range all {
		if !bytes.Equal(encode(t, k.shot), k.want) {
			t.Fatalf("the snapshot after %d has changed", k.shot.Seq)
		}
	}
}

// TestChangesAreEnough keeps a database from the changes alone.
func TestChangesAreEnough(t *testing.T) {
	for seed := range uint64(40) {
		st := conversation.New("")
		db := newDatabase()
		for _, env := range conversationtest.Stream(seed, 400) {
			for _, c := range st.Apply(env) {
				db.store(c)
			}
		}
		db.compare(t, st.Snapshot())
	}
}

type database struct {
	turns    map[protocol.TurnID]*conversation.Turn
	messages map[protocol.MessageID]*conversation.Message
	parts    map[protocol.PartID]protocol.Part
	requests map[protocol.RequestID]*conversation.Permission
	compacts map[protocol.CompactionID]*conversation.Compaction
	totals   conversation.Totals
	activity conversation.Activity
}

func newDatabase() *database {
	return &database{
		turns: make(map[protocol.TurnID]*conversation.Turn), messages: make(map[protocol.MessageID]*conversation.Message),
		parts: make(map[protocol.PartID]protocol.Part), requests: make(map[protocol.RequestID]*conversation.Permission),
		compacts: make(map[protocol.CompactionID]*conversation.Compaction),
	}
}

func (d *database) store(c conversation.Change) {
	switch c.Kind {
	case conversation.TurnChanged:
		d.turns[c.TurnID] = c.Turn
	case conversation.MessageChanged:
		d.messages[c.MessageID] = c.Message
	case conversation.PartChanged:
		d.parts[c.PartID] = c.Part.Part
	case conversation.PartAppended:
		switch p := d.parts[c.PartID].(type) {
		case *protocol.TextPart:
			n := *p
			n.Text += c.Text
			d.parts[c.PartID] = protocol.Fresh(&n)
		case *protocol.ReasoningPart:
			n := *p
			n.Text += c.Text
			d.parts[c.PartID] = protocol.Fresh(&n)
		case *protocol.ToolPart:
			n := *p
			n.State = &protocol.ToolPending{PartialInput: p.State.(*protocol.ToolPending).PartialInput + c.Text}
			d.parts[c.PartID] = protocol.Fresh(&n)
		}
	case conversation.PermissionChanged:
		d.requests[c.Permission.RequestID] = c.Permission
	case conversation.CompactionChanged:
		d.compacts[c.Compaction.ID] = c.Compaction
	case conversation.TotalsChanged:
		d.totals = *c.Totals
	case conversation.ActivityChanged:
		d.activity = c.Activity
	}
}

func (d *database) compare(t *testing.T, s *conversation.Snapshot) {
	t.Helper()
	same := func(what string, got, want any) {
		t.Helper()
		if g, w := encode(t, got), encode(t, want); !bytes.Equal(g, w) {
			t.Fatalf("%s: the changes gave\n%s\nthe state is\n%s", what, g, w)
		}
	}
	parts := 0
	for m := range s.Messages() {
		if d.messages[m.ID].Open != m.Open || d.messages[m.ID].EndedAt != m.EndedAt || d.messages[m.ID].Role != m.Role {
			t.Fatalf("message %s differs", m.ID)
		}
		for p := range m.Parts() {
			parts++
			same("part", d.parts[p.Part.Header().ID], p.Part)
			if s.Part(p.Part.Header().ID) != p {
				t.Fatalf("part %s is not found by its id", p.Part.Header().ID)
			}
		}
	}
	if parts != len(d.parts) {
		t.Fatalf("%d parts, want %d", len(d.parts), parts)
	}
	for _, turn := range s.Turns.All() {
		same("turn", d.turns[turn.ID], turn)
	}
	for _, p := range s.Permissions.All() {
		same("permission", d.requests[p.RequestID], p)
	}
	same("totals", d.totals, s.Totals)
	if d.activity != s.Activity {
		t.Fatalf("activity %s, want %s", d.activity, s.Activity)
	}
}

func fold(t testing.TB, stream []protocol.Envelope) []byte {
	t.Helper()
	st := conversation.New("")
	for _, env := range stream {
		st.Apply(env)
	}
	return encode(t, st.Snapshot())
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
