package protocol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"agentserver/protocol"
)

func TestCheckTurnStart(t *testing.T) {
	const ok = `"config":{"harness":"mock","cwd":"/w"}`
	for name, c := range map[string]struct{ in, path string }{
		"a string":             {`{"input":"hi",` + ok + `}`, ""},
		"a list":               {`{"input":[{"type":"text","text":"hi"}],` + ok + `}`, ""},
		"empty string":         {`{"input":"",` + ok + `}`, "input"},
		"empty list":           {`{"input":[],` + ok + `}`, "input"},
		"no input":             {`{` + ok + `}`, "input"},
		"empty text":           {`{"input":[{"type":"text","text":""}],` + ok + `}`, "input[0]"},
		"unknown item":         {`{"input":[{"type":"video"}],` + ok + `}`, "input[0].type"},
		"image without source": {`{"input":[{"type":"image","mimeType":"image/png"}],` + ok + `}`, "input[0]"},
		"image with both":      {`{"input":[{"type":"image","mimeType":"image/png","url":"u","data":"QUJD"}],` + ok + `}`, "input[0]"},
		"image, no mime type":  {`{"input":[{"type":"image","data":"QUJD"}],` + ok + `}`, "input[0].mimeType"},
		"not base64":           {`{"input":[{"type":"file","data":"!","mimeType":"a/b"}],` + ok + `}`, "input[0].data"},
		"range outside":        {`{"input":[{"type":"text","text":"é","elements":[{"byteRange":[0,3]}]}],` + ok + `}`, "input[0].elements[0].byteRange"},
		"range within a rune":  {`{"input":[{"type":"text","text":"é","elements":[{"byteRange":[0,1]}]}],` + ok + `}`, "input[0].elements[0].byteRange"},
		"control char in id":   {`{"sessionId":"a\u0007","input":"x",` + ok + `}`, "sessionId"},
		"id too long":          {`{"turnId":"` + strings.Repeat("x", 257) + `","input":"x",` + ok + `}`, "turnId"},
		"longest id":           {`{"turnId":"` + strings.Repeat("x", 256) + `","input":"x",` + ok + `}`, ""},
		"no harness":           {`{"input":"x","config":{"cwd":"/w"}}`, "config.harness"},
		"relative cwd":         {`{"input":"x","config":{"harness":"m","cwd":"w"}}`, "config.cwd"},
		"thinking level":       {`{"input":"x","config":{"harness":"m","cwd":"/w","thinkingLevel":"max"}}`, "config.thinkingLevel"},
		"permission mode":      {`{"input":"x","config":{"harness":"m","cwd":"/w","permissionMode":"yolo"}}`, "config.permissionMode"},
		"zero turns":           {`{"input":"x","config":{"harness":"m","cwd":"/w","maxTurns":0}}`, "config.maxTurns"},
		"relative directory":   {`{"input":"x","config":{"harness":"m","cwd":"/w","additionalDirectories":["x"]}}`, "config.additionalDirectories[0]"},
		"env name":             {`{"input":"x","config":{"harness":"m","cwd":"/w","env":{"A=B":"c"}}}`, "config.env"},
		"env NUL":              {`{"input":"x","config":{"harness":"m","cwd":"/w","env":{"A":"\u0000"}}}`, "config.env"},
		"MCP type":             {`{"input":"x","config":{"harness":"m","cwd":"/w","mcpServers":{"a":{"type":"ws"}}}}`, "config.mcpServers.a"},
		"MCP without command":  {`{"input":"x","config":{"harness":"m","cwd":"/w","mcpServers":{"a":{"type":"stdio"}}}}`, "config.mcpServers.a"},
		"MCP url":              {`{"input":"x","config":{"harness":"m","cwd":"/w","mcpServers":{"a":{"type":"http","url":"file:///etc"}}}}`, "config.mcpServers.a"},
		"MCP of two types":     {`{"input":"x","config":{"harness":"m","cwd":"/w","mcpServers":{"a":{"type":"http","url":"http://a","command":"x"}}}}`, "config.mcpServers.a"},
		"unknown fields pass":  {`{"input":"x","future":1,"config":{"harness":"m","cwd":"/w","other":true}}`, ""},
	} {
		var p protocol.TurnStartParams
		if err := json.Unmarshal([]byte(c.in), &p); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		errs := p.Check()
		switch {
		case c.path == "" && len(errs) > 0:
			t.Errorf("%s: %v", name, errs)
		case c.path != "" && (len(errs) != 1 || errs[0].Path != c.path || errs[0].Message == ""):
			t.Errorf("%s: got %v, want one error at %s", name, errs, c.path)
		}
	}
}

func TestInputKeepsItsForm(t *testing.T) {
	for _, in := range []string{`"a<b"`, `[{"type":"text","text":"a<b"}]`} {
		var p protocol.Input
		if err := json.Unmarshal([]byte(in), &p); err != nil {
			t.Fatal(err)
		}
		if out := encode(t, p); string(out) != in {
			t.Errorf("got %s, want %s", out, in)
		}
	}
}

