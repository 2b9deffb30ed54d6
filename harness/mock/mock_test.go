package mock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/harness"
	"agentserver/harness/mock"
	"agentserver/protocol"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestScripts(t *testing.T) {
	for _, test := range []struct {
		name, prompt, want string
		config             protocol.RunConfig
	}{
		{name: "prose", prompt: "hello there", want: `
started mock-1 mock-1
delta text 1 "You "
delta text 1 "said: "
delta text 1 "hello "
delta text 1 "there"
part text 1 done "You said: hello there"
end end_turn 2+4`},
		{name: "text and thought", prompt: "think hm\nsay a\\nb", want: `
started mock-1 mock-1
delta reasoning 1 "hm"
part reasoning 1 done "hm"
delta text 2 "a\nb"
part text 2 done "a\nb"
end end_turn 4+2`},
		{name: "no thoughts", prompt: "think hm", config: protocol.RunConfig{ThinkingLevel: protocol.ThinkingOff}, want: `
started mock-1 mock-1
end end_turn 2+0`},
		{name: "tools", prompt: "tool Bash {\"command\":\"ls\"} -> a.go\ntool Read ! no such file", want: `
started mock-1 mock-1
tool 1 Bash execute "ls" pending
delta tool_input 1 "{\"comman"
delta tool_input 1 "d\":\"ls\"}"
tool 1 Bash execute "ls" in_progress
tool 1 Bash execute "ls" completed {"command":"ls"} "a.go"
tool 2 Read read "" pending
delta tool_input 2 "{"
delta tool_input 2 "}"
tool 2 Read read "" in_progress
tool 2 Read read "" failed "no such file"
end end_turn 11+0`},
		{name: "sub-agent", prompt: "subagent explorer Find it\n  say found\nsay done", want: `
started mock-1 mock-1
tool 1 Task task "Find it" pending
delta tool_input 1 "{\"description\":\"Find it\",\""
delta tool_input 1 "subagent_type\":\"explorer\"}"
tool 1 Task task "Find it" in_progress
under 1: delta text 2 "found"
under 1: part text 2 done "found"
tool 1 Task task "Find it" completed null "found"
delta text 3 "done"
part text 3 done "done"
end end_turn 8+2`},
		{name: "asides", prompt: "usage 10 100\ncompact short\nnotice retry again\nerror rate_limit slow\nraw {\"a\":1}\ntokens 1 2 3\nstop max_tokens", want: `
started mock-1 mock-1
usage 10/100
compaction in_progress
compaction completed short
notice retry again
error rate_limit slow
end max_tokens 1+2`},
		{name: "failure", prompt: "say a\nfail auth log in\nsay never", want: `
started mock-1 mock-1
delta text 1 "a"
part text 1 done "a"
end error 8+1 auth: log in`},
		{name: "bad line", prompt: "say a\n\ndelay soon", want: `
started mock-1 mock-1
end error 4+0 invalid_request: the script cannot be played: line 3: "soon" is no duration; write it as 200ms or 1.5s, at most 24h0m0s`},
		{name: "crash", prompt: "say a\ncrash exit status 7", want: `
started mock-1 mock-1
delta text 1 "a"
part text 1 done "a"
exit process_exit: the mock agent crashed: exit status 7`},
		{name: "configuration", prompt: "config", config: protocol.RunConfig{Model: "m", Cwd: "/w", APIKey: "k", Env: map[string]string{"B": "s", "A": "s"}}, want: `
started mock-1 m
delta text 1 "cwd=/w "
delta text 1 "model=m "
delta text 1 "env=A,B "
delta text 1 "apiKey=set"
part text 1 done "cwd=/w model=m env=A,B apiKey=set"
end end_turn 1+4`},
		{name: "files", prompt: "image\nfile a.txt hi", want: `
started mock-1 mock-1
image image/png
file a.txt aGk=
end end_turn 4+0`},
		{name: "no tools", prompt: "tool Bash", config: protocol.RunConfig{DisableTools: true}, want: `
started mock-1 mock-1
notice warning Bash was not called: the turn has no tools
end end_turn 2+0`},
		{name: "permission modes", prompt: "ask Edit {\"path\":\"f\",\"newText\":\"n\"}\nask Bash", config: protocol.RunConfig{PermissionMode: protocol.ModeDontAsk}, want: `
started mock-1 mock-1
tool 1 Edit edit "f" pending
delta tool_input 1 "{\"path\":\"f\",\""
delta tool_input 1 "newText\":\"n\"}"
tool 1 Edit edit "f" in_progress
tool 1 Edit edit "f" failed "Denied: the permission mode is dont_ask."
tool 2 Bash execute "" pending
delta tool_input 2 "{"
delta tool_input 2 "}"
tool 2 Bash execute "" in_progress
tool 2 Bash execute "" failed "Denied: the permission mode is dont_ask."
end end_turn 5+0`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, mock.New(), harness.Spec{Config: test.config})
			send(t, s, test.prompt)
			got := strings.Join(transcript(t, s), "\n")
			if want := strings.TrimSpace(test.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestPermission(t *testing.T) {
	for _, test := range []struct {
		name     string
		decision harness.Decision
		want     string
	}{
		{"allowed", harness.Decision{Allow: true}, `tool 1 Bash execute "ls" completed {"command":"ls"} "ok"`},
		{"edited", harness.Decision{Allow: true, UpdatedInput: json.RawMessage(`{"x":1}`)}, `tool 1 Bash execute "ls" completed {"x":1} "ok"`},
		{"refused", harness.Decision{Message: "not now"}, `tool 1 Bash execute "ls" failed "not now"`},
		{"cancelled", harness.Decision{Cancelled: true}, `tool 1 Bash execute "ls" cancelled`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, mock.New(), harness.Spec{})
			send(t, s, `ask Bash {"command":"ls"}`)
			var lines []string
			for {
				e := recv(t, s)
				if p, ok := e.(harness.Permission); ok {
					if err := p.Decide(test.decision); err != nil {
						t.Fatal(err)
					}
					if p.Decide(test.decision) == nil {
						t.Error("a second answer was taken")
					}
				}
				lines = append(lines, show(e))
				if _, over := e.(harness.TurnEnd); over {
					break
				}
			}
			if got := lines[len(lines)-2]; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestTimes plays what takes time, in a bubble.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, mock.New(), harness.Spec{})
		defer s.Close(t.Context())
		start := time.Now()
		send(t, s, "delay 2s\npace 1s\nsay a b")
		transcript(t, s)
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("took %v, want 4s", took)
		}
		start = time.Now()
		send(t, s, "linger 5s Bash -> late\nbackground 1s\n  say by the way")
		if got := transcript(t, s); !strings.HasSuffix(got[len(got)-1], "background=2") {
			t.Errorf("the turn's end does not name the tool that goes on: %s", got[len(got)-1])
		}
		if got := transcript(t, s); len(got) != 5 || got[4] != "end end_turn 0+3 own" || time.Since(start) != time.Second {
			t.Errorf("after %v, in the background: %q", time.Since(start), got)
		}
		if got := show(recv(t, s)); got != `tool 2 Bash execute "" completed {} "late"` || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %s", time.Since(start), got)
		}
	})
}

