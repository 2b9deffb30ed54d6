package conversation_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"agentserver/protocol"
	"agentserver/protocol/conversation"
	"agentserver/protocol/conversation/conversationtest"
)

// shapes are streams that would be slow if something were in proportion to the length of the conversation, of a message or of a text.
var shapes = map[string]func(n int) []protocol.Envelope{
	"mixed": func(n int) []protocol.Envelope { return conversationtest.Stream(1, n) },
	"oneText": func(n int) []protocol.Envelope {
		return repeated(n, func(int) protocol.Event { return delta("p", &protocol.TextDelta{Text: "a word "}) },
			started("t"), message("m"), text("p", "", protocol.PartStreaming))
	},
	"oneMessage": func(n int) []protocol.Envelope {
		return repeated(n, func(i int) protocol.Event {
			e := tool(fmt.Sprint("p", i/2), &protocol.ToolInProgress{Input: json.RawMessage(`{}`)})
			e.PartIndex = i / 2
			return e
		}, started("t"), message("m"))
	},
	"manyTurns": func(n int) []protocol.Envelope {
		return repeated(n, func(i int) protocol.Event {
			if i%2 == 0 {
				return started(fmt.Sprint("t", i/2))
			}
			return ended(fmt.Sprint("t", i/2))
		})
	},
	"manyRequests": func(n int) []protocol.Envelope {
		return repeated(n, func(i int) protocol.Event {
			id := protocol.RequestID(fmt.Sprint("r", i/2))
			if i%2 == 0 {
				return &protocol.PermissionRequested{TurnID: "t", RequestID: id, Options: protocol.Options()}
			}
			return &protocol.PermissionResolved{TurnID: "t", RequestID: id, Outcome: protocol.Cancelled()}
		}, started("t"))
	},
	"unknown": func(n int) []protocol.Envelope {
		return repeated(n, func(int) protocol.Event { return &protocol.ErrorEvent{Category: "network"} })
	},
}

func repeated(n int, mk func(i int) protocol.Event, first ...protocol.Event) []protocol.Envelope {
	out := make([]protocol.Envelope, 0, n)
	for i := range n {
		e := mk(i)
		if i < len(first) {
			e = first[i]
		}
		e.Header().SessionID = "s"
		out = append(out, protocol.Envelope{SessionID: "s", Seq: uint64(i + 1), Event: e})
	}
	return out
}

// TestCostStaysFlat counts the bytes that an event and a snapshot after it allocate, early and late in a stream.
func TestCostStaysFlat(t *testing.T) {
	const n = 60_000
	for name, mk := range shapes {
		t.Run(name, func(t *testing.T) {
			stream := mk(n)
			st := conversation.New("")
			var at runtime.MemStats
			perEvent := func(events []protocol.Envelope) uint64 {
				runtime.ReadMemStats(&at)
				before := at.TotalAlloc
				for _, env := range events {
					st.Apply(env)
					st.Snapshot()
				}
				runtime.ReadMemStats(&at)
				return (at.TotalAlloc - before) / uint64(len(events))
			}
			perEvent(stream[:2000])
			early := perEvent(stream[2000:8000])
			perEvent(stream[8000 : n-16000])
			late := perEvent(stream[n-16000:])
			if late > 2*early+512 {
				t.Errorf("%d bytes an event after %d events, %d after 2000", late, n-16000, early)
			}
		})
	}
}

func BenchmarkFold(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		for name, mk := range shapes {
			stream := mk(n)
			for _, shots := range []bool{false, true} {
				what := ""
				if shots {
					what = "/snapshotEach"
				}
				b.Run(fmt.Sprintf("%s/%d%s", name, n, what), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						st := conversation.New("")
						for _, env := range stream {
							st.Apply(env)
							if shots {
								st.Snapshot()
							}
						}
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(stream)), "ns/event")
				})
			}
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	st := conversation.New("")
	for _, env := range conversationtest.Stream(1, 10_000) {
		st.Apply(env)
	}
	data, err := st.Snapshot().MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Marshal", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			st.Snapshot().MarshalJSON()
		}
	})
	b.Run("Parse", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			conversation.Parse(data)
		}
	})
}
