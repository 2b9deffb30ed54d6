package client_test

import (
	"context"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"

	"agentserver/engine"
	"agentserver/engine/wire"
	"agentserver/harness"
	"agentserver/harness/mock"
	"agentserver/protocol"
)

// serveEnv makes the test binary be an agent-server on stdio, for Spawn.
const serveEnv = "CLIENT_TEST_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		serveStdio()
		return
	}
	goleak.VerifyTestMain(m)
}

// newServer returns a server that offers the mock harness.
func newServer() *wire.Server {
	registry, err := harness.NewRegistry(mock.New())
	if err != nil {
		panic(err)
	}
	rt, err := engine.New(engine.Options{Registry: registry, Server: protocol.Info{Name: "example"}})
	if err != nil {
		panic(err)
	}
	return wire.New(rt, wire.Options{})
}

// listen serves on a free port of this machine, and returns the address and how to stop.
func listen() (url string, stop func()) {
	server := newServer()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.ServeListener(context.Background(), l) }()
	return "ws://" + l.Addr().String() + "/ws", func() {
		server.Shutdown(context.Background())
		<-done
	}
}

func serveStdio() {
	server := newServer()
	if err := server.ServeStdio(context.Background(), os.Stdin, os.Stdout, false); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}
