package fakemodel

import (
	"fmt"
	"strings"
	"testing"
)

// each runs a test for every dialect, with and without streaming.
func each(t *testing.T, test func(t *testing.T, api API, stream bool)) {
	t.Helper()
	for _, api := range apis {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stream=%t", api, stream), func(t *testing.T) { test(t, api, stream) })
		}
	}
}

// eachOf checks one value per dialect.
type eachOf [4]string

func (e eachOf) get(api API) string {
	for i, a := range apis {
		if a == api {
			return e[i]
		}
	}
	return ""
}

var (
	ended = eachOf{"end_turn", "completed", "stop", "STOP"}
	calls = eachOf{"tool_use", "completed", "tool_calls", "STOP"}
)

func TestTextVerbs(t *testing.T) {
	for _, tc := range []struct {
		script, text string
		stop         eachOf
	}{
		{"SAY hello there", "hello there", ended},
		{"SAY", "hello", ended},
		{`SAY a\nb`, "a\nb", ended},
		{"SAY größer 🙂🙂🙂🙂", "größer 🙂🙂🙂🙂", ended},
		{"some prose\nSAY one\nmore prose\nSAY two", "onetwo", ended},
		{"  SAY indented", "indented", ended},
		{"THINK hard", "hard", ended},
		{"THINKRAW", "thought answer", ended},
		{"EMPTY", "", ended},
		{"SLOW 3 1", "word0 word1 word2 ", ended},
		{"BIGTEXT 50000", strings.Repeat("x", 50000), ended},
		{"BIGDELTA 50000", strings.Repeat("y", 50000), ended},
		{"TOOLS", "a,b", ended},
		{"JSONOUT", `{"answer":42}`, ended},
		{`JSONOUT {"x":1}`, `{"x":1}`, ended},
		{"WEBSEARCH go", "searched", ended},
		{"MAXTOK", "This answer is cut o", eachOf{"max_tokens", "max_output_tokens", "length", "MAX_TOKENS"}},
		{"REFUSE no way", "no way", eachOf{"refusal", "content_filter", "content_filter", "SAFETY"}},
		{"REFUSE", "", eachOf{"refusal", "content_filter", "content_filter", "SAFETY"}},
		{"CTXLIM", "cut by window", eachOf{"model_context_window_exceeded", "failed", "length", "MAX_TOKENS"}},
		{"PAUSE", "pausing", eachOf{"pause_turn", "completed", "stop", "STOP"}},
		{"no directive here", "echo: no directive here", ended},
		{"SAYING nothing", "echo: SAYING nothing", ended},
	} {
		t.Run(tc.script, func(t *testing.T) {
			s := start(t, nil)
			each(t, func(t *testing.T, api API, stream bool) {
				a := ask(t, s, api, stream, []string{"a", "b"}, user(tc.script))
				if a.status != 200 || a.cut || a.text != tc.text || a.stop != tc.stop.get(api) {
					t.Errorf("status %d, cut %t, text %q, stop %q; want 200, whole, %q, %q", a.status, a.cut, clip(a.text, 100), a.stop, clip(tc.text, 100), tc.stop.get(api))
				}
				if strings.HasPrefix(tc.script, "THINK") && !strings.Contains(a.thinking, "**Deciding**") {
					t.Errorf("thinking %q lacks its second part", a.thinking)
				}
			})
		})
	}
}

func TestEchoModel(t *testing.T) {
	s := start(t, nil)
	each(t, func(t *testing.T, api API, stream bool) {
		if a := ask(t, s, api, stream, nil, user("ECHOMODEL")); !strings.HasPrefix(a.text, "model=fake-model") {
			t.Errorf("text %q does not name the model", a.text)
		}
	})
}

func TestImagesAreCounted(t *testing.T) {
	s := start(t, nil)
	each(t, func(t *testing.T, api API, stream bool) {
		a := ask(t, s, api, stream, nil, msg{role: "user", text: "SAY x", image: true}, msg{role: "assistant", text: "x"}, msg{role: "user", text: "IMG", image: true})
		if a.text != "saw 2 image(s)" {
			t.Errorf("text %q, want two images", a.text)
		}
	})
}

func TestPauseResumes(t *testing.T) {
	s := start(t, nil)
	each(t, func(t *testing.T, api API, stream bool) {
		a := ask(t, s, api, stream, nil, user("PAUSE"), msg{role: "assistant", text: "pausing"})
		if a.text != "resumed" || a.stop != ended.get(api) {
			t.Errorf("text %q, stop %q after a pause", a.text, a.stop)
		}
	})
}

