package fakemodel

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestGateHoldsAReplyUntilReleased(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			s := start(t, nil)
			got := make(chan answer, 1)
			var wg sync.WaitGroup
			defer wg.Wait()
			wg.Go(func() { got <- ask(t, s, api, true, nil, user("GATE door\nSAY !")) })
			if err := s.WaitGate(soon(t), "door"); err != nil {
				t.Fatal(err)
			}
			select {
			case a := <-got:
				t.Fatalf("the reply ended before the release: %+v", a)
			default:
			}
			s.Release("door")
			if a := <-got; a.text != "before door after door!" || a.cut {
				t.Errorf("text %q, cut %t", a.text, a.cut)
			}
			// An open gate stays open.
			if a := ask(t, s, api, true, nil, user("GATE door")); a.text != "before door after door" {
				t.Errorf("text %q at the open gate", a.text)
			}
		})
	}
}

func TestGateSendsWhatComesBefore(t *testing.T) {
	s := start(t, nil)
	res := post(t, s.URL()+"/v1/messages", request(Anthropic, true, nil, user("GATE door")))
	buf := make([]byte, 64<<10)
	var seen strings.Builder
	for !strings.Contains(seen.String(), `"text":"oor"`) { // the last delta before the gate
		n, err := res.Body.Read(buf)
		if err != nil {
			t.Fatalf("the stream ended with %v before the text came: %s", err, seen.String())
		}
		seen.Write(buf[:n])
	}
	s.Release("door")
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
}

// TestClientThatGoesAway is what an interrupted turn looks like from here.
func TestClientThatGoesAway(t *testing.T) {
	for _, script := range []string{"GATE door", "HANG", "HANG some text", "SLOW 1000"} {
		t.Run(script, func(t *testing.T) {
			s := start(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+path(Anthropic, true), bytes.NewReader(request(Anthropic, true, nil, user(script))))
			if err != nil {
				t.Fatal(err)
			}
			req.Close = true
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			cancel()
			r, err := s.WaitRequest(soon(t), func(r Request) bool { return r.Done })
			if err != nil {
				t.Fatal(err)
			}
			if r.Err == nil || r.Script != script {
				t.Errorf("request %q ended with %v, want an error", r.Script, r.Err)
			}
			if u := s.Usage(); len(u) != 1 || u[0].Complete {
				t.Errorf("usage %+v, want one incomplete call", u)
			}
			if sum := s.TotalUsage("", ""); sum != (Usage{}) {
				t.Errorf("total %+v of no complete call", sum)
			}
		})
	}
}

func TestCloseEndsEveryReply(t *testing.T) {
	s := start(t, nil)
	var wg sync.WaitGroup
	for _, script := range []string{"HANG", "GATE door", "SLOW 1000 1000", "HANG text"} {
		wg.Go(func() {
			res, err := http.Post(s.URL()+path(Anthropic, true), "application/json", bytes.NewReader(request(Anthropic, true, nil, user(script))))
			if err != nil {
				return // closed before the head of the reply was sent
			}
			defer res.Body.Close()
			if _, err := io.Copy(io.Discard, res.Body); err == nil {
				t.Errorf("%s ended properly", script)
			}
		})
	}
	if _, err := s.WaitCalls(soon(t), 4); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitGate(soon(t), "door"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	wg.Wait()
	s.Close()
	if err := s.WaitGate(t.Context(), "other"); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("waiting on a closed server: %v", err)
	}
}

func TestWaitsGiveUp(t *testing.T) {
	s := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.WaitRequest(ctx, func(Request) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitRequest: %v", err)
	}
	if _, err := s.WaitCalls(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitCalls: %v", err)
	}
	if err := s.WaitGate(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitGate: %v", err)
	}
}

