package streamcheck_test

import (
	"errors"
	"slices"
	"testing"

	"agentserver/protocol"
	"agentserver/protocol/conversation/conversationtest"
	"agentserver/protocol/streamcheck"
)

func TestValidStreams(t *testing.T) {
	for seed := range uint64(100) {
		if found := check(conversationtest.Stream(seed, 500)); len(found) > 0 {
			t.Fatalf("seed %d: %v", seed, found)
		}
	}
}

// TestFromTheMiddle judges nothing that it cannot know.
func TestFromTheMiddle(t *testing.T) {
	stream := conversationtest.Stream(4, 400)
	for from := 0; from < len(stream); from += 5 {
		c := streamcheck.New()
		for _, env := range stream[from:] {
			for _, v := range c.Add(env) {
				t.Fatalf("from %d: %v", from+1, v)
			}
		}
	}
}

func TestUndecodable(t *testing.T) {
	found := streamcheck.Check(func(yield func(protocol.Envelope, error) bool) {
		for i, env := range conversationtest.Stream(1, 20) {
			if i == 5 {
				yield(protocol.Envelope{}, errors.New("event foo: text: is missing"))
				continue
			}
			if !yield(env, nil) {
				return
			}
		}
	})
	if len(found) == 0 || found[0].Rule != streamcheck.RuleEvent || found[0].Seq != 6 {
		t.Errorf("got %v", found)
	}
}

func check(stream []protocol.Envelope) []streamcheck.Violation {
	return streamcheck.Check(func(yield func(protocol.Envelope, error) bool) {
		for _, env := range stream {
			if !yield(env, nil) {
				return
			}
		}
	})
}

// A corruption breaks a stream in one way. It returns false where the stream has no place for it.
type corruption struct {
	name    string
	rules   []streamcheck.Rule // one of them must be reported
	corrupt func(s *tape) bool
}

// TestCorruptions breaks valid streams in each way; each must be caught, by the rule that is broken.
func TestCorruptions(t *testing.T) {
	for _, c := range corruptions {
		t.Run(c.name, func(t *testing.T) {
			tried := 0
			for seed := uint64(0); seed < 200 && tried < 6; seed++ {
				s := newTape(seed)
				if !c.corrupt(s) {
					continue
				}
				tried++
				found := check(s.stream)
				if !slices.ContainsFunc(found, func(v streamcheck.Violation) bool { return slices.Contains(c.rules, v.Rule) }) {
					t.Fatalf("seed %d: want one of %v, got %v", seed, c.rules, found)
				}
			}
			if tried == 0 {
				t.Fatal("no stream had a place for it")
			}
		})
	}
}

// TestEveryRuleIsBroken finds rules that no corruption demands.
func TestEveryRuleIsBroken(t *testing.T) {
	demanded := map[streamcheck.Rule]bool{streamcheck.RuleEvent: true, streamcheck.RuleFold: true} // TestUndecodable, TestFoldsDiffer
	for _, c := range corruptions {
		for _, r := range c.rules {
			demanded[r] = true
		}
	}
	for _, r := range streamcheck.Rules() {
		if !demanded[r] {
			t.Errorf("no corruption breaks %s", r)
		}
	}
}

func FuzzChecker(f *testing.F) {
	f.Add([]byte(`{"sessionId":"s","seq":1,"event":{"type":"turn.started","sessionId":"s","timestamp":1,"turnId":"t"}}`))
	for _, env := range conversationtest.Stream(3, 60) {
		data, err := protocol.AppendEnvelope(nil, env)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := streamcheck.New()
		for _, env := range conversationtest.Stream(2, 40) {
			c.Add(env)
		}
		for range 3 {
			env, err := protocol.DecodeEnvelope(data)
			if err != nil {
				return
			}
			c.Add(env)
		}
		c.Finish()
	})
}

func BenchmarkChecker(b *testing.B) {
	stream := conversationtest.Stream(1, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		c := streamcheck.New()
		for _, env := range stream {
			c.Add(env)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(stream)), "ns/event")
}