func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, mock.New(), harness.Spec{})
		defer s.Close(t.Context())
		if err := s.Interrupt(t.Context()); err != nil {
			t.Errorf("idle: %v", err)
		}
		for _, script := range []string{"hang", "delay 1h", "await", "ask Bash", "pace 1m\nsay a b c d"} {
			send(t, s, script)
			time.AfterFunc(time.Second, func() {
				if err := s.Interrupt(t.Context()); err != nil {
					t.Errorf("%s: %v", script, err)
				}
			})
			got := transcript(t, s)
			if end := got[len(got)-1]; !strings.HasPrefix(end, "end cancelled") {
				t.Errorf("%s: %s", script, end)
			}
		}
		send(t, s, "ignore-interrupt\ndelay 1m\nsay done")
		time.AfterFunc(time.Second, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := s.Interrupt(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the interrupt was confirmed: %v", err)
			}
		})
		if got := transcript(t, s); !strings.HasPrefix(got[len(got)-1], "end end_turn") {
			t.Errorf("got %q", got)
		}
	})
}

func TestSteer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, mock.New(), harness.Spec{})
		defer s.Close(t.Context())
		steerer := s.(harness.Steerer)
		if ok, err := steerer.Steer(t.Context(), protocol.Text("x")); ok || err != nil {
			t.Errorf("idle: %v, %v", ok, err)
		}
		send(t, s, "await\nsay end")
		time.AfterFunc(time.Second, func() {
			if ok, err := steerer.Steer(t.Context(), protocol.Text("say new")); !ok || err != nil {
				t.Errorf("%v, %v", ok, err)
			}
		})
		got := strings.Join(transcript(t, s), "\n")
		if !strings.Contains(got, "done \"new\"\ndelta text 2 \"end\"") {
			t.Errorf("got\n%s", got)
		}
	})
}

func TestResume(t *testing.T) {
	h := mock.New()
	first := open(t, h, harness.Spec{})
	send(t, first, "say a\ncrash")
	transcript(t, first)
	again := open(t, h, harness.Spec{Resume: "mock-1"})
	send(t, again, "recall")
	if got := transcript(t, again); got[0] != "started mock-1 mock-1 resumed=true" || !strings.Contains(got[len(got)-2], `1 earlier prompts, the last of them [\"say a\\ncrash\"]`) {
		t.Errorf("got %q", got)
	}
	other := open(t, h, harness.Spec{Resume: "nobody"})
	send(t, other, "recall")
	if got := transcript(t, other); got[0] != "started mock-2 mock-1 resumed=false" {
		t.Errorf("got %q", got)
	}
}

func TestModelSwitch(t *testing.T) {
	s := open(t, mock.New(), harness.Spec{})
	if err := s.Apply(t.Context(), harness.Spec{Config: protocol.RunConfig{Model: "big"}}); err != nil {
		t.Fatal(err)
	}
	send(t, s, "say a")
	if got := transcript(t, s)[0]; got != "started mock-1 big" {
		t.Errorf("got %s", got)
	}
}

