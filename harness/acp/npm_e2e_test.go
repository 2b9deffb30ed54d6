package acp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentserver/harness"
	"agentserver/harness/acp"
	"agentserver/protocol"
)

// TestRealAgents runs real agents against the scripted model.
func TestRealAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("installs agents from npm; run without -short")
	}
	t.Parallel()
	for _, a := range chosenAgents(t) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			r, _ := a.rig(t)
			r.spec.Config.PermissionMode = protocol.ModeDefault
			r.open()
			t.Run("text", func(t *testing.T) { a.text(t, r) })
			t.Run("tool", func(t *testing.T) { a.tool(t, r) })
			t.Run("refused", func(t *testing.T) { a.refused(t, r) })
			t.Run("cancel", func(t *testing.T) { a.cancel(t, r) })
			t.Run("cancel while it asks", func(t *testing.T) { a.cancelAsking(t, r) })
			t.Run("steering", func(t *testing.T) { a.steer(t, r) })
			t.Run("failure", func(t *testing.T) { a.failure(t, r) })
			if thorough() {
				t.Run("resume", func(t *testing.T) { a.resume(t, r) })
			}
			if thorough() || !a.slow {
				t.Run("crash and resume", func(t *testing.T) { a.crash(t, r) })
			}
		})
	}
}

func (a *realAgent) run() string {
	if a.shell != "" {
		return a.shell
	}
	return "TOOL bash"
}

func (a *realAgent) text(t *testing.T, r *rig) {
	res := r.turn("SAY hello from the model")
	wantEnd(t, res, protocol.StopEndTurn)
	wantText(t, res, "hello from the model")
	if res.started == nil || res.started.NativeSessionID == "" || len(res.failures) != 0 {
		t.Errorf("started %+v, failures %+v", res.started, res.failures)
	}
}

func (a *realAgent) tool(t *testing.T, r *rig) {
	res := r.turn(a.run()+" echo made > made.txt && cat made.txt", "SAY all done")
	wantEnd(t, res, protocol.StopEndTurn)
	wantText(t, res, "all done")
	if (len(res.asked) > 0) != a.asks {
		t.Errorf("asked %d times", len(res.asked))
	}
	if got, err := os.ReadFile(filepath.Join(r.spec.Config.Cwd, "made.txt")); string(got) != "made\n" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if done, ok := res.state(t, 0).(*protocol.ToolCompleted); !ok || a.name != "gemini" && !strings.Contains(done.Output, "made") {
		t.Errorf("tool %+v", res.tools[0].State)
	}
}

func (a *realAgent) refused(t *testing.T, r *rig) {
	if !a.asks {
		return
	}
	r.onPermission = func(harness.Permission) harness.Decision { return harness.Decision{} }
	defer func() { r.onPermission = nil }()
	res := r.turn(a.run()+" echo x > refused.txt", "SAY a pity")
	if res.exit != nil || res.end.StopReason == protocol.StopError {
		t.Errorf("ended with %+v, %+v", res.end, res.exit)
	}
	if _, err := os.Stat(filepath.Join(r.spec.Config.Cwd, "refused.txt")); err == nil {
		t.Error("the refused command ran")
	}
	switch s := res.state(t, 0).(type) {
	case *protocol.ToolFailed, *protocol.ToolCancelled:
	default:
		t.Errorf("tool %+v", s)
	}
}

func (a *realAgent) cancel(t *testing.T, r *rig) {
	r.send("SLOW 1000 20")
	r.until("text", isText)
	r.interrupt()
	res := r.finish()
	wantEnd(t, res, protocol.StopCancelled)
	a.text(t, r)
}

func (a *realAgent) cancelAsking(t *testing.T, r *rig) {
	if !a.asks {
		return
	}
	r.onPermission = func(harness.Permission) harness.Decision { return harness.Decision{Message: "no answer"} }
	r.send(a.run() + " echo y > asked.txt")
	r.until("a request", func(e harness.Event) bool { _, ok := e.(harness.Permission); return ok })
	r.interrupt()
	wantEnd(t, r.finish(), protocol.StopCancelled)
	r.onPermission = nil
	if _, err := os.Stat(filepath.Join(r.spec.Config.Cwd, "asked.txt")); err == nil {
		t.Error("the command ran")
	}
	a.text(t, r)
}

func (a *realAgent) failure(t *testing.T, r *rig) {
	res := r.turn("ERR badreq no such thing")
	wantEnd(t, res, protocol.StopError)
	if res.end.Error == nil || res.end.Error.Message == "" {
		t.Errorf("error %+v", res.end.Error)
	}
	t.Logf("error: %+v", res.end.Error)
	a.text(t, r)
}

