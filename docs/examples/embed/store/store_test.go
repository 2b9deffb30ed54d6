package store

import (
	"path/filepath"
	"slices"
	"testing"

	"agentserver/protocol/conversation"
	"agentserver/protocol/conversation/conversationtest"
)

// TestStoreAgrees holds the database to the fold, after each of many events, some of which come twice.
func TestStoreAgrees(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	st := conversation.New("")
	for i, env := range conversationtest.Stream(7, 300) {
		for range 1 + i%2 {
			if err := s.Apply(t.Context(), env); err != nil {
				t.Fatal(err)
			}
		}
		st.Apply(env)
		if i%10 != 0 {
			continue
		}
		got, err := s.Lines(t.Context(), env.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		if want := lines(st.Snapshot()); !slices.Equal(got, want) {
			t.Fatalf("after %d events there is\n%v\nwant\n%v", i+1, got, want)
		}
	}
}

func lines(s *conversation.Snapshot) (out []Line) {
	for m := range s.Messages() {
		for p := range m.Parts() {
			out = append(out, Line{string(m.Role), string(p.Part.PartType()), text(p.Part)})
		}
	}
	return out
}
