package examples

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"strings"

	"agentserver/client"
	"agentserver/engine"
	"agentserver/engine/wire"
	"agentserver/harness"
	"agentserver/harness/mock"
	"agentserver/protocol"
	"agentserver/protocol/conversation"
)

// serveMock serves the mock harness on a WebSocket of its own.
func serveMock() (url string, stop func()) {
	registry, err := harness.NewRegistry(mock.New())
	if err != nil {
		log.Fatal(err)
	}
	rt, err := engine.New(engine.Options{Registry: registry})
	if err != nil {
		log.Fatal(err)
	}
	srv := wire.New(rt, wire.Options{})
	web := httptest.NewServer(srv.Handler())
	return "ws" + strings.TrimPrefix(web.URL, "http"), func() {
		if err := srv.Shutdown(context.Background()); err != nil {
			log.Fatal(err)
		}
		web.Close()
	}
}

func Example_fold() {
	ctx := context.Background()
	url, stop := serveMock()
	defer stop()
	c, err := client.Dial(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ended := make(chan *conversation.Snapshot)
	states := map[protocol.SessionID]*conversation.State{}
	c.OnEvent(func(env protocol.Envelope) {
		st := states[env.SessionID]
		if st == nil || env.Seq == 1 { // a log that begins anew at 1 is another one
			st = conversation.New(env.SessionID)
			states[env.SessionID] = st
		}
		for _, change := range st.Apply(env) {
			switch change.Kind {
			case conversation.MessageChanged: // insert or update change.Message under change.MessageID
			case conversation.PartChanged: // insert or replace change.Part under change.PartID
			case conversation.PartAppended: // append change.Text to what is shown of change.PartID
			case conversation.PermissionChanged: // ask, or take the question away
			case conversation.TurnChanged:
				if change.Turn.Status == conversation.TurnEnded {
					ended <- st.Snapshot() // immutable: draw it on any goroutine
				}
			}
		}
	})
	if _, err := c.StartTurn(ctx, protocol.TurnStartParams{
		Input:  protocol.Text("subagent Explore look around\n  say two files\nsay done"),
		Config: protocol.RunConfig{Harness: "mock", Cwd: os.TempDir()},
	}); err != nil {
		log.Fatal(err)
	}
	draw(<-ended)
	// Output:
	// you: subagent Explore look around
	//   say two files
	// say done
	// - Task completed
	//   two files
	// done
	// end_turn
}

// draw prints a conversation as a view would.
func draw(s *conversation.Snapshot) {
	for g := range s.Groups() {
		if g.Prompt != nil {
			fmt.Println("you:", g.Prompt.Text())
		}
		drawItems(g.Items, "")
		fmt.Println(g.Turn.StopReason)
	}
}

func drawItems(items []conversation.Item, indent string) {
	for _, item := range items {
		for _, node := range item.Parts {
			switch p := node.Part.Part.(type) {
			case *protocol.TextPart:
				fmt.Println(indent + p.Text)
			case *protocol.ToolPart:
				fmt.Println(indent+"-", p.ToolName, p.State.Status())
				drawItems(node.Subagent, indent+"  ") // what a sub-agent said stands under its call
			default: // show that something is there
			}
		}
	}
}

func Example_late() {
	ctx := context.Background()
	url, stop := serveMock()
	defer stop()
	c, err := client.Dial(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	turn, err := c.StartTurn(ctx, protocol.TurnStartParams{
		SessionID: "talk",
		Input:     protocol.Text("say first"),
		Config:    protocol.RunConfig{Harness: "mock", Cwd: os.TempDir()},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := turn.Result(ctx); err != nil {
		log.Fatal(err)
	}

	late, err := client.Dial(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer late.Close()
	got, err := late.Snapshot(ctx, "talk")
	if err != nil {
		log.Fatal(err)
	}
	snapshot, err := conversation.Parse(got.State)
	if err != nil {
		log.Fatal(err)
	}
	st := conversation.FromSnapshot(snapshot)
	late.OnEvent(func(env protocol.Envelope) { st.Apply(env) })
	if err := late.Follow(ctx, "talk", got.Seq); err != nil { // what comes behind the snapshot
		log.Fatal(err)
	}
	draw(snapshot)
	// Output:
	// you: say first
	// first
	// end_turn
}

func Example_retry() {
	ctx := context.Background()
	url, stop := serveMock()
	defer stop()
	c, err := client.Dial(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	params := protocol.TurnStartParams{
		SessionID: "talk",
		TurnID:    "turn-1", // keep both before you send: with the same ids, a start may be sent again and runs once
		Input:     protocol.Text("hang"),
		Config:    protocol.RunConfig{Harness: "mock", Cwd: os.TempDir()},
	}
	fmt.Println("shown at once under", protocol.EchoMessageID(params.TurnID))
	if _, err := c.StartTurn(ctx, params); err != nil {
		log.Fatal(err)
	}
	turn, err := c.StartTurn(ctx, params)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("deduplicated:", turn.Deduplicated)

	if _, err := turn.Cancel(ctx); err != nil { // whatever it answers, the turn's end follows
		log.Fatal(err)
	}
	ended, err := turn.Result(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ended.StopReason)
	// Output:
	// shown at once under echo-turn-1
	// deduplicated: true
	// cancelled
}
