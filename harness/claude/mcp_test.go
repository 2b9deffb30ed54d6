package claude_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
)

// mcpVariable turns this test binary into an MCP server on its standard streams. Its value is what the server's tool says.
const mcpVariable = "CLAUDE_TEST_MCP"

// answerMCP answers one JSON-RPC message; nil for a notification. The server has one tool, "say", which returns word.
func answerMCP(message []byte, word string) []byte {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ ProtocolVersion string }
	}
	if json.Unmarshal(message, &m) != nil || m.ID == nil {
		return nil
	}
	var result any = struct{}{}
	switch m.Method {
	case "initialize":
		result = map[string]any{"protocolVersion": m.Params.ProtocolVersion, "capabilities": map[string]any{"tools": struct{}{}},
			"serverInfo": map[string]any{"name": "test", "version": "1"}}
	case "tools/list":
		result = map[string]any{"tools": []any{map[string]any{"name": "say", "description": "Says a word.", "inputSchema": map[string]any{"type": "object"}}}}
	case "tools/call":
		result = map[string]any{"content": []any{map[string]any{"type": "text", "text": word}}}
	}
	answer, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
	return answer
}

func serveMCP() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if answer := answerMCP(line, os.Getenv(mcpVariable)); answer != nil {
			fmt.Printf("%s\n", answer)
		}
		if err != nil {
			return
		}
	}
}

// httpMCP serves streamable HTTP.
func httpMCP(t *testing.T, word string) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, _ := io.ReadAll(r.Body)
		answer := answerMCP(body, word)
		if answer == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}) + "/mcp"
}

// sseMCP serves the older transport: a stream of events, and a second address for messages.
func sseMCP(t *testing.T, word string) string {
	var mu sync.Mutex
	streams := map[chan []byte]bool{}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			w.WriteHeader(http.StatusAccepted)
			if answer := answerMCP(body, word); answer != nil {
				mu.Lock()
				defer mu.Unlock()
				for s := range streams {
					s <- answer
				}
			}
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: /messages\n\n")
		w.(http.Flusher).Flush()
		mine := make(chan []byte, 16)
		mu.Lock()
		streams[mine] = true
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			delete(streams, mine)
		}()
		for {
			select {
			case m := <-mine:
				fmt.Fprintf(w, "event: message\ndata: %s\n\n", m)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}) + "/sse"
}

func serve(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}
