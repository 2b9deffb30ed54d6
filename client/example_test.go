package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"agentserver/client"
	"agentserver/protocol"
)

// Connect to a server that listens, run a turn, and print what the agent says.
func ExampleDial() {
	url, stop := listen() // an agent-server with the mock harness
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.Dial(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	turn, err := c.StartTurn(ctx, protocol.TurnStartParams{
		Input:  protocol.Text("say Hello from the agent."),
		Config: protocol.RunConfig{Harness: "mock", Cwd: os.TempDir()},
	})
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range turn.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if e, ok := event.(*protocol.MessagePartDelta); ok {
			if d, ok := e.Delta.(*protocol.TextDelta); ok {
				fmt.Print(d.Text)
			}
		}
	}
	ended, err := turn.Result(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("\nended:", ended.StopReason)
	// Output:
	// Hello from the agent.
	// ended: end_turn
}

// Run the server as a child process; it ends with the client. Here the child is the test binary itself, where a program would say
// client.Spawn(ctx, "agent-server", []string{"--stdio"}, nil).
func ExampleSpawn() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Spawn(ctx, os.Args[0], nil, &client.Options{
		Env:    append(os.Environ(), serveEnv+"=1"),
		Stderr: os.Stderr,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	turn, err := c.StartTurn(ctx, protocol.TurnStartParams{
		Input:  protocol.Text("say Hello from a child."),
		Config: protocol.RunConfig{Harness: "mock", Cwd: os.TempDir()},
	})
	if err != nil {
		log.Fatal(err)
	}
	ended, err := turn.Result(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Server().Server.Name, ended.StopReason)
	// Output: example end_turn
}

// Speak to a server over any pipe that is open already: here a server in the same process.
func ExampleAttach() {
	ours, theirs := net.Pipe()
	server := newServer()
	go server.ServeStream(context.Background(), theirs)
	defer server.Shutdown(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Attach(ctx, ours, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for id, caps := range c.Server().Harnesses {
		fmt.Println(id, "steering:", caps.Steering)
	}
	// Output: mock steering: true
}

// Answer a permission request while the turn runs.
func ExampleTurn_Respond() {
	url, stop := listen()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	turn, err := c.StartTurn(ctx, protocol.TurnStartParams{
		Input:  protocol.Text(`ask Bash {"command":"make"} -> built`),
		Config: protocol.RunConfig{Harness: "mock", Cwd: os.TempDir()},
	})
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range turn.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch e := event.(type) {
		case *protocol.PermissionRequested:
			fmt.Printf("%s %s\n", e.ToolCall.ToolName, e.ToolCall.RawInput)
			if _, err := turn.Respond(ctx, e.RequestID, protocol.Selected(protocol.OptionIDAllow)); err != nil {
				log.Fatal(err)
			}
		case *protocol.TurnEnded:
			fmt.Println(e.StopReason)
		}
	}
	// Output:
	// Bash {"command":"make"}
	// end_turn
}

// Hear of everything that happens on the server, of the state of the connection, and of what could not be healed.
func ExampleOptions() {
	url, stop := listen()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.Dial(ctx, url, &client.Options{
		Client:  &protocol.Info{Name: "my-app", Version: "1.0"},
		OnEvent: func(env protocol.Envelope) { _ = env }, // every session, from before the first connection on
		OnState: func(s client.State) { fmt.Println(s.Phase) },
		OnError: func(err error) { log.Print(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	c.Close()
	// Output:
	// ready
	// closed
}

// Tell the ways apart in which a turn's end may stay unknown.
func ExampleTurn_Result() {
	url, stop := listen()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	turn, err := c.StartTurn(ctx, protocol.TurnStartParams{
		Input:  protocol.Text("fail rate_limit too many requests"),
		Config: protocol.RunConfig{Harness: "mock", Cwd: os.TempDir()},
	})
	if errors.Is(err, protocol.ErrTurnActive) {
		fmt.Println("another turn runs in this session")
	}
	if err != nil {
		log.Fatal(err)
	}
	ended, err := turn.Result(ctx)
	var gap *client.GapError
	switch {
	case errors.As(err, &gap):
		fmt.Println("events", gap.First, "to", gap.Last, "are lost; take a snapshot")
	case errors.Is(err, client.ErrInstanceChanged):
		fmt.Println("the server was restarted")
	case err != nil:
		log.Fatal(err)
	case ended.StopReason == protocol.StopError:
		fmt.Println("the turn failed:", ended.Error)
	default:
		fmt.Println("done:", ended.StopReason)
	}
	// Output: the turn failed: rate_limit: too many requests
}

// Join a conversation late: take the state as it is now, then follow from there.
func ExampleClient_Follow() {
	url, stop := listen()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	first, err := client.Dial(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer first.Close()
	config := protocol.RunConfig{Harness: "mock", Cwd: os.TempDir()}
	turn, err := first.StartTurn(ctx, protocol.TurnStartParams{SessionID: "talk", Input: protocol.Text("say one"), Config: config})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := turn.Result(ctx); err != nil {
		log.Fatal(err)
	}
	sessions, err := first.Sessions(ctx)
	if err != nil {
		log.Fatal(err)
	}

	late, err := client.Dial(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer late.Close()
	started := make(chan protocol.TurnID, 10)
	remove := late.OnEvent(func(env protocol.Envelope) {
		if e, ok := env.Event.(*protocol.TurnStarted); ok {
			started <- e.TurnID
		}
	})
	defer remove()
	if err := late.Follow(ctx, "talk", sessions[0].LatestSeq); err != nil {
		log.Fatal(err)
	}
	if _, err := first.StartTurn(ctx, protocol.TurnStartParams{SessionID: "talk", TurnID: "two", Input: protocol.Text("say two"), Config: config}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the late joiner sees turn", <-started)
	// Output: the late joiner sees turn two
}