func TestRequestsAreRecorded(t *testing.T) {
	s := start(t, nil)
	body := request(Anthropic, true, nil, user("SAY hi"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/messages?beta=true", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("X-Api-Key", Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	r, err := s.WaitRequest(soon(t), func(r Request) bool { return r.Done })
	if err != nil {
		t.Fatal(err)
	}
	if r.N != 1 || r.Call != 1 || r.API != Anthropic || r.Method != "POST" || r.Path != "/v1/messages" || r.Query != "beta=true" ||
		r.Header.Get("X-Api-Key") != Key || r.Session != "session-1" || r.Turn != "1" || r.Script != "SAY hi" || r.Size != len(body) || r.Err != nil {
		t.Errorf("recorded %+v", r)
	}
	var decoded struct{ Model string }
	if err := r.Decode(&decoded); err != nil || decoded.Model != "fake-model" {
		t.Errorf("decoded %+v, %v", decoded, err)
	}
	if err := (Request{}).Decode(&decoded); err == nil {
		t.Error("a request without a body decodes")
	}
}

func TestUsageIsReportedAndSummed(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			s := start(t, nil)
			want := DefaultUsage
			want.Output = 3
			if a := ask(t, s, api, true, nil, user("SAY 0123456789")); a.usage.Output != 3 || a.usage.CacheRead != 3 || a.usage.Input+a.usage.CacheCreation != 120 {
				t.Errorf("reported %+v", a.usage)
			}
			a := ask(t, s, api, false, nil, user("SAY x"), user("USAGE 1000 - 50 42 7\nSAY y"))
			if a.usage.Output != 42 || a.usage.CacheRead != 50 || a.usage.Input+a.usage.CacheCreation != 1020 {
				t.Errorf("reported %+v of the scripted usage", a.usage)
			}
			if api != Anthropic && a.usage.Reasoning != 7 {
				t.Errorf("reported %d reasoning tokens", a.usage.Reasoning)
			}
			second := Usage{Input: 1000, CacheCreation: 20, CacheRead: 50, Output: 42, Reasoning: 7}
			if got := s.TotalUsage("", ""); got != want.Add(second) {
				t.Errorf("total %+v, want %+v", got, want.Add(second))
			}
			log := s.Usage()
			if len(log) != 2 || !log[0].Complete || log[0].API != api || log[0].Model != "fake-model" || log[1].Call != 2 {
				t.Fatalf("log %+v", log)
			}
			if api != Gemini && log[0].Session != "session-1" {
				t.Errorf("session %q", log[0].Session)
			}
			if api != OpenAIResponses {
				if got := s.TotalUsage(log[1].Session, "2"); got != second {
					t.Errorf("second turn %+v, want %+v", got, second)
				}
			}
		})
	}
}

func TestUsageOfEveryRound(t *testing.T) {
	s := start(t, nil)
	script := user("USAGE 7 0 0 5\nTOOL bash a\nSAY end")
	ask(t, s, Anthropic, true, []string{"Bash"}, script)
	ask(t, s, Anthropic, true, []string{"Bash"}, script, toolResult("ok"))
	if got, want := s.TotalUsage("session-1", "1"), (Usage{Input: 14, Output: 10}); got != want {
		t.Errorf("turn used %+v, want %+v", got, want)
	}
}

func TestOptions(t *testing.T) {
	s := start(t, &Options{Usage: Usage{Input: 1, Output: 2}, Header: http.Header{"X-Limit": {"9"}}, ChunkDelay: time.Millisecond, MaxBody: 1 << 10})
	res := post(t, s.URL()+"/v1/messages", request(Anthropic, true, nil, user("SAY hello there")))
	if res.Header.Get("X-Limit") != "9" {
		t.Errorf("header %v lacks the option's", res.Header)
	}
	if a := readStream(t, Anthropic, res); a.usage != (Usage{Input: 1, Output: 2}) || a.text != "hello there" {
		t.Errorf("answer %+v", a)
	}
	if a := ask(t, s, Anthropic, true, nil, user("SAY "+strings.Repeat("x", 2<<10))); a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.failure, "1024 bytes") {
		t.Errorf("a large body: %+v", a)
	}
}

