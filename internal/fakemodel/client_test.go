package fakemodel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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
