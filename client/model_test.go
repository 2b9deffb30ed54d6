package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/protocol"
)

// TestModel lets random faults loose on several sessions and two clients. In the end, everybody has heard exactly what the logs hold.
func TestModel(t *testing.T) {
	base := rand.Uint64()
	for i := range uint64(60) {
		seed := base + i
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { model(t, rand.New(rand.NewPCG(seed, 7))) })
		})
		if t.Failed() {
			return
		}
	}
}

// A locked is a source of chance for several goroutines.
type locked struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (l *locked) IntN(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(n)
}

func (l *locked) within(d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return within(l.rng, d)
}

func model(t *testing.T, source *rand.Rand) {
	rng := &locked{rng: source}
	s := newFake(t)
	var recs []*recorder
	var clients []*Client
	for range 2 {
		rec := newRecorder()
		recs = append(recs, rec)
		clients = append(clients, s.connect(t, &Options{
			OnEvent: rec.handle, OnError: func(err error) { t.Error(err) },
			ReplayPage: 1 + rng.IntN(40), Heartbeat: 5 * time.Second,
		}))
	}
	s.mangle = func(c *fakeConn, f []byte) [][]byte {
		switch rng.IntN(60) {
		case 0:
			return [][]byte{f, f}
		case 1:
			return nil // the follower jumped
		}
		return [][]byte{f}
	}
	s.answer = func(method string, _ []byte) (any, error) {
		if method == protocol.MethodEventsReplay && rng.IntN(10) == 0 {
			time.Sleep(rng.within(time.Second)) // live events come meanwhile
		}
		return nil, nil
	}
	s.script = func(p protocol.TurnStartParams) {
		s.emit(p.SessionID, turnStarted(p.TurnID))
		for i := range rng.IntN(200) {
			s.emit(p.SessionID, delta(p.TurnID, i))
			if rng.IntN(4) == 0 {
				time.Sleep(rng.within(20 * time.Millisecond))
			}
		}
		s.emit(p.SessionID, turnEnded(p.TurnID))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // faults
		for {
			select {
			case <-stop:
				return
			case <-time.After(rng.within(400 * time.Millisecond)):
			}
			if rng.IntN(3) > 0 {
				s.cut(errors.New("connection reset"))
				continue
			}
			s.mu.Lock()
			if n := len(s.conns); n > 0 {
				s.conns[rng.IntN(n)].client.swallow()
			}
			s.mu.Unlock()
		}
	})
	var turns sync.WaitGroup
	for i := range 6 {
		turns.Go(func() {
			id := protocol.SessionID(fmt.Sprint("s", i%3))
			turn, err := clients[i%2].StartTurn(t.Context(), protocol.TurnStartParams{SessionID: id, Input: protocol.Text("go")})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := turn.Result(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	turns.Wait()
	close(stop)
	wg.Wait()
	s.cut(errors.New("connection reset")) // what was lost last has no successor to betray it
	time.Sleep(time.Minute)
	synctest.Wait()
	for _, rec := range recs {
		for i := range 3 {
			rec.check(t, s, protocol.SessionID(fmt.Sprint("s", i)))
		}
	}
}

func within(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}
