package codex_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

// mcpVariable turns this test binary into an MCP server on its standard streams. Its value is what the server's tools say.
const mcpVariable = "CODEX_TEST_MCP"

// answerMCP answers one JSON-RPC message; nil for a notification. The server has the tools "say", which only reads, and "write".
func answerMCP(message []byte, word string) []byte {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ ProtocolVersion string }
	}
	if json.Unmarshal(message, &m) != nil || m.ID == nil {
		return nil
	}
	tool := func(name string, readOnly bool) any {
		return map[string]any{"name": name, "description": "Says a word.", "inputSchema": map[string]any{"type": "object"},
			"annotations": map[string]any{"readOnlyHint": readOnly}}
	}
	var result any = struct{}{}
	switch m.Method {
	case "initialize":
		result = map[string]any{"protocolVersion": m.Params.ProtocolVersion, "capabilities": map[string]any{"tools": struct{}{}},
			"serverInfo": map[string]any{"name": "test", "version": "1"}}
	case "tools/list":
		result = map[string]any{"tools": []any{tool("say", true), tool("write", false)}}
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

// httpMCP serves the same over streamable HTTP, to those who send the header.
func httpMCP(t *testing.T, word, header string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Test") != header {
			w.WriteHeader(http.StatusForbidden)
			return
		}
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
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + "/mcp"
}