// wantResumed checks that the session went on, and that the driver says so.
func (a *realAgent) wantResumed(t *testing.T, r *rig, res result) {
	t.Helper()
	resumed := res.started.Resumed
	if resumed == nil || !a.fickle && *resumed != a.resumes || *resumed != (res.started.NativeSessionID == r.spec.Resume) {
		t.Errorf("started %+v, want it resumed: %v", res.started, a.resumes)
	}
}

// resume goes on with the session in another process, as an engine does whose session was idle for long.
func (a *realAgent) resume(t *testing.T, r *rig) {
	native := r.turn("SAY before").started.NativeSessionID
	r.close()
	r.spec.Resume = native
	r.open()
	res := r.turn("SAY after")
	wantEnd(t, res, protocol.StopEndTurn)
	a.wantResumed(t, r, res)
	if strings.Contains(res.text, "before") || !strings.HasSuffix(res.text, "after") {
		t.Errorf("a replayed history became output: %q", res.text)
	}
}

func (a *realAgent) crash(t *testing.T, r *rig) {
	r.send("SLOW 1000 20")
	started := r.until("the start", func(e harness.Event) bool { _, ok := e.(harness.SessionStarted); return ok }).(harness.SessionStarted)
	r.until("text", isText)
	r.s.(harness.Killer).Kill()
	res := r.finish()
	if res.exit == nil || res.exit.Error == nil || res.exit.Error.Category != protocol.CategoryProcessExit {
		t.Fatalf("exit %+v", res.exit)
	}
	r.close()
	r.spec.Resume = started.NativeSessionID
	r.open()
	after := r.turn("SAY back again")
	wantEnd(t, after, protocol.StopEndTurn)
	wantText(t, after, "back again")
	a.wantResumed(t, r, after)
	if strings.Contains(after.text, "hello from") || strings.Contains(after.text, "word") || !strings.HasSuffix(after.text, "back again") {
		t.Errorf("a replayed history became output: %q", after.text)
	}
}

// steer adds a message to a turn of an agent that has the extension.
func (a *realAgent) steer(t *testing.T, r *rig) {
	if !r.opts.Steering {
		return
	}
	r.send("SLOW 1000 20")
	r.until("text", isText)
	ok, err := r.s.(harness.Steerer).Steer(t.Context(), protocol.Text("SAY steered"))
	if err != nil || !ok {
		t.Errorf("not taken: %v", err)
	}
	r.interrupt()
	wantEnd(t, r.finish(), protocol.StopCancelled)
	a.text(t, r)
}

// TestRealExampleAgent runs the example agent of the protocol's SDK, which needs no model.
func TestRealExampleAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("installs an agent from npm; run without -short")
	}
	t.Parallel()
	program := filepath.Join(npm(t, "@agentclientprotocol/sdk@1.9.0"), "@agentclientprotocol/sdk/dist/examples/agent.js")
	r := newRig(t, acp.Options{Command: []string{node(t, 20), program}}).open()
	res := r.turn("hello")
	wantEnd(t, res, protocol.StopEndTurn)
	if len(res.tools) != 2 || len(res.asked) != 1 || !strings.Contains(res.text, "Perfect!") {
		t.Errorf("text %q, %d tools, asked %d times", res.text, len(res.tools), len(res.asked))
	}
	r.send("hello")
	r.until("text", isText)
	r.interrupt()
	wantEnd(t, r.finish(), protocol.StopCancelled) // the agent itself says end_turn
}

// TestRealMCP gives real agents an MCP server of the turn's configuration, whose tool the model calls.
func TestRealMCP(t *testing.T) {
	if testing.Short() {
		t.Skip("installs agents from npm; run without -short")
	}
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range chosenAgents(t) {
		if a.mcpTool == "" || a.slow && !thorough() {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			r, _ := a.rig(t)
			r.spec.Config.PermissionMode = protocol.ModeDefault
			r.spec.Config.MCPServers = map[string]protocol.MCPServer{"test": {Type: protocol.MCPStdio, Command: exe, Env: map[string]string{mcpVariable: "the secret word"}}}
			r.open()
			res := r.turn("TOOL " + a.mcpTool + " {}")
			wantEnd(t, res, protocol.StopEndTurn)
			if done, ok := res.state(t, 0).(*protocol.ToolCompleted); !ok || !strings.Contains(done.Output+res.text, "the secret word") {
				t.Errorf("tool %+v, text %q", res.tools[0].State, res.text)
			}
		})
	}
}
