package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"agentserver/protocol/jsonscan"
)

// A load is one measurement: so many clients that all see one session play a plan.
type load struct {
	clients int
	plan    plan
}

// A result is what one measurement gave.
type result struct {
	perSecond float64       // deliveries
	cpu       time.Duration // of the server, per delivery
	p50, p99  time.Duration
	bytes     int64 // received by one client
}

// measure plays the load against a server. prompt starts the agent on the first client's connection.
func (l load) measure(ctx context.Context, c *child, ours bool) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	conns := make([]*websocket.Conn, l.clients)
	for i := range conns {
		conn, _, err := websocket.Dial(ctx, "ws://"+c.addr+"/", nil)
		if err != nil {
			return result{}, err
		}
		defer conn.CloseNow()
		conn.SetReadLimit(-1)
		conns[i] = conn
		if ours {
			if err := conn.Write(ctx, websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":2}}`)); err != nil {
				return result{}, err
			}
			if _, _, err := conn.Read(ctx); err != nil {
				return result{}, err
			}
		}
	}
	if !ours {
		time.Sleep(50 * time.Millisecond) // the relay has no handshake to wait for
	}
	began, cpu := time.Now(), c.cpu()
	if err := conns[0].Write(ctx, websocket.MessageText, l.prompt(ours)); err != nil {
		return result{}, err
	}
	seen := make([]reader, l.clients)
	errs := make([]error, l.clients)
	var wg sync.WaitGroup
	for i, conn := range conns {
		wg.Go(func() { errs[i] = seen[i].read(ctx, conn, l.plan, ours) })
	}
	wg.Wait()
	took := time.Since(began)
	for _, err := range errs {
		if err != nil {
			return result{}, err
		}
	}
	deliveries := l.clients * l.plan.events
	r := result{perSecond: float64(deliveries) / took.Seconds(), cpu: (c.cpu() - cpu) / time.Duration(deliveries), bytes: seen[0].bytes}
	var all []time.Duration
	for _, s := range seen {
		all = append(all, s.latency...)
	}
	slices.Sort(all)
	r.p50, r.p99 = all[len(all)/2], all[len(all)*99/100]
	return r, nil
}

func (l load) prompt(ours bool) []byte {
	if !ours {
		return fmt.Appendf(nil, "%d %d %d", l.plan.events, l.plan.rate, l.plan.size)
	}
	params := map[string]any{"input": "go", "config": map[string]any{"harness": "claude-code", "cwd": os.TempDir()}}
	raw, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 2, "method": "turn/start", "params": params})
	return raw
}

// A reader is one client. It holds what it gets to the order in which it was sent: any loss, repeat or inversion is an error.
type reader struct {
	latency []time.Duration
	bytes   int64
	seq     uint64
	stamp   int64
}

var (
	textField  = []byte(`"text":"`)
	deltaMark  = []byte(`_delta"`)
	oursDelta  = []byte(`"message.part.delta"`)
	oursEnd    = []byte(`"turn.ended"`)
	floorEnd   = []byte(`{"type":"result"`)
	notSuccess = []byte(`"stopReason":"error"`)
)

func (r *reader) read(ctx context.Context, conn *websocket.Conn, p plan, ours bool) error {
	for {
		_, msg, err := conn.Read(ctx)
		if err != nil {
			return fmt.Errorf("after %d of %d deltas: %w", len(r.latency), p.events, err)
		}
		now := time.Now().UnixNano()
		r.bytes += int64(len(msg))
		delta, end := bytes.Contains(msg, deltaMark), bytes.HasPrefix(msg, floorEnd)
		if ours {
			if err := r.number(msg); err != nil {
				return err
			}
			delta, end = bytes.Contains(msg, oursDelta), bytes.Contains(msg, oursEnd)
			if end && bytes.Contains(msg, notSuccess) {
				return fmt.Errorf("the turn failed: %s", msg)
			}
		}
		switch {
		case delta:
			if err := r.take(msg, now); err != nil {
				return err
			}
		case end && len(r.latency) != p.events:
			return fmt.Errorf("%d of %d deltas arrived", len(r.latency), p.events)
		case end:
			return nil
		}
	}
}

// number checks the sequence number of a notification.
func (r *reader) number(msg []byte) error {
	params := jsonscan.Get(msg, "params")
	if params == nil {
		return nil // a response
	}
	seq, err := strconv.ParseUint(string(jsonscan.Get(params, "seq")), 10, 64)
	if err != nil || seq != r.seq+1 {
		return fmt.Errorf("event %d came after %d", seq, r.seq)
	}
	r.seq = seq
	return nil
}

func (r *reader) take(msg []byte, now int64) error {
	i := bytes.LastIndex(msg, textField)
	if i < 0 || len(msg) < i+len(textField)+20 {
		return fmt.Errorf("a delta without its stamp: %s", msg)
	}
	stamp, err := strconv.ParseInt(string(msg[i+len(textField):i+len(textField)+20]), 10, 64)
	if err != nil || stamp < r.stamp {
		return fmt.Errorf("a delta of %d came after %d", stamp, r.stamp)
	}
	r.stamp = stamp
	r.latency = append(r.latency, time.Duration(now-stamp))
	return nil
}
