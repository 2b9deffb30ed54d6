package eventlog_test

import (
	"fmt"
	"sync"
	"testing"

	"agentserver/engine/eventlog"
	"agentserver/protocol"
)

const benchSession = protocol.SessionID("0190a1b2-0000-7000-8000-000000000001")

// benchDelta is a delta whose frame has about 430 bytes, most of them ids.
func benchDelta() protocol.Event {
	return &protocol.MessagePartDelta{
		EventHeader: protocol.EventHeader{SessionID: benchSession, Timestamp: 1764550000000},
		TurnID:      "0190a1b2-0000-7000-8000-000000000002", MessageID: "0190a1b2-0000-7000-8000-000000000003",
		PartID: "0190a1b2-0000-7000-8000-000000000004", OutputIndex: 1, Delta: &protocol.TextDelta{Text: "some words of an answer, "}}
}

// BenchmarkAppend appends to a log with followers that read and ask for the frame, as connections do.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{0, 1, 100, 1000} {
		b.Run(fmt.Sprintf("followers=%d", n), func(b *testing.B) {
			s := eventlog.NewStore(eventlog.Limits{})
			var wg sync.WaitGroup
			for range n {
				f := s.Follow()
				wg.Go(func() {
					for {
						batch, err := f.Next(b.Context())
						if err != nil {
							return
						}
						for _, e := range batch.Entries {
							e.Frame()
						}
					}
				})
			}
			e := benchDelta()
			b.ReportAllocs()
			for b.Loop() {
				s.Append(benchSession, e)
			}
			b.StopTimer()
			s.Close()
			wg.Wait()
		})
	}
}

// BenchmarkAppendOthers appends to one session while a thousand connections wait for others.
func BenchmarkAppendOthers(b *testing.B) {
	s := eventlog.NewStore(eventlog.Limits{})
	var wg sync.WaitGroup
	for i := range 1000 {
		f := s.Follow(protocol.SessionID(fmt.Sprint(i)))
		wg.Go(func() { f.Next(b.Context()) })
	}
	e := benchDelta()
	b.ReportAllocs()
	for b.Loop() {
		s.Append(benchSession, e)
	}
	b.StopTimer()
	s.Close()
	wg.Wait()
}

// BenchmarkFrame is append and encode, with nobody to wake.
func BenchmarkFrame(b *testing.B) {
	s := eventlog.NewStore(eventlog.Limits{})
	e := benchDelta()
	b.ReportAllocs()
	for b.Loop() {
		s.Append(benchSession, e).Frame()
	}
}

// BenchmarkReplay4096 replays a full log whose events were encoded before, as its envelopes' JSON.
func BenchmarkReplay4096(b *testing.B) {
	s := eventlog.NewStore(eventlog.Limits{})
	for range 4096 {
		s.Append(benchSession, benchDelta()).Frame()
	}
	b.ReportAllocs()
	for b.Loop() {
		p, err := s.Replay(benchSession, 1, 0)
		if err != nil || len(p.Entries) != 4096 {
			b.Fatal(len(p.Entries), err)
		}
		n := 0
		for _, e := range p.Entries {
			n += len(e.EnvelopeJSON())
		}
	}
}