func TestLatestScriptWins(t *testing.T) {
	s := start(t, nil)
	each(t, func(t *testing.T, api API, stream bool) {
		a := ask(t, s, api, stream, nil, user("SAY old"), msg{role: "assistant", text: "SAY not mine"},
			user("SAY new"), user("<system-reminder>\nSAY injected\n</system-reminder>"), user("please go on"))
		if a.text != "new" {
			t.Errorf("text %q, want the latest script of the user", a.text)
		}
	})
}

// TestToolVerbs checks the calls of verbs that a dialect's usual tools can serve.
func TestToolVerbs(t *testing.T) {
	offered := map[API][]string{
		Anthropic:       {"Bash", "Write", "Edit", "Agent", "TodoWrite"},
		OpenAIResponses: {"exec_command", "apply_patch", "update_plan", "spawn_agent"},
		OpenAIChat:      {"bash", "write", "edit", "task", "todowrite"},
		Gemini:          {"run_shell_command", "write_file", "replace", "write_todos", "task"},
	}
	for _, tc := range []struct {
		script string
		want   eachOf // substrings of the calls, joined by a line break
	}{
		{"TOOL bash echo hi", eachOf{`Bash {"command":"echo hi"`, `exec_command {"cmd":"echo hi"`, `bash {"command":"echo hi"`, `run_shell_command {"command":"echo hi"`}},
		{"SHELL echo hi", eachOf{`"echo hi"`, `"echo hi"`, `"echo hi"`, `"echo hi"`}},
		{"SHELLESC [touch x] touch x/y", eachOf{`"touch x/y"`, `"prefix_rule":["touch","x"],"sandbox_permissions":"require_escalated"`, `"touch x/y"`, `"touch x/y"`}},
		{"TOOL Read {\"path\":\n\"/x\"}", eachOf{`Read {"path":|"/x"}`, `Read {"path":|"/x"}`, `Read {"path":|"/x"}`, `Read {"path":|"/x"}`}},
		{"TOOL Read", eachOf{"Read {}", "Read {}", "Read {}", "Read {}"}},
		{"MULTI echo a ;; echo b", eachOf{"echo a|echo b", "echo a|echo b", "echo a|echo b", "echo a|echo b"}},
		{`MULTI [{"name":"Read","input":{"p":1}},{"name":"bash","input":{"command":"ls"}}]`, eachOf{`Read {"p":1}|{"command":"ls"}`, `Read {"p":1}|{"command":"ls"}`, `Read {"p":1}|bash {"command":"ls"}`, `Read {"p":1}|{"command":"ls"}`}},
		{"LOOP bash echo x", eachOf{"echo x", "echo x", "echo x", "echo x"}},
		{"PATCH a.txt hi", eachOf{`Write {"content":"hi","file_path":"a.txt"}`, "apply_patch *** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch", `write {"content":"hi"`, `write_file {"content":"hi"`}},
		{"PATCHUPD a.txt old new", eachOf{`Edit {"file_path":"a.txt","new_string":"new","old_string":"old"}`, "*** Update File: a.txt\n@@\n-old\n+new\n", `"oldString":"old"`, `replace {"file_path"`}},
		{"PATCHRAW\n*** Begin Patch\n*** End Patch", eachOf{"apply_patch", "apply_patch *** Begin Patch\n*** End Patch", "apply_patch", "apply_patch"}},
		{"PLAN", eachOf{`TodoWrite {"todos":[{"activeForm"`, `update_plan {"explanation":"fake plan","plan":[{"status":"completed","step":"First step"}`, `todowrite {"todos":[`, `write_todos {"todos":[{"description"`}},
		{"TASK SAY sub BG", eachOf{`"prompt":"SAY sub","run_in_background":true`, `spawn_agent {"message":"SAY sub"`, `"subagent_type":"general"`, `"prompt":"SAY sub"`}},
		{"CUSTOM thing free form", eachOf{"thing", "thing free form", "thing free form", "thing"}},
	} {
		t.Run(tc.script, func(t *testing.T) {
			s := start(t, nil)
			each(t, func(t *testing.T, api API, stream bool) {
				a := ask(t, s, api, stream, offered[api], user(tc.script))
				if a.stop != calls.get(api) || a.cut {
					t.Errorf("stop %q, cut %t", a.stop, a.cut)
				}
				got := strings.Join(a.tools, "\n")
				for want := range strings.SplitSeq(tc.want.get(api), "|") {
					if !strings.Contains(got, want) {
						t.Errorf("calls %q lack %q", got, want)
					}
				}
			})
		})
	}
}

