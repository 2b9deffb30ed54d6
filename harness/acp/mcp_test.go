package acp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// mcpVariable turns this test binary into an MCP server on its standard streams, with one tool: "say", which says the variable's value.
const mcpVariable = "ACP_TEST_MCP"

func serveMCP() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if answer := answerMCP(line); answer != nil {
			fmt.Printf("%s\n", answer)
		}
		if err != nil {
			return
		}
	}
}

func answerMCP(message []byte) []byte {
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
		result = map[string]any{"content": []any{map[string]any{"type": "text", "text": os.Getenv(mcpVariable)}}}
	}
	answer, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
	return answer
}
