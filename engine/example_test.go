package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"agentserver/engine"
	"agentserver/harness"
	"agentserver/harness/mock"
	"agentserver/protocol"
)

// An engine in one's own program: no wire, no JSON.
func Example() {
	ctx := context.Background()
	registry, err := harness.NewRegistry(mock.New())
	if err != nil {
		log.Fatal(err)
	}
	rt, err := engine.New(engine.Options{Registry: registry})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Shutdown(ctx)

	events := rt.Follow() // before the turn, so that nothing is missed
	ack, err := rt.StartTurn(ctx, protocol.TurnStartParams{
		Input:  protocol.Text(`ask Bash {"command":"ls"} -> a.txt`),
		Config: protocol.RunConfig{Harness: "mock", Cwd: os.TempDir()},
	})
	if err != nil {
		log.Fatal(err)
	}
	for env, err := range events.All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch e := env.Event.(type) {
		case *protocol.PermissionRequested:
			fmt.Println("may", e.ToolCall.ToolName, "run?")
			rt.Respond(ctx, protocol.PermissionRespondParams{SessionID: ack.SessionID, RequestID: e.RequestID,
				Outcome: protocol.Selected(protocol.OptionIDAllow)})
		case *protocol.MessagePart:
			if tool, ok := e.Part.(*protocol.ToolPart); ok {
				fmt.Println(tool.ToolName, tool.State.Status())
			}
		case *protocol.TurnEnded:
			fmt.Println(e.StopReason)
			return
		}
	}
	// Output:
	// Bash pending
	// Bash in_progress
	// may Bash run?
	// Bash completed
	// end_turn
}