// TestGone uses an agent that has crashed.
func TestGone(t *testing.T) {
	s := open(t, mock.New(), harness.Spec{})
	send(t, s, "crash")
	transcript(t, s)
	if _, err := s.Recv(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("Recv after the exit: %v", err)
	}
	if s.Send(t.Context(), harness.Turn{Input: protocol.Text("x")}) == nil {
		t.Error("Send was taken")
	}
	if s.Apply(t.Context(), harness.Spec{}) == nil {
		t.Error("Apply was taken")
	}
	if err := s.Interrupt(t.Context()); err != nil {
		t.Errorf("Interrupt: %v", err)
	}
}

func FuzzScript(f *testing.F) {
	f.Add("say a\ntool Bash {\"a\":[1]} -> x")
	f.Add("subagent a b\n  subagent c d\n    say x\n background 1ns\n  say")
	f.Add("burst 3 2\nlinger 1ns Read ! e\nask x")
	f.Add("hang\n crash")
	f.Fuzz(func(t *testing.T, prompt string) {
		if strings.Contains(prompt, "burst") {
			return // may take long
		}
		synctest.Test(t, func(t *testing.T) {
			s := open(t, mock.New(), harness.Spec{})
			send(t, s, prompt)
			time.AfterFunc(48*time.Hour, s.(harness.Killer).Kill)
			for {
				e, err := s.Recv(t.Context())
				if err != nil {
					break
				}
				if p, ok := e.(harness.Permission); ok {
					p.Decide(harness.Decision{Allow: true})
				}
			}
			s.Close(t.Context())
		})
	})
}

func open(t *testing.T, h harness.Harness, spec harness.Spec) harness.Session {
	t.Helper()
	s, err := h.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func send(t *testing.T, s harness.Session, prompt string) {
	t.Helper()
	if err := s.Send(t.Context(), harness.Turn{ID: "t", Input: protocol.Text(prompt)}); err != nil {
		t.Fatal(err)
	}
}

func recv(t *testing.T, s harness.Session) harness.Event {
	t.Helper()
	e, err := s.Recv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// transcript shows events up to the end of the turn or of the agent.
func transcript(t *testing.T, s harness.Session) []string {
	t.Helper()
	var lines []string
	for {
		e := recv(t, s)
		lines = append(lines, show(e))
		switch e.(type) {
		case harness.TurnEnd, harness.Exit:
			return lines
		}
	}
}

// show is an event on one line. Of keys, it shows what follows the last dash.
func show(e harness.Event) string {
	short := func(key string) string { return key[strings.LastIndexByte(key, '-')+1:] }
	under := func(parent string) string {
		if parent == "" {
			return ""
		}
		return "under " + short(parent) + ": "
	}
	switch e := e.(type) {
	case harness.SessionStarted:
		s := "started " + e.NativeSessionID + " " + e.Model
		if e.Resumed != nil {
			s += fmt.Sprintf(" resumed=%v", *e.Resumed)
		}
		return s
	case harness.Delta:
		return fmt.Sprintf("%sdelta %s %s %q", under(e.ParentToolCallID), e.Type, short(e.Key), e.Text)
	case harness.PartUpdate:
		return under(e.ParentToolCallID) + showPart(short(e.Key), e.Part)
	case harness.Usage:
		return fmt.Sprintf("usage %d/%d", e.Used, e.Size)
	case harness.Compaction:
		return strings.TrimSpace(fmt.Sprintf("compaction %s %s", e.Status, e.Summary))
	case harness.Notice:
		return fmt.Sprintf("notice %s %s", e.Kind, e.Message)
	case harness.Failure:
		return fmt.Sprintf("error %s %s", e.Category, e.Message)
	case harness.TurnEnd:
		s := fmt.Sprintf("end %s %d+%d", e.StopReason, e.Tokens.Input, e.Tokens.Output)
		if e.Error != nil {
			s += " " + e.Error.Error()
		}
		for _, key := range e.Background {
			s += " background=" + short(key)
		}
		if e.Own {
			s += " own"
		}
		return s
	case harness.Exit:
		return "exit " + e.Error.Error()
	}
	return fmt.Sprintf("%T", e)
}

func showPart(key string, p protocol.Part) string {
	switch p := p.(type) {
	case *protocol.TextPart:
		return fmt.Sprintf("part text %s %s %q", key, p.State, p.Text)
	case *protocol.ReasoningPart:
		return fmt.Sprintf("part reasoning %s %s %q", key, p.State, p.Text)
	case *protocol.ImagePart:
		return "image " + p.MimeType
	case *protocol.FilePart:
		return "file " + p.Filename + " " + p.Data
	case *protocol.ToolPart:
		s := fmt.Sprintf("tool %s %s %s %q %s", key, p.ToolName, p.Kind, p.Title, p.State.Status())
		switch st := p.State.(type) {
		case *protocol.ToolCompleted:
			in := string(st.Input)
			if in == "" {
				in = "null"
			}
			s += fmt.Sprintf(" %s %q", in, st.Output)
		case *protocol.ToolFailed:
			s += fmt.Sprintf(" %q", st.Error)
		}
		return s
	}
	return "?"
}
