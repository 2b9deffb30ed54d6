package acp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// agentVariable turns this test binary into a scripted ACP agent. Its value is an agentConfig as JSON.
const agentVariable = "ACP_TEST_AGENT"

// agentConfig is how the scripted agent is.
type agentConfig struct {
	Version    int    // 1 when 0
	HangAt     string // a method that is never answered
	ExitAt     string // a method at which it exits with status 3
	Auth       bool   // session/new needs a login
	AuthTypes  string // the type of its login method
	NoResume   bool   // session/resume is not offered
	NoLoad     bool
	LateReplay bool // the history comes after the answer to session/load
	FailResume bool // offered, but answered with an error
	FailLoad   bool
	Legacy     bool // modes and models in place of config options
	Bare       bool // neither
	RefuseMode bool
	NoImages   bool
	NoContext  bool
	NoHTTP     bool
	Banner     bool // junk before the first message
	Early      bool // updates before session/new is answered
	Reexec     bool // serve in a child of its own, as gemini and qwen do
	Stubborn   bool // ignores cancel, end of input and SIGTERM
	CancelEnd  string
	Steer      bool // it has the steering extension
}

// A scriptedAgent plays the lines of each prompt.
type scriptedAgent struct {
	cfg     agentConfig
	mu      sync.Mutex // of writing, and of what follows
	nextID  int
	answers map[int]chan json.RawMessage
	cancel  chan struct{}
	mode    string
	model   string
	thought string
	session string
	servers string // as they came
	dirs    string
	turns   int
}

type agentMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func serveAgent(config string) {
	a := &scriptedAgent{answers: map[int]chan json.RawMessage{}, mode: "auto", model: "small", thought: "low"}
	if err := json.Unmarshal([]byte(config), &a.cfg); err != nil {
		panic(err)
	}
	if a.cfg.Stubborn {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	}
	if a.cfg.Banner {
		fmt.Print("Welcome!\r\n\n\x1b[33mwarning:\x1b[0m no config\n{\"level\":\"info\"}\n[1,2]\n42\nnull\n{\"broken\": \n{\"id\":null,\"error\":{\"code\":-1,\"message\":\"x\"}}\n")
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		var m agentMessage
		if json.Unmarshal(line, &m) == nil {
			a.take(m)
		}
		if err != nil {
			if a.cfg.Stubborn {
				select {}
			}
			return
		}
	}
}

func (a *scriptedAgent) take(m agentMessage) {
	if m.Method == "" {
		var id int
		if json.Unmarshal(m.ID, &id) == nil {
			a.mu.Lock()
			ch := a.answers[id]
			delete(a.answers, id)
			a.mu.Unlock()
			if ch != nil {
				if m.Error != nil {
					ch <- m.Error
				} else {
					ch <- m.Result
				}
			}
		}
		return
	}
	switch m.Method {
	case a.cfg.HangAt:
		fmt.Fprintln(os.Stderr, "I hang at "+m.Method)
		return
	case a.cfg.ExitAt:
		fmt.Fprintln(os.Stderr, "cannot go on at "+m.Method)
		os.Exit(3)
	}
	a.handle(m)
}

func (a *scriptedAgent) handle(m agentMessage) {
	var p struct {
		SessionID string
		Cwd       string
		MethodID  string
		ModeID    string
		ModelID   string
		ConfigID  string
		Value     string
		Servers   json.RawMessage `json:"mcpServers"`
		Dirs      json.RawMessage `json:"additionalDirectories"`
		Prompt    []map[string]any
	}
	_ = json.Unmarshal(m.Params, &p)
	switch m.Method {
	case "initialize":
		a.initialize(m.ID)
	case "authenticate":
		if p.MethodID != "key" {
			a.fail(m.ID, -32602, "no such method", nil)
			return
		}
		a.cfg.Auth = false
		a.answer(m.ID, map[string]any{})
	case "session/new":
		if a.cfg.Auth {
			a.fail(m.ID, -32000, "Authentication required", nil)
			return
		}
		a.session = "s-" + strconv.Itoa(os.Getpid())
		a.servers, a.dirs = string(p.Servers), string(p.Dirs)
		a.saveSession(p.Cwd, "")
		if a.cfg.Early {
			a.update(map[string]any{"sessionUpdate": "session_info_update", "title": "early title"})
			a.notify("_auth/status_update", map[string]any{"kind": "key"})
		}
		a.answer(m.ID, a.state(true))
	case "session/resume", "session/load":
		a.resume(m, p.SessionID, p.Cwd)
	case "session/set_mode":
		a.set(m.ID, &a.mode, p.ModeID)
	case "session/set_model":
		a.set(m.ID, &a.model, p.ModelID)
	case "session/set_config_option":
		if p.ConfigID == "mode" && a.cfg.RefuseMode {
			a.fail(m.ID, -32603, "Internal error", map[string]any{"details": "folder not trusted"})
			return
		}
		if p.ConfigID == "mode" {
			a.update(map[string]any{"sessionUpdate": "current_mode_update", "currentModeId": p.Value})
		}
		a.set(m.ID, map[string]*string{"mode": &a.mode, "model": &a.model, "thought": &a.thought}[p.ConfigID], p.Value)
	case "session/cancel":
		a.mu.Lock()
		if a.cancel != nil && !a.cfg.Stubborn {
			close(a.cancel)
			a.cancel = nil
		}
		a.mu.Unlock()
	case "_session/steering":
		a.mu.Lock()
		running := a.cancel != nil
		a.mu.Unlock()
		if !running || !a.cfg.Steer {
			a.answer(m.ID, map[string]any{"outcome": "promptRequired"})
			return
		}
		a.answer(m.ID, map[string]any{"outcome": "injected"})
		a.say("steered: " + fmt.Sprint(p.Prompt[0]["text"]))
	case "session/prompt":
		cancel := make(chan struct{})
		a.mu.Lock()
		a.cancel = cancel
		a.turns++
		a.mu.Unlock()
		go a.prompt(m.ID, p.Prompt, cancel)
	default:
		if m.ID != nil {
			a.fail(m.ID, -32601, "Method not found", nil)
		}
	}
}

