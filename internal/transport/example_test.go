package transport_test

import (
	"context"
	"encoding/json"
	"fmt"

	"agentserver/internal/transport"
)

// A server's connection: requests are handled in order, what takes longer goes async, and frames that were encoded once are sent in the same
// queue as the replies.
func Example_server() {
	near, far := transport.Memory()
	server := transport.NewConn(context.Background(), far, transport.Options{
		Handle: func(ctx context.Context, r *transport.Request) (any, error) {
			switch r.Method {
			case "turn/start":
				// Queue the ack before anything of the turn can be: the quick ack of the spec.
				r.Reply(json.RawMessage(`{"turnId":"t"}`), nil)
				// ... let the turn begin ...
				return r.Later()
			case "turn/cancel": // takes seconds: not on the read loop
				return r.Go(func(ctx context.Context, r *transport.Request) (any, error) {
					return map[string]string{"outcome": "cancelled"}, nil
				})
			}
			return nil, &transport.Error{Code: -32601, Message: "method not found: " + r.Method}
		},
	})
	client := transport.NewConn(context.Background(), near, transport.Options{
		Notify: func(n *transport.Notification) { fmt.Println(n.Method, string(n.Params)) },
	})
	for _, method := range []string{"turn/start", "turn/cancel", "deus/x"} {
		result, err := client.Call(context.Background(), method, json.RawMessage(`{}`))
		fmt.Println(method, string(result), err)
	}

	event, _ := transport.EncodeNotification("event", json.RawMessage(`{"seq":1}`))
	server.Send(context.Background(), event, event) // a burst is one write
	server.Shutdown(context.Background(), transport.CloseGoingAway, "shutdown")
	<-client.Done()
	fmt.Println(transport.CodeOf(client.Err()))
	client.Close(transport.CloseNormal, "")
	// Output:
	// turn/start {"turnId":"t"} <nil>
	// turn/cancel {"outcome":"cancelled"} <nil>
	// deus/x  method not found: deus/x (code -32601)
	// event {"seq":1}
	// event {"seq":1}
	// 1001
}

// A driver's connection to its child: one queue takes everything in the order of the wire.
func Example_driver() {
	near, child := transport.Memory()
	queue := make(chan string, 16)
	conn := transport.NewConn(context.Background(), near, transport.Options{
		Tolerant: true,
		Notify:   func(n *transport.Notification) { queue <- "update " + string(n.Params) },
		Handle: func(_ context.Context, r *transport.Request) (any, error) {
			queue <- "asked for " + r.Method // the consumer calls r.Reply when it knows
			return r.Later()
		},
		Junk: func(why string, text []byte) { queue <- "junk " + string(text) },
	})
	conn.Start(context.Background(), "session/prompt", struct{}{}, func(result json.RawMessage, err error) {
		queue <- "turn ended " + string(result)
		close(queue)
	})
	child.Read(context.Background())
	child.Write(context.Background(), []byte(`npm notice: update`), []byte(`{"method":"session/update","params":1}`),
		[]byte(`{"id":0,"method":"session/request_permission"}`), []byte(`{"method":"session/update","params":2}`), []byte(`{"id":1,"result":"end_turn"}`))
	for s := range queue {
		fmt.Println(s)
	}
	conn.Close(transport.CloseNormal, "")
	// Output:
	// junk npm notice: update
	// update 1
	// asked for session/request_permission
	// update 2
	// turn ended "end_turn"
}