func TestSideRequests(t *testing.T) {
	s := start(t, nil)
	schema := `{"type":"object","properties":{"next":{"type":"string","enum":["user","model"]},"why":{"type":"string"},"n":{"type":"integer","minimum":1},"ok":{"type":"boolean"},"l":{"type":"array"},"o":{"type":"object"}}}`
	const filled = `{"l":[],"n":1,"next":"user","o":{},"ok":false,"why":"fake"}`
	for _, tc := range []struct {
		api              API
		body, text, tool string
	}{
		{Anthropic, `{"system":"Generate a title","messages":[{"role":"user","content":"HANG"}]}`, `{"title": "Fake session title"}`, ""},
		{Anthropic, `{"system":"a pointer such as [Title](file.md)","messages":[{"role":"user","content":"SAY without tools"}]}`, "without tools", ""},
		{OpenAIChat, `{"messages":[{"role":"system","content":"You are a title generator"},{"role":"user","content":"HANG"}]}`, "Fake session title", ""},
		{Anthropic, `{"output_config":{"format":{"schema":` + schema + `}},"messages":[{"role":"user","content":"HANG"}]}`, filled, ""},
		{OpenAIChat, `{"response_format":{"json_schema":{"schema":` + schema + `}},"messages":[{"role":"user","content":"HANG"}]}`, filled, ""},
		{OpenAIChat, `{"tools":[{"function":{"name":"respond_in_schema","parameters":` + schema + `}}],"messages":[{"role":"user","content":"HANG"}]}`, "", "respond_in_schema " + filled},
		{Gemini, `{"generationConfig":{"responseJsonSchema":` + schema + `},"contents":[{"role":"user","parts":[{"text":"HANG"}]}]}`, filled, ""},
		{Anthropic, `{"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"HANG"},{"role":"user","content":"Your task is to create a detailed summary of the conversation"}]}`, "<summary>Fake summary of the conversation.</summary>", ""},
	} {
		res := post(t, s.URL()+path(tc.api, false), []byte(tc.body))
		data, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		a := answer{status: res.StatusCode}
		readWhole(t, &a, tc.api, data)
		if a.text != tc.text || strings.Join(a.tools, "|") != tc.tool {
			t.Errorf("%s: text %q, calls %q; want %q, %q", tc.body, a.text, a.tools, tc.text, tc.tool)
		}
	}
}

func TestPlainRoutes(t *testing.T) {
	s := start(t, nil)
	for _, tc := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"HEAD", "/", 200, ""},
		{"GET", "/", 404, "no route GET /"},
		{"GET", "/v1/models", 200, "fake-model"},
		{"GET", "/v1/models/fake-model", 200, "fake-model"},
		{"GET", "/v1beta/models", 200, "fake-model"},
		{"POST", "/v1/messages/count_tokens", 200, `"input_tokens":1`},
		{"POST", "/v1/responses/compact", 200, "Fake summary"},
		{"POST", "/v1beta/models/m:countTokens", 200, `"totalTokens":1`},
		{"POST", "/v1beta/models/m:embedContent", 404, "no route"},
		{"GET", "/v1/messages", 404, "no route"},
		{"POST", "/nowhere", 404, "no route"},
	} {
		var body io.Reader
		if tc.method == "POST" {
			body = strings.NewReader("{}")
		}
		req, err := http.NewRequestWithContext(t.Context(), tc.method, s.URL()+tc.path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != tc.status || !strings.Contains(string(data), tc.contains) {
			t.Errorf("%s %s: status %d, body %s, %v; want %d, %q", tc.method, tc.path, res.StatusCode, data, err, tc.status, tc.contains)
		}
	}
	if calls := s.Calls(); len(calls) != 0 {
		t.Errorf("%d of them count as model calls", len(calls))
	}
}

func TestHostileBodies(t *testing.T) {
	s := start(t, nil)
	for _, body := range []string{
		"", "not json", "{", "[]", "7", "null", `"x"`, `{"messages":7,"input":7,"contents":7}`, `{"messages":[7],"input":[7],"contents":[7]}`,
		`{"messages":[{"role":"user","content":7}],"input":[{"role":"user","content":7}],"contents":[{"parts":7}]}`,
		`{"messages":[],"input":[],"contents":[]}`, "{\"messages\":\"\xff\xfe\"}", strings.Repeat("[", 100_000),
	} {
		each(t, func(t *testing.T, api API, stream bool) {
			res := post(t, s.URL()+path(api, stream), []byte(body))
			data, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusBadRequest || !strings.Contains(string(data), "send a valid request body") {
				t.Errorf("%q: status %d, body %s, %v; want 400", clip(body, 60), res.StatusCode, data, err)
			}
		})
	}
}