func (a *scriptedAgent) initialize(id json.RawMessage) {
	v := a.cfg.Version
	if v == 0 {
		v = 1
	}
	session := map[string]any{"additionalDirectories": map[string]any{}}
	if !a.cfg.NoResume {
		session["resume"] = map[string]any{}
	}
	method := map[string]any{"id": "key", "name": "API key"}
	if a.cfg.AuthTypes != "" {
		method["type"] = a.cfg.AuthTypes
	}
	a.answer(id, map[string]any{
		"protocolVersion": v, "agentInfo": map[string]any{"name": "scripted", "version": 7}, // a wrong type must not matter
		"authMethods": []any{method}, "_meta": map[string]any{"steering": map[string]any{"supported": a.cfg.Steer}},
		"agentCapabilities": map[string]any{
			"loadSession": !a.cfg.NoLoad, "sessionCapabilities": session,
			"promptCapabilities": map[string]any{"image": !a.cfg.NoImages, "audio": true, "embeddedContext": !a.cfg.NoContext},
			"mcpCapabilities":    map[string]any{"http": !a.cfg.NoHTTP},
		},
	})
}

// saveSession keeps the history where a later process finds it.
func (a *scriptedAgent) saveSession(cwd, text string) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), a.session+".history"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, text)
		f.Close()
	}
}

func (a *scriptedAgent) resume(m agentMessage, session, cwd string) {
	load := m.Method == "session/load"
	history, err := os.ReadFile(filepath.Join(os.TempDir(), session+".history"))
	if err != nil || load && a.cfg.FailLoad || !load && a.cfg.FailResume {
		a.fail(m.ID, -32603, "Internal error", map[string]any{"details": "no such session"})
		return
	}
	a.session = session
	a.turns = strings.Count(string(history), "turn")
	if load && a.cfg.LateReplay {
		a.answer(m.ID, nil)
		time.Sleep(50 * time.Millisecond)
		a.replay()
		return
	}
	if load {
		a.replay()
		a.answer(m.ID, nil)
		return
	}
	a.answer(m.ID, a.state(false))
}

func (a *scriptedAgent) replay() {
	a.update(map[string]any{"sessionUpdate": "user_message_chunk", "content": textContent("old question")})
	a.update(map[string]any{"sessionUpdate": "agent_message_chunk", "content": textContent("old answer")})
	a.update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": "old", "title": "old", "status": "completed"})
}

// state is what a session has to choose from.
func (a *scriptedAgent) state(withID bool) map[string]any {
	r := map[string]any{}
	if withID {
		r["sessionId"] = a.session
	}
	choice := func(ids ...string) (options, modes, models []any) {
		for _, id := range ids {
			options = append(options, map[string]any{"value": id, "name": "The " + id})
			modes = append(modes, map[string]any{"id": id, "name": "The " + id})
			models = append(models, map[string]any{"modelId": id, "name": "The " + id})
		}
		return
	}
	modeOptions, modes, _ := choice("default", "acceptEdits", "plan", "auto")
	modelOptions, _, models := choice("small", "large")
	thoughtOptions, _, _ := choice("low", "high")
	switch {
	case a.cfg.Bare:
	case a.cfg.Legacy:
		r["modes"] = map[string]any{"currentModeId": a.mode, "availableModes": modes}
		r["models"] = map[string]any{"currentModelId": a.model, "availableModels": models}
	default:
		r["configOptions"] = []any{
			map[string]any{"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": a.mode, "options": modeOptions},
			map[string]any{"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": a.model,
				"options": []any{map[string]any{"group": "g", "name": "G", "options": modelOptions}}},
			map[string]any{"id": "thought", "name": "Thinking", "category": "thought_level", "type": "select", "currentValue": a.thought, "options": thoughtOptions},
			map[string]any{"id": "new", "type": "hologram", "currentValue": map[string]any{}},
			"not even an object",
		}
	}
	return r
}

func (a *scriptedAgent) set(id json.RawMessage, what *string, value string) {
	if what == nil {
		a.fail(id, -32602, "no such option", nil)
		return
	}
	*what = value
	a.answer(id, a.state(false))
}

func textContent(s string) map[string]any { return map[string]any{"type": "text", "text": s} }

func (a *scriptedAgent) write(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func (a *scriptedAgent) answer(id json.RawMessage, result any) {
	a.write(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

func (a *scriptedAgent) fail(id json.RawMessage, code int, message string, data any) {
	a.write(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message, "data": data}})
}

func (a *scriptedAgent) notify(method string, params any) {
	a.write(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

func (a *scriptedAgent) update(u map[string]any) {
	a.notify("session/update", map[string]any{"sessionId": a.session, "update": u})
}

func (a *scriptedAgent) say(text string) {
	a.update(map[string]any{"sessionUpdate": "agent_message_chunk", "content": textContent(text)})
}

// ask sends a request, whose ids count from 0, and waits for the answer.
func (a *scriptedAgent) ask(method string, params any) (id int, answer chan json.RawMessage) {
	a.mu.Lock()
	id = a.nextID
	a.nextID++
	ch := make(chan json.RawMessage, 1)
	a.answers[id] = ch
	a.mu.Unlock()
	a.write(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	return id, ch
}
