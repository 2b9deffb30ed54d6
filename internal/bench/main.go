// Command bench measures the whole pipeline, from an agent's pipe to a client's WebSocket, as ratios against a floor taken in the same run: a relay
// that copies the same agent's lines into WebSocket frames without looking at them. It prints a table; see docs/performance.md.
//
//	go run ./internal/bench [-server bin/agent-server] [-rounds 3] [-quick]
//
// The agent is this program itself, playing the claude CLI by a plan. A run that loses, doubles or reorders an event has no figure: it fails.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	// The roles that this program plays as a child, by its first argument or, for the agent, by its environment.
	switch {
	case os.Getenv(planVar) != "":
		runAgent(os.Args[1:])
		return
	case len(os.Args) > 2 && os.Args[1] == "relay":
		fail(runRelay(os.Args[2]))
		return
	case len(os.Args) > 2 && os.Args[1] == "trivial":
		fail(runTrivial(os.Args[2]))
		return
	}
	server := flag.String("server", "bin/agent-server", "the built server; `make build` makes it")
	rounds := flag.Int("rounds", 3, "rounds of floor, ours, floor; the medians count")
	quick := flag.Bool("quick", false, "a tenth of the load, to see that it works")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b := &bench{server: *server, rounds: *rounds, scale: 1}
	if *quick {
		b.scale = 10
	}
	fail(b.run(ctx))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
