package wholepath

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agentserver/client"
	"agentserver/protocol"
)

func itoa(n int) string { return strconv.Itoa(n) }

// TestRealCutOffClient cuts one client off at random points of turns with the real CLI. It ends with the stream that an uncut client and the log have.
func TestRealCutOffClient(t *testing.T) {
	e := withClaude(t)
	s := e.serve(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	proxy := newCutter(t, strings.TrimPrefix(s.url, "ws://"), seed)

	whole := s.dialSelf()
	torn := s.dial("ws://"+proxy.addr, &client.Options{MinBackoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond})
	if err := torn.Follow(testContext(t), "s", 0); err != nil {
		t.Fatal(err)
	}
	var last protocol.TurnID
	for _, prompt := range []string{"SLOW 60 5", "TOOL bash touch x", "BIGTEXT 300000", "SLOW 60 5"} {
		_, ended := turn{session: "s", prompt: prompt, config: e.config(claude), on: answer(t, protocol.Selected(protocol.OptionIDAllow))}.run(t, whole)
		last = ended.TurnID
	}
	proxy.stopCutting()
	eventually(t, limit, "the torn client has caught up", func() bool { return torn.saw(last) && whole.saw(last) })
	if got, want := torn.session("s"), whole.session("s"); !slices.Equal(got, want) {
		t.Errorf("after %d cuts the torn client has %d events, the other %d, and they differ", proxy.cuts(), len(got), len(want))
	}
	if proxy.cuts() < 3 {
		t.Errorf("only %d cuts", proxy.cuts())
	}
	t.Logf("%d events, %d cuts", len(whole.session("s")), proxy.cuts())
}

// A cutter is a TCP proxy that ends connections after a random number of bytes.
type cutter struct {
	addr   string
	target string
	l      net.Listener
	wg     sync.WaitGroup

	mu   sync.Mutex
	rng  *rand.Rand
	n    int
	calm bool
	open []net.Conn
}

func newCutter(t *testing.T, target string, seed uint64) *cutter {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{addr: l.Addr().String(), target: target, l: l, rng: rand.New(rand.NewPCG(seed, 1))}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.open {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *cutter) accept() {
	for {
		near, err := p.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, near, far)
		p.mu.Unlock()
		p.wg.Go(func() { _, _ = io.Copy(far, near); _ = far.Close(); _ = near.Close() })
		p.wg.Go(func() { p.copyAndCut(near, far) })
	}
}

// copyAndCut copies what the server sends, up to a random point.
func (p *cutter) copyAndCut(near, far net.Conn) {
	defer near.Close()
	defer far.Close()
	if p.isCalm() {
		_, _ = io.Copy(near, far)
		return
	}
	p.mu.Lock()
	n := 2000 + p.rng.Int64N(20000)
	p.mu.Unlock()
	_, _ = io.CopyN(near, far, n)
	if p.isCalm() {
		_, _ = io.Copy(near, far)
		return
	}
	p.mu.Lock()
	p.n++
	p.mu.Unlock()
}

func (p *cutter) isCalm() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calm
}

func (p *cutter) stopCutting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calm = true
}

func (p *cutter) cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}
