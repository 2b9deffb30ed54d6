package fakemodel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// apis are the dialects, each tested with the same tables.
var apis = []API{Anthropic, OpenAIResponses, OpenAIChat, Gemini}

// A msg is one message of a test's history.
type msg struct {
	role   string // user, assistant, result
	text   string
	image  bool
	failed bool
}

func user(text string) msg { return msg{role: "user", text: text} }

func toolResult(text string) msg { return msg{role: "result", text: text} }

// A want is what a test looks at in a reply, in neutral terms.
type answer struct {
	status   int
	text     string
	thinking string
	tools    []string // "name args"
	stop     string
	usage    Usage
	failure  string // message of an error, in the stream or instead of it
	deltas   int
	cut      bool // the stream ended without its proper end
}

// shellOf is the shell tool that the dialect's CLI offers.
var shellOf = map[API]string{Anthropic: "Bash", OpenAIResponses: "exec_command", OpenAIChat: "bash", Gemini: "run_shell_command"}

// path is where the dialect is served.
func path(api API, stream bool) string {
	switch api {
	case Anthropic:
		return "/v1/messages?beta=true"
	case OpenAIResponses:
		return "/v1/responses"
	case OpenAIChat:
		return "/v1/chat/completions"
	}
	if stream {
		return "/v1beta/models/fake-model:streamGenerateContent?alt=sse"
	}
	return "/v1beta/models/fake-model:generateContent"
}

type object = map[string]any

// request encodes a history as a request body.
func request(api API, stream bool, tools []string, history ...msg) []byte {
	var list []any
	for _, m := range history {
		list = append(list, message(api, m))
	}
	body := object{"model": "fake-model", "stream": stream}
	var offered []any
	for _, name := range tools {
		switch api {
		case Anthropic:
			offered = append(offered, object{"name": name})
		case OpenAIResponses:
			kind := "function"
			if name == "apply_patch" || name == "exec" {
				kind = "custom"
			}
			offered = append(offered, object{"type": kind, "name": name})
		case OpenAIChat:
			offered = append(offered, object{"type": "function", "function": object{"name": name}})
		case Gemini:
			offered = append(offered, object{"functionDeclarations": []any{object{"name": name}}})
		}
	}
	body["tools"] = offered
	switch api {
	case OpenAIResponses:
		body["input"] = list
		body["client_metadata"] = object{"thread_id": "session-1", "turn_id": "turn-1"}
	case Gemini:
		body["contents"] = list
	case Anthropic:
		body["messages"] = list
		body["metadata"] = object{"user_id": `{"session_id":"session-1"}`}
	default:
		body["messages"] = list
		body["prompt_cache_key"] = "session-1"
	}
	return []byte(toJSON(body))
}

// message encodes one message.
func message(api API, m msg) any {
	switch {
	case m.role == "result":
		switch api {
		case Anthropic:
			return object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": "t", "content": m.text, "is_error": m.failed}}}
		case OpenAIResponses:
			return object{"type": "function_call_output", "call_id": "c", "output": m.text}
		case OpenAIChat:
			return object{"role": "tool", "tool_call_id": "c", "content": m.text}
		}
		return object{"role": "user", "parts": []any{object{"functionResponse": object{"name": "x", "response": object{"output": m.text}}}}}
	case api == Gemini:
		role := m.role
		if role == "assistant" {
			role = "model"
		}
		parts := []any{object{"text": m.text}}
		if m.image {
			parts = append(parts, object{"inlineData": object{"mimeType": "image/png", "data": "AA=="}})
		}
		return object{"role": role, "parts": parts}
	case !m.image:
		return object{"role": m.role, "content": m.text}
	case api == Anthropic:
		return object{"role": m.role, "content": []any{object{"type": "image", "source": object{}}, object{"type": "text", "text": m.text}}}
	case api == OpenAIResponses:
		return object{"type": "message", "role": m.role, "content": []any{object{"type": "input_image"}, object{"type": "input_text", "text": m.text}}}
	}
	return object{"role": m.role, "content": []any{object{"type": "image_url"}, object{"type": "text", "text": m.text}}}
}

