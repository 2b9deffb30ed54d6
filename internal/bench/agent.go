package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// planVar holds the plan of the stand-in agent: "events rate bytes".
const planVar = "BENCH_PLAN"

// A plan says what the agent does with a prompt: stream so many text deltas of so many bytes, so many a second (0: as fast as it can).
type plan struct{ events, rate, size int }

func (p plan) env() string { return fmt.Sprintf("%s=%d %d %d", planVar, p.events, p.rate, p.size) }

func parsePlan(s string) (p plan) {
	_, _ = fmt.Sscan(s, &p.events, &p.rate, &p.size)
	return p
}

// runAgent plays the claude CLI. Each delta carries the nanosecond at which it was written, so that a client can tell how long it was under way.
func runAgent(args []string) {
	if len(args) > 0 && args[0] == "--version" {
		fmt.Println("2.1.332 (Claude Code)")
		return
	}
	p := parsePlan(os.Getenv(planVar))
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			Type      string `json:"type"`
			RequestID string `json:"request_id"`
		}
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		switch m.Type {
		case "control_request":
			fmt.Fprintf(out, `{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{"commands":[],"models":[]}}}`+"\n", m.RequestID)
		case "user":
			p.play(out)
		}
		_ = out.Flush()
	}
}

const session = "11111111-2222-4333-8444-555555555555"

func (p plan) play(out *bufio.Writer) {
	tail := `,"session_id":"` + session + `","parent_tool_use_id":null,"uuid":"9d9e2e7c-7c55-4d6e-8f2e-5a6b1f0c9d11"}` + "\n"
	say := func(s string) { _, _ = out.WriteString(s) }
	say(`{"type":"system","subtype":"init","cwd":"/","tools":[],"mcp_servers":[],"model":"m","permissionMode":"default","session_id":"` + session + `","uuid":"u"}` + "\n")
	say(`{"type":"stream_event","event":{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}` + tail)
	say(`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + tail)
	pad := strings.Repeat("x", max(0, p.size-20))
	start := time.Now()
	var text strings.Builder
	for i := range p.events {
		if p.rate > 0 {
			_ = out.Flush()
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(p.rate))))
		}
		delta := fmt.Sprintf("%020d%s", time.Now().UnixNano(), pad)
		text.WriteString(delta)
		say(`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + delta + `"}}` + tail)
	}
	say(`{"type":"assistant","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"` + text.String() + `"}],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}` + tail)
	say(`{"type":"stream_event","event":{"type":"content_block_stop","index":0}` + tail)
	say(`{"type":"stream_event","event":{"type":"message_stop"}` + tail)
	say(`{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"","stop_reason":"end_turn","total_cost_usd":0,"usage":{"input_tokens":1,"output_tokens":1},"modelUsage":{},"permission_denials":[],"session_id":"` + session + `","uuid":"r"}` + "\n")
}