func TestCompressedBodies(t *testing.T) {
	s := start(t, &Options{MaxBody: 64 << 10})
	send := func(encoding string, body []byte) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path(OpenAIResponses, true), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		req.Header.Set("Content-Encoding", encoding)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(data)
	}
	pack := func(body []byte) []byte {
		var buf bytes.Buffer
		zw := gzip.NewWriter(&buf)
		_, err := zw.Write(body)
		must(err)
		must(zw.Close())
		return buf.Bytes()
	}
	if status, body := send("gzip", pack(request(OpenAIResponses, true, nil, user("SAY packed")))); status != 200 || !strings.Contains(body, "packed") {
		t.Errorf("gzip: %d %s", status, body)
	}
	if status, _ := send("gzip", pack(bytes.Repeat([]byte(" "), 1<<20))); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a gzip bomb: %d, want 413", status)
	}
	if status, _ := send("gzip", []byte("plain")); status != http.StatusBadRequest {
		t.Errorf("not gzip: %d, want 400", status)
	}
	if status, _ := send("zstd", []byte("x")); status != http.StatusBadRequest {
		t.Errorf("zstd: %d, want 400", status)
	}
}

func TestEnvironments(t *testing.T) {
	const url = "http://127.0.0.1:1"
	for name, env := range map[string][]string{
		"claude": ClaudeEnv(url), "codex": append(CodexEnv(), CodexConfigArgs(url, "")...), "gemini": GeminiEnv(url), "qwen": QwenEnv(url),
		"opencode": {OpencodeConfig(url)},
	} {
		all := strings.Join(env, "\n")
		if !strings.Contains(all, url) || !strings.Contains(all, Key) {
			t.Errorf("%s: %s lacks the address or the key", name, all)
		}
	}
}

// TestLargeTextsAreReadInLinearTime ends with the test's time limit if a text of many lines or reminders is read in quadratic time.
func TestLargeTextsAreReadInLinearTime(t *testing.T) {
	s := start(t, nil)
	for _, text := range []string{
		"TOOL bash x" + strings.Repeat("\ny", 1<<18),
		strings.Repeat("SAY x\n", 1<<10) + strings.Repeat("<system-reminder></system-reminder>y", 1<<15),
	} {
		if a := ask(t, s, Anthropic, false, []string{"Bash"}, user(text)); a.status != http.StatusOK {
			t.Errorf("status %d, %s", a.status, a.failure)
		}
	}
}

func FuzzScript(f *testing.F) {
	for verb := range verbs {
		f.Add(verb+" x y z", "result")
	}
	f.Add(`MULTI [{"name":"","input":null}]`, "session ID 7")
	f.Add("SHELLESC [a", "")
	f.Add("USAGE -1 99999999999999999999 x", "")
	f.Fuzz(func(t *testing.T, script, output string) {
		if len(script) > 1<<10 || len(output) > 1<<12 {
			return
		}
		for _, api := range apis {
			for _, results := range [][]result{nil, {{text: output}}, {{text: output}, {text: script}}} {
				conv := &conversation{api: api, tools: []tool{{name: shellOf[api]}, {name: "exec", custom: true}}, entries: []entry{
					{role: "user", texts: []string{script, output}}, {role: "tool", results: results},
				}}
				rep := plan(conv, conv.cue(), DefaultUsage, 1<<16, func(string) int { return 1 })
				if rep.stop == stopTool && (len(rep.steps) == 0 || rep.steps[len(rep.steps)-1].kind != kindTool) {
					t.Errorf("%q stops for a tool without calling one", script)
				}
				size := 0
				for _, st := range rep.steps {
					for _, pc := range st.pieces {
						size += len(pc.text)
					}
				}
				if size > 1<<20 {
					t.Errorf("%q makes %d bytes", script, size)
				}
			}
		}
	})
}
