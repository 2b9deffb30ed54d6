package main

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// runRelay is the floor: it starts the agent when a client says so, and copies each of its lines to every connected client as a text frame.
func runRelay(addressFile string) error {
	r := &relay{}
	return serve(addressFile, r)
}

type relay struct {
	mu    sync.Mutex // guards conns
	conns []*websocket.Conn
}

// ServeHTTP takes a client. Its first message starts the agent; the others only listen.
func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c, err := websocket.Accept(w, req, nil)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.conns = append(r.conns, c)
	r.mu.Unlock()
	for {
		_, msg, err := c.Read(context.Background())
		if err != nil {
			return
		}
		go r.play(string(msg))
	}
}

func (r *relay) play(plan string) {
	r.mu.Lock()
	conns := r.conns
	r.mu.Unlock()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), planVar+"="+plan)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if cmd.Start() != nil {
		return
	}
	_, _ = in.Write([]byte(`{"type":"user"}` + "\n"))
	_ = in.Close()
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		for _, c := range conns {
			_ = c.Write(context.Background(), websocket.MessageText, line[:len(line)-1])
		}
	}
	_ = cmd.Wait()
}

// runTrivial is the floor of start-up and idle memory: a server that answers one word.
func runTrivial(addressFile string) error {
	return serve(addressFile, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
}

func serve(addressFile string, h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := os.WriteFile(addressFile, []byte(l.Addr().String()), 0o600); err != nil {
		return err
	}
	return (&http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}