// start starts a server that ends with the test.
func start(t *testing.T, opts *Options) *Server {
	t.Helper()
	s, err := Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// soon bounds what happens at once or never.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// post sends body and returns the response; its connection is not reused.
func post(t *testing.T, url string, body []byte) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(soon(t), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// ask sends a history and reads the reply to its end.
func ask(t *testing.T, s *Server, api API, stream bool, tools []string, history ...msg) answer {
	t.Helper()
	res := post(t, s.URL()+path(api, stream), request(api, stream, tools, history...))
	if stream && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return readStream(t, api, res)
	}
	data, err := io.ReadAll(res.Body)
	a := answer{status: res.StatusCode, cut: err != nil}
	if err != nil {
		return a
	}
	readWhole(t, &a, api, data)
	return a
}

// frames yields the events of a stream.
func frames(t *testing.T, r io.Reader, event func(name string, data []byte)) error {
	t.Helper()
	name := ""
	br := bufio.NewReader(r)
	for {
		text, err := br.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		text = strings.TrimSuffix(text, "\n")
		if n, ok := strings.CutPrefix(text, "event: "); ok {
			name = n
		}
		if d, ok := strings.CutPrefix(text, "data: "); ok {
			event(name, []byte(d))
		}
	}
}

// readStream folds an event stream.
func readStream(t *testing.T, api API, res *http.Response) answer {
	t.Helper()
	a := answer{status: res.StatusCode, cut: true}
	fold := folders[api](&a)
	err := frames(t, res.Body, func(name string, data []byte) {
		if string(data) == "[DONE]" {
			a.cut = false
			return
		}
		if !json.Valid(data) {
			t.Fatalf("event %s is not JSON: %q", name, data)
		}
		fold(name, data)
	})
	if err != nil {
		a.cut = true
	}
	return a
}

// folders make the fold function of each dialect.
var folders = map[API]func(*answer) func(name string, data []byte){
	Anthropic: foldMessages, OpenAIResponses: foldResponses, OpenAIChat: foldChat, Gemini: foldGemini,
}

type wireUsage struct {
	Input         int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`
	CacheRead     int `json:"cache_read_input_tokens"`
	Output        int `json:"output_tokens"`
}

func (u wireUsage) usage() Usage {
	return Usage{Input: u.Input, CacheCreation: u.CacheCreation, CacheRead: u.CacheRead, Output: u.Output}
}

func foldMessages(a *answer) func(string, []byte) {
	block := -1
	return func(name string, data []byte) {
		var e struct {
			Type  string
			Index int
			Block struct{ Type, Name, ID string } `json:"content_block"`
			Delta struct {
				Text, Thinking string
				JSON           string `json:"partial_json"`
				Stop           string `json:"stop_reason"`
			}
			Usage wireUsage
			Error struct{ Message string }
		}
		must(json.Unmarshal(data, &e))
		if e.Type != name {
			panic("event name " + name + " is not its type " + e.Type)
		}
		switch e.Type {
		case "content_block_start":
			if block++; e.Index != block {
				panic(fmt.Sprintf("block index %d, want %d", e.Index, block))
			}
			if e.Block.Type == "tool_use" {
				a.tools = append(a.tools, e.Block.Name+" ")
			}
		case "content_block_delta":
			a.deltas++
			a.text += e.Delta.Text
			a.thinking += e.Delta.Thinking
			if e.Delta.JSON != "" {
				a.tools[len(a.tools)-1] += e.Delta.JSON
			}
		case "message_delta":
			a.stop, a.usage = e.Delta.Stop, e.Usage.usage()
		case "message_stop":
			a.cut = false
		case "error":
			a.failure = e.Error.Message
		}
	}
}

// responsesBody is a response object.
type responsesBody struct {
	Status string
	Output []struct {
		Type, Name, Arguments, Input string
		Content, Summary             []struct{ Text string }
	}
	Usage struct {
		Input   int `json:"input_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		Output  int `json:"output_tokens"`
		Outputs struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	}
	Incomplete struct{ Reason string } `json:"incomplete_details"`
	Error      struct{ Code, Message string }
}

// fold takes over the whole response; deltas must have told the same text before.
func (r responsesBody) fold(a *answer) {
	a.text, a.thinking, a.tools = "", "", nil
	for _, it := range r.Output {
		for _, c := range it.Content {
			if it.Type == "message" {
				a.text += c.Text
			}
		}
		for _, c := range it.Summary {
			a.thinking += c.Text
		}
		if it.Name != "" {
			a.tools = append(a.tools, it.Name+" "+it.Arguments+it.Input)
		}
	}
	a.stop = orElse(r.Incomplete.Reason, r.Status)
	a.failure = r.Error.Message
	a.usage = Usage{Input: r.Usage.Input - r.Usage.Details.Cached, CacheRead: r.Usage.Details.Cached, Output: r.Usage.Output, Reasoning: r.Usage.Outputs.Reasoning}
}