func TestCheckOthers(t *testing.T) {
	for name, errs := range map[string][]protocol.FieldError{
		"version":   (&protocol.InitializeParams{}).Check(),
		"cancel":    (&protocol.TurnCancelParams{}).Check(),
		"steer":     (&protocol.TurnSteerParams{SessionID: "s", Input: protocol.Text("x")}).Check(),
		"respond":   (&protocol.PermissionRespondParams{SessionID: "s", RequestID: "r"}).Check(),
		"close":     (&protocol.SessionParams{}).Check(),
		"replay":    (&protocol.EventsReplayParams{SessionID: "s"}).Check(),
		"limit":     (&protocol.EventsReplayParams{SessionID: "s", FromSeq: 1, Limit: -1}).Check(),
		"subscribe": (&protocol.EventsSubscribeParams{SessionIDs: []protocol.SessionID{""}}).Check(),
	} {
		if len(errs) != 1 {
			t.Errorf("%s: got %v, want one error", name, errs)
		}
	}
	if errs := (&protocol.EventsSubscribeParams{}).Check(); errs != nil {
		t.Errorf("the firehose: %v", errs)
	}
}

func TestSecrets(t *testing.T) {
	c := protocol.RunConfig{APIKey: "k1", Env: map[string]string{"A": "k2", "B": ""}, MCPServers: map[string]protocol.MCPServer{
		"a": {Env: map[string]string{"X": "k3"}, Headers: map[string]string{"Y": "k4"}}}}
	if got := c.Secrets(); len(got) != 4 {
		t.Errorf("got %d secrets, want 4", len(got))
	}
}

func TestIDs(t *testing.T) {
	if got := protocol.EchoMessageID("t1"); got != "echo-t1" {
		t.Errorf("got %q", got)
	}
	if got := protocol.EchoPartID("t1", 2); got != "echo-t1-2" {
		t.Errorf("got %q", got)
	}
	uuid7 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	a, b := protocol.NewID(), protocol.NewID()
	if !uuid7.MatchString(a) || a >= b {
		t.Errorf("%s, %s: want UUIDv7 in rising order", a, b)
	}
}

func TestErrors(t *testing.T) {
	wrapped := fmt.Errorf("starting: %w", protocol.TurnActive("t1"))
	if !errors.Is(wrapped, protocol.ErrTurnActive) || errors.Is(wrapped, protocol.ErrTurnConflict) {
		t.Error("errors.Is must compare codes")
	}
	if e := protocol.AsError(wrapped); e.Code != protocol.CodeTurnActive || string(e.Data) != `{"turnId":"t1"}` || !strings.HasPrefix(e.Message, "starting: ") {
		t.Errorf("got %+v", e)
	}
	if e := protocol.AsError(errors.New("x")); e.Code != protocol.CodeInternalError {
		t.Errorf("got %+v", e)
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		status int
		text   string
		want   protocol.ErrorCategory
	}{
		{401, "Invalid API key · Fix external API key", protocol.CategoryAuth},
		{403, "Failed to authenticate. API Error: 403", protocol.CategoryAuth},
		{0, "Not logged in · Please run /login", protocol.CategoryAuth},
		{402, "", protocol.CategoryUsageLimit},
		{400, "Credit balance is too low", protocol.CategoryUsageLimit},
		{0, "You've hit your usage limit.", protocol.CategoryUsageLimit},
		{429, "API Error: Request rejected (429)", protocol.CategoryRateLimit},
		{529, "Overloaded", protocol.CategoryRateLimit},
		{0, "Repeated 529 Overloaded errors", protocol.CategoryRateLimit},
		{400, "Prompt is too long · 210000 tokens", protocol.CategoryContextLimit},
		{0, "Your input exceeds the context window of this model", protocol.CategoryContextLimit},
		{404, "There's an issue with the selected model (x)", protocol.CategoryInvalidRequest},
		{400, "bad", protocol.CategoryInvalidRequest},
		{0, "No conversation found with session ID: x", protocol.CategoryInvalidRequest},
		{500, "Internal server error", protocol.CategoryInternal},
		{503, "", protocol.CategoryNetwork},
		{0, "API Error: Unable to connect to API (ConnectionRefused)", protocol.CategoryNetwork},
		{0, "stream disconnected before completion", protocol.CategoryNetwork},
		{0, "Request was aborted.", protocol.CategoryAbort},
		{0, "", protocol.CategoryInternal},
	} {
		if got := protocol.Classify(c.status, c.text); got != c.want {
			t.Errorf("Classify(%d, %q) = %s, want %s", c.status, c.text, got, c.want)
		}
	}
}

func TestMeta(t *testing.T) {
	m := protocol.Meta(`{ "a/b" : 1.0 }`).With("c/d", "<x>").With("a/b", true)
	if string(m) != `{"c/d":"<x>","a/b":true}` || m.GetString("c/d") != "<x>" || m.Get("none") != nil {
		t.Errorf("got %s", m)
	}
}
