package e2e

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// A proxy passes TCP connections on, and cuts each off after a random count of bytes from the server, until it has done so often enough.
type proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex // guards what follows
	rng   *rand.Rand
	left  int // how often it will still cut
	cuts  int
	conns map[net.Conn]bool
	held  bool // nobody gets through
	done  bool
}

// cutter starts a proxy before target that cuts n times. The seed is logged.
func cutter(t *testing.T, target string, n int, seed uint64) *proxy {
	t.Helper()
	t.Logf("cuts with seed %d", seed)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, rng: rand.New(rand.NewPCG(seed, 1)), left: n, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) url() string { return "ws://" + p.listener.Addr().String() }

func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// hold cuts every connection and lets nobody through until release.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
}

func (p *proxy) close() {
	p.mu.Lock()
	p.done = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.listener.Close()
	p.wg.Wait()
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			near.Close()
			continue
		}
		p.wg.Go(func() { p.pass(near, far) })
	}
}

// pass copies both ways until one side ends or the connection is cut: whatever is under way then is lost.
func (p *proxy) pass(near, far net.Conn) {
	budget, ok := p.open(near, far)
	defer p.forget(near, far)
	if !ok {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		io.Copy(far, near)
		far.Close()
	})
	if budget > 0 {
		if n, _ := io.CopyN(near, far, budget); n == budget {
			p.mu.Lock()
			p.cuts++
			p.mu.Unlock()
		}
		if tcp, ok := near.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, not a goodbye
		}
	} else {
		io.Copy(near, far)
	}
	near.Close()
	far.Close()
	wg.Wait()
}

// open registers a connection and says after how many bytes it is cut; 0 for never. The shortest is a little more than the hello.
func (p *proxy) open(conns ...net.Conn) (budget int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	if p.left > 0 {
		p.left--
		budget = 3000 + p.rng.Int64N(12_000)
	}
	return budget, !p.done && !p.held
}

func (p *proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}
