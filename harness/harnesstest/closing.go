package harnesstest

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

// closing closes the session at each step.
func (s *Suite) closing(t *testing.T) {
	for _, p := range s.interruptible() {
		if p.prompt == "" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			s.eachStep(func(k int) (more bool) {
				c := s.open(t, "")
				c.send(p.prompt)
				n := 0
				for ; n < k && c.running; n++ {
					if _, err := c.recv(s.Quiet); err != nil {
						break
					}
				}
				more = c.running && n == k
				c.finish()
				return more && !t.Failed()
			})
		})
	}
}

func (s *Suite) closeTwice(t *testing.T) {
	for _, prompt := range []string{"", s.Prompts.Text, s.Prompts.LongText} {
		c := s.open(t, "")
		if prompt != "" {
			c.send(prompt)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(c.close)
		}
		wg.Wait()
		c.close()
		c.drain()
		ctx, cancel := s.within()
		if c.session.Send(ctx, harness.Turn{ID: "t", Input: protocol.Text(s.Prompts.Text)}) == nil {
			t.Error("Send to a closed session returned nil")
		}
		c.session.Interrupt(ctx) // must return
		cancel()
	}
}

func (s *Suite) closeUnderRecv(t *testing.T) {
	c := s.open(t, "")
	returned := make(chan error, 1)
	go func() {
		for {
			if _, err := c.session.Recv(context.Background()); err != nil {
				returned <- err
				return
			}
		}
	}()
	c.close()
	select {
	case err := <-returned:
		if !errors.Is(err, io.EOF) {
			t.Errorf("Recv returned %v, want io.EOF", err)
		}
	case <-time.After(s.Wait):
		t.Fatal("Close did not unblock Recv")
	}
}

func (s *Suite) closeWithEndedContext(t *testing.T) {
	for _, prompt := range []string{"", s.Prompts.LongText} {
		c := s.open(t, "")
		if prompt != "" {
			c.send(prompt)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		returned := make(chan struct{})
		go func() { c.session.Close(ctx); close(returned) }()
		select {
		case <-returned:
		case <-time.After(s.Wait):
			t.Fatal("Close with an ended context did not return")
		}
		c.drain()
	}
}

// openWithEndedContext lets the context end before and during Open. Whatever Open returns, nothing may be left.
func (s *Suite) openWithEndedContext(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), after)
		session, err := s.Harness.Open(ctx, s.spec(""))
		cancel()
		if err == nil {
			c := &client{t: t, suite: s, session: session}
			c.finish()
		} else if session != nil {
			t.Errorf("Open returned a session and the error %v", err)
		}
	}
}