func foldResponses(a *answer) func(string, []byte) {
	seq, text := 0, ""
	return func(name string, data []byte) {
		var e struct {
			Type     string
			Seq      int `json:"sequence_number"`
			Delta    string
			Response responsesBody
		}
		must(json.Unmarshal(data, &e))
		if e.Type != name || e.Seq != seq {
			panic(fmt.Sprintf("event %s of type %s has number %d, want %d", name, e.Type, e.Seq, seq))
		}
		seq++
		if e.Delta != "" {
			a.deltas++
		}
		switch e.Type {
		case "response.output_text.delta":
			text += e.Delta
			a.text = text
		case "response.completed", "response.incomplete", "response.failed":
			e.Response.fold(a)
			a.cut = false
			if a.text != text {
				panic("the deltas told " + text + " and the response " + a.text)
			}
		}
	}
}

type chatMessage struct {
	Content   string
	Reasoning string `json:"reasoning_content"`
	Calls     []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// fold adds a message or a delta.
func (m chatMessage) fold(a *answer) {
	a.text += m.Content
	a.thinking += m.Reasoning
	for _, c := range m.Calls {
		if c.ID != "" {
			a.tools = append(a.tools, c.Function.Name+" ")
		}
		a.tools[len(a.tools)-1] += c.Function.Arguments
	}
	if m.Content+m.Reasoning != "" || m.Calls != nil {
		a.deltas++
	}
}

func foldChat(a *answer) func(string, []byte) {
	return func(_ string, data []byte) {
		var e struct {
			Choices []struct {
				Delta, Message chatMessage
				Finish         string `json:"finish_reason"`
			}
			Usage struct {
				Prompt     int `json:"prompt_tokens"`
				Completion int `json:"completion_tokens"`
				Details    struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
				Outputs struct {
					Reasoning int `json:"reasoning_tokens"`
				} `json:"completion_tokens_details"`
			}
			Error struct{ Message string }
		}
		must(json.Unmarshal(data, &e))
		a.failure = e.Error.Message
		for _, c := range e.Choices {
			c.Delta.fold(a)
			c.Message.fold(a)
			a.stop = c.Finish
		}
		u := e.Usage
		a.usage = Usage{Input: u.Prompt - u.Details.Cached, CacheRead: u.Details.Cached, Output: u.Completion, Reasoning: u.Outputs.Reasoning}
	}
}

func foldGemini(a *answer) func(string, []byte) {
	return func(_ string, data []byte) {
		var e struct {
			Candidates []struct {
				Content struct {
					Parts []struct {
						Text    string
						Thought bool
						Call    *struct {
							Name string
							Args json.RawMessage
						} `json:"functionCall"`
					}
				}
				Finish string `json:"finishReason"`
			}
			Usage struct{ PromptTokenCount, CachedContentTokenCount, CandidatesTokenCount, ThoughtsTokenCount int } `json:"usageMetadata"`
			Error struct{ Message string }
		}
		must(json.Unmarshal(data, &e))
		a.failure = e.Error.Message
		for _, c := range e.Candidates {
			for _, p := range c.Content.Parts {
				switch {
				case p.Call != nil:
					a.tools = append(a.tools, p.Call.Name+" "+string(p.Call.Args))
				case p.Thought:
					a.thinking += p.Text
				default:
					a.text += p.Text
				}
				a.deltas++
			}
			a.stop = c.Finish
			a.cut = a.cut && c.Finish == ""
		}
		u := e.Usage
		a.usage = Usage{
			Input: u.PromptTokenCount - u.CachedContentTokenCount, CacheRead: u.CachedContentTokenCount,
			Output: u.CandidatesTokenCount + u.ThoughtsTokenCount, Reasoning: u.ThoughtsTokenCount,
		}
	}
}

// readWhole reads a reply that is one JSON value.
func readWhole(t *testing.T, a *answer, api API, data []byte) {
	t.Helper()
	var failed struct {
		Error *struct{ Message string }
	}
	must(json.Unmarshal(data, &failed))
	if failed.Error != nil && api != OpenAIResponses || a.status != http.StatusOK {
		a.failure = failed.Error.Message
		return
	}
	switch api {
	case Anthropic:
		var m struct {
			Content []struct {
				Type, Text, Thinking, Name string
				Input                      json.RawMessage
			}
			Stop  string `json:"stop_reason"`
			Usage wireUsage
		}
		must(json.Unmarshal(data, &m))
		for _, b := range m.Content {
			a.text += b.Text
			a.thinking += b.Thinking
			if b.Type == "tool_use" {
				a.tools = append(a.tools, b.Name+" "+string(b.Input))
			}
		}
		a.stop, a.usage = m.Stop, m.Usage.usage()
	case OpenAIResponses:
		var r responsesBody
		must(json.Unmarshal(data, &r))
		r.fold(a)
	default:
		folders[api](a)("", data)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