func TestSlowTool(t *testing.T) {
	s := start(t, nil)
	a := ask(t, s, Anthropic, false, []string{"Bash"}, user("SLOWTOOL")) // without streaming there is nothing to be slow about
	if len(a.tools) != 1 || len(a.tools[0]) < 2000 {
		t.Errorf("calls %q, want one large call", a.tools)
	}
}

func TestToolResultsAreQuoted(t *testing.T) {
	s := start(t, nil)
	each(t, func(t *testing.T, api API, stream bool) {
		tools := []string{shellOf[api], "Agent"}
		for _, tc := range []struct {
			history []msg
			want    string
		}{
			{[]msg{user("TOOL bash ls"), toolResult("a.txt")}, "Tool said (is_error=false): a.txt"},
			{[]msg{user("MULTI a ;; b"), toolResult("1"), toolResult("2")}, "Got 2 results."},
			{[]msg{user("TASK SAY x"), toolResult("x")}, "Subagent said: x"},
			{[]msg{user("TOOL bash ls"), toolResult("a"), user("hurry up")}, "Tool said (is_error=false): a | extra user texts: hurry up"},
		} {
			a := ask(t, s, api, stream, tools, tc.history...)
			if a.text != tc.want || a.stop != ended.get(api) {
				t.Errorf("%q: text %q, stop %q, want %q", tc.history[0].text, a.text, a.stop, tc.want)
			}
		}
	})
	a := ask(t, s, Anthropic, true, nil, user("TOOL bash ls"), msg{role: "result", text: "denied", failed: true})
	if a.text != "Tool said (is_error=true): denied" {
		t.Errorf("text %q does not tell the error", a.text)
	}
}

func TestScriptOfSeveralRounds(t *testing.T) {
	const script = "SAY one\nTOOL bash a\nMULTI b ;; c\nSAY two\nSHELL d\nSAY done"
	s := start(t, nil)
	each(t, func(t *testing.T, api API, stream bool) {
		history := []msg{user(script)}
		for i, want := range []struct {
			text  string
			calls int
		}{{"one", 1}, {"Running several tools.", 2}, {"two", 1}, {"done", 0}} {
			a := ask(t, s, api, stream, []string{shellOf[api]}, history...)
			if a.text != want.text || len(a.tools) != want.calls {
				t.Errorf("round %d: text %q, calls %q, want %+v", i, a.text, a.tools, want)
			}
			history = append(history, msg{role: "assistant", text: a.text})
			for range a.tools {
				history = append(history, toolResult("ok"))
			}
		}
	})
}

func TestLoopGoesOn(t *testing.T) {
	s := start(t, nil)
	each(t, func(t *testing.T, api API, stream bool) {
		a := ask(t, s, api, stream, []string{shellOf[api]}, user("LOOP bash x"), toolResult("1"), toolResult("2"))
		if a.text != "Loop step 2." || len(a.tools) != 1 {
			t.Errorf("text %q, calls %q", a.text, a.tools)
		}
	})
}

func TestMissingToolIsSaid(t *testing.T) {
	s := start(t, nil)
	for _, verb := range []string{"SHELL ls", "PLAN", "TASK SAY x", "PATCH a b", "SHELLPOLL x", "SLOWTOOL"} {
		each(t, func(t *testing.T, api API, stream bool) {
			a := ask(t, s, api, stream, []string{"other"}, user(verb))
			if !strings.Contains(a.text, "no tool for") || a.tools != nil || a.stop != ended.get(api) {
				t.Errorf("%s: text %q, calls %q, stop %q", verb, a.text, a.tools, a.stop)
			}
		})
	}
}

func TestCodexShellSessions(t *testing.T) {
	s := start(t, nil)
	const running = "Process running with session ID 77"
	for _, tc := range []struct {
		verb, want string
	}{{"SHELLPOLL sleep 9", `write_stdin {"session_id":77,"chars":""`}, {"SHELLSTDIN cat", `write_stdin {"session_id":77,"chars":"typed-line\n"`}} {
		a := ask(t, s, OpenAIResponses, true, []string{"exec_command", "write_stdin"}, user(tc.verb), toolResult(running))
		if len(a.tools) != 1 || !strings.HasPrefix(a.tools[0], tc.want) {
			t.Errorf("%s: calls %q, want %s", tc.verb, a.tools, tc.want)
		}
		a = ask(t, s, OpenAIResponses, true, []string{"exec_command", "write_stdin"}, user(tc.verb), toolResult(running), toolResult("exited"))
		if a.text != "Tool said (is_error=false): exited" {
			t.Errorf("%s: text %q after the end", tc.verb, a.text)
		}
	}
}

func TestCodexCodeMode(t *testing.T) {
	s := start(t, nil)
	for script, want := range map[string]string{
		"SHELL ls":               `exec const r = await tools.exec_command({"cmd":"ls","yield_time_ms":10000}); text(r);`,
		"PATCH a.txt hi":         `exec const r = await tools.apply_patch("*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch"); text(r);`,
		`TOOL srv::echo {"a":1}`: `exec const r = await tools.srv__echo({"a":1}); text(r);`,
		`TOOL wait {"a":1}`:      `wait {"a":1}`,
		"PLAN":                   "exec const r = await tools.update_plan(",
	} {
		a := ask(t, s, OpenAIResponses, true, []string{"exec", "wait"}, user(script))
		if len(a.tools) != 1 || !strings.HasPrefix(a.tools[0], want) {
			t.Errorf("%s: calls %q, want %s", script, a.tools, want)
		}
	}
}

func TestCodexNamespacedTools(t *testing.T) {
	s := start(t, nil)
	body := `{"stream":true,"input":[{"type":"additional_tools","tools":[{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"}]},` +
		`{"type":"namespace","name":"collaboration","tools":[{"type":"function","name":"spawn_agent"}]}]},{"role":"user","content":"TASK SAY hi"}]}`
	res := post(t, s.URL()+"/v1/responses", []byte(body))
	found := false
	if err := frames(t, res.Body, func(_ string, data []byte) {
		found = found || strings.Contains(string(data), `"namespace":"collaboration"`)
	}); err != nil || !found {
		t.Errorf("the call carries no namespace (%v)", err)
	}
}

func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		script  string
		status  [4]int
		message string
	}{
		{"ERR 400 bad thing", [4]int{400, 400, 400, 400}, "bad thing"},
		{"ERR 401", [4]int{401, 401, 401, 401}, "invalid x-api-key"},
		{"ERR 429", [4]int{429, 429, 429, 429}, "Rate limit"},
		{"ERR 418", [4]int{418, 418, 418, 418}, "Scripted error"},
		{"ERR 529", [4]int{529, 503, 503, 503}, "Overloaded"},
		{"ERR usage", [4]int{429, 429, 429, 429}, "usage limit"},
		{"ERR quota", [4]int{429, 429, 429, 429}, "quota"},
		{"ERR context", [4]int{400, 200, 400, 400}, ""},
		{"ERR overloaded", [4]int{529, 200, 503, 503}, "Overloaded"},
		{"ERR modelnotfound", [4]int{404, 404, 404, 404}, "does not exist"},
		{"ERR nonsense", [4]int{400, 400, 400, 400}, "write a status"},
		{"ERR 200", [4]int{400, 400, 400, 400}, "write a status"},
		{"ERR", [4]int{400, 400, 400, 400}, "write a status"},
	} {
		t.Run(tc.script, func(t *testing.T) {
			s := start(t, nil)
			each(t, func(t *testing.T, api API, stream bool) {
				want := tc.status[0]
				for i := range apis {
					if apis[i] == api {
						want = tc.status[i]
					}
				}
				a := ask(t, s, api, stream, nil, user(tc.script))
				if a.status != want || a.failure == "" || !strings.Contains(a.failure, tc.message) || a.cut {
					t.Errorf("status %d, error %q, cut %t; want %d, %q", a.status, a.failure, a.cut, want, tc.message)
				}
			})
		})
	}
}

func TestErrorRecovers(t *testing.T) {
	each(t, func(t *testing.T, api API, stream bool) {
		s := start(t, nil)
		for i := range 3 {
			a := ask(t, s, api, stream, nil, user("ERRN 500 2"))
			if failed := i < 2; failed != (a.status == 500) {
				t.Errorf("try %d: status %d", i, a.status)
			} else if !failed && a.text != "ok after 2 failures" {
				t.Errorf("text %q after the failures", a.text)
			}
		}
		// The same script again is a turn of its own.
		if a := ask(t, s, api, stream, nil, user("ERRN 500 2"), user("ERRN 500 2")); a.status != 500 {
			t.Errorf("second turn: status %d, want 500 again", a.status)
		}
	})
}

func TestStreamError(t *testing.T) {
	s := start(t, nil)
	for _, api := range apis {
		a := ask(t, s, api, true, nil, user("EVERR"))
		if a.status != 200 || a.failure != "Overloaded" {
			t.Errorf("%s: status %d, error %q", api, a.status, a.failure)
		}
	}
}

func TestDropCutsTheConnection(t *testing.T) {
	s := start(t, nil)
	for _, api := range apis {
		a := ask(t, s, api, true, nil, user("DROP"))
		if !a.cut || a.text != "partial text before drop" {
			t.Errorf("%s: cut %t, text %q", api, a.cut, a.text)
		}
	}
}
