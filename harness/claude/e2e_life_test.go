package claude_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/harness/claude"
	"agentserver/protocol"
)

// TestResume goes on in a new process, and does not start afresh where there is nothing to resume.
func TestResume(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		r := newRig(t, cli).open()
		var started harness.SessionStarted
		r.on = func(e harness.Event) {
			if s, ok := e.(harness.SessionStarted); ok {
				started = s
			}
		}
		at := r.turn("SAY first").end.Meta.GetString(claude.MetaMessageID)
		first, model := started.NativeSessionID, started.Model
		r.close()

		r.spec.Resume = first
		r.open()
		res := r.turn("SAY second")
		if started.NativeSessionID != first || started.Resumed == nil || !*started.Resumed {
			t.Errorf("session %s, resumed %v; want %s", started.NativeSessionID, started.Resumed, first)
		}
		if started.Model != model {
			t.Errorf("the model changed from %s to %s", model, started.Model)
		}
		if !strings.Contains(r.lastBody(), "SAY first") {
			t.Error("the model was not given the first turn again")
		}
		wantUsage(t, r, res) // not the session's total
		wantUsage(t, r, r.turn("SAY third"))
		r.close()

		r.spec.ResumeAt = at
		r.open()
		r.turn("SAY fourth")
		if body := r.lastBody(); !strings.Contains(body, "SAY first") || strings.Contains(body, "SAY second") {
			t.Error("the session did not go on after its first turn")
		}
		r.close()
		r.spec.ResumeAt = ""

		// What a client names must be there.
		resume := func(id string) { r.spec.Resume, r.spec.Config.ResumeSessionID = id, id }
		resume("11111111-2222-4333-8444-555555555555")
		_, err := r.h.Open(t.Context(), r.spec)
		wantOpenError(t, err, protocol.CategoryInvalidRequest, "No conversation found")
		resume("not-a-session")
		_, err = r.h.Open(t.Context(), r.spec)
		wantOpenError(t, err, protocol.CategoryInvalidRequest, "claude did not start")

		// What only the engine goes on with may be lost, and that is told.
		r.spec.Resume, r.spec.Config.ResumeSessionID = "11111111-2222-4333-8444-555555555555", ""
		r.open()
		wantEnd(t, r.turn("SAY anew"), protocol.StopEndTurn)
		if started.Resumed == nil || *started.Resumed || started.NativeSessionID == r.spec.Resume {
			t.Errorf("started %+v", started)
		}
	})
}

func wantOpenError(t *testing.T, err error, category protocol.ErrorCategory, text string) {
	t.Helper()
	e, ok := errors.AsType[*harness.Error](err)
	if !ok || e.Category != category || !strings.Contains(e.Message, text) {
		t.Errorf("Open: %v, want %s with %q", err, category, text)
	}
}

// TestErrors checks each category, the text, and that the process goes on.
func TestErrors(t *testing.T) {
	cases := []struct {
		script   string
		category protocol.ErrorCategory
		text     string
	}{
		{"ERR 401", protocol.CategoryAuth, "API key"},
		{"ERR 403", protocol.CategoryAuth, "403"},
		{"ERR 404", protocol.CategoryInvalidRequest, "model"},
		{"ERR 400", protocol.CategoryInvalidRequest, "400"},
		{"ERR 429", protocol.CategoryRateLimit, "429"},
		{"ERR 500", protocol.CategoryInternal, "500"},
		{"ERR overloaded", protocol.CategoryRateLimit, "verloaded"},
		{"ERR credit", protocol.CategoryUsageLimit, "redit balance"},
		{"ERR context", protocol.CategoryContextLimit, "too long"},
		{"ERR drop", protocol.CategoryNetwork, "onnect"},
		{"DROP", protocol.CategoryNetwork, "onnection"},
		{"CTXLIM", protocol.CategoryContextLimit, "context window"},
	}
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		r := newRig(t, cli)
		r.spec.Env = append(r.spec.Env, "CLAUDE_CODE_MAX_RETRIES=0")
		r.open()
		for _, c := range cases {
			res := r.turn(c.script)
			if res.end.StopReason != protocol.StopError || res.end.Error.Category != c.category || !strings.Contains(res.end.Error.Message, c.text) {
				t.Errorf("%s: %s %+v, want %s with %q", c.script, res.end.StopReason, res.end.Error, c.category, c.text)
			}
			if res.exit != nil {
				t.Fatalf("%s: the process ended: %+v", c.script, res.exit.Error)
			}
		}
		// The older one passes the provider's word on, the newer one does not.
		if res := r.turn("EVERR"); res.end.Error == nil || res.end.Error.Category != protocol.CategoryRateLimit && res.end.Error.Category != protocol.CategoryInternal {
			t.Errorf("EVERR: %s %+v", res.end.StopReason, res.end.Error)
		}
		wantEnd(t, r.turn("MAXTOK"), protocol.StopMaxTokens)
		wantEnd(t, r.turn("REFUSE I will not"), protocol.StopRefusal)
		wantEnd(t, r.turn("EMPTY"), protocol.StopEndTurn)
		wantEnd(t, r.turn("PAUSE"), protocol.StopEndTurn)
		if err := r.s.Apply(t.Context(), r.spec); !errors.Is(err, harness.ErrRestart) {
			t.Errorf("after a failed authentication Apply is %v, want a restart with fresh credentials", err)
		}
	})
}

// TestRetry reports API retries while they happen, and counts only what the provider has counted.
func TestRetry(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		r := newRig(t, cli).open()
		res := r.turn("ERRN 529 1")
		wantEnd(t, res, protocol.StopEndTurn)
		var failures, notices int
		for _, e := range res.events {
			switch e := e.(type) {
			case harness.Failure:
				failures++
				if e.Category != protocol.CategoryRateLimit || !strings.Contains(e.Message, "529") {
					t.Errorf("failure %+v", e)
				}
			case harness.Notice:
				notices++
				if e.Kind != protocol.NoticeRetry || e.Progress == nil || e.Progress.Done != 1 || e.Progress.Total != 2 {
					t.Errorf("notice %+v", e)
				}
			}
		}
		if failures != 1 || notices != 1 {
			t.Errorf("%d failures and %d notices, want one each", failures, notices)
		}
		wantUsage(t, r, res)

		// Without a login the first turn says so, and what to do.
		r = newRig(t, cli)
		r.spec.Env = without(r.spec.Env, "ANTHROPIC_API_KEY")
		r.open()
		wantError(t, r.turn("SAY hello"), protocol.CategoryAuth, "config.apiKey")
	})
}

func without(env []string, name string) []string {
	var kept []string
	for _, e := range env {
		if !strings.HasPrefix(e, name+"=") {
			kept = append(kept, e)
		}
	}
	return kept
}

// TestKilled sends the signals that a CLI can get from others. The end of the turn says which; afterwards the session only wants to be closed.
func TestKilled(t *testing.T) {
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		for sig, word := range map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.SIGTERM: "143"} {
			r := newRig(t, cli).open()
			r.send("SAY one\nGATE never")
			r.until("text", isText)
			start := time.Now()
			for _, pid := range descendants(t, r) {
				if exe, _ := os.Readlink("/proc/" + pid + "/exe"); exe == cli.Path {
					n, _ := strconv.Atoi(pid)
					_ = syscall.Kill(n, sig)
				}
			}
			res := r.finish()
			if res.exit == nil || res.exit.Error == nil || !strings.Contains(res.exit.Error.Message, word) {
				t.Errorf("%v: exit %+v", sig, res.exit)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%v: noticed after %v", sig, took)
			}
			if e := r.recv(); e != nil {
				t.Errorf("%T after the exit", e)
			}
			if err := r.s.Send(t.Context(), harness.Turn{Input: protocol.Text("SAY hello")}); err == nil {
				t.Error("a dead CLI took a turn")
			}
			if err := r.s.Apply(t.Context(), r.spec); !errors.Is(err, harness.ErrRestart) {
				t.Errorf("Apply: %v", err)
			}
			r.interrupt()
		}
	})
}

// descendants returns the processes whose environment names the rig's home folder.
func descendants(t *testing.T, r *rig) []string {
	t.Helper()
	marker := "CLAUDE_CONFIG_DIR=" + lookup(r.spec.Env, "CLAUDE_CONFIG_DIR")
	procs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, p := range procs {
		if env, err := os.ReadFile(p); err == nil && strings.Contains(string(env), marker) {
			pids = append(pids, filepath.Base(filepath.Dir(p)))
		}
	}
	return pids
}

func lookup(env []string, name string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// TestNothingRemains closes at bad moments: in a tool that has started a session of its own, and in a permission. TestConformance has the others.
func TestNothingRemains(t *testing.T) {
	moments := map[string]func(r *rig){
		"permission": func(r *rig) {
			r.onPermission = func(harness.Permission) harness.Decision { return harness.Decision{Message: "no answer"} }
			r.send("TOOL bash touch never")
			r.until("a permission", func(e harness.Event) bool { _, ok := e.(harness.Permission); return ok })
		},
		"setsid": func(r *rig) {
			r.send("TOOL bash setsid -f sh -c 'touch up; trap \"\" TERM INT; while :; do sleep 1; done'; touch tool; while :; do sleep 1; done")
			r.until("a running tool", toolIs(protocol.ToolStatusInProgress))
			r.until("a permission", func(e harness.Event) bool { _, ok := e.(harness.Permission); return ok })
			eventually(r.t, "the tool's child runs", func() bool {
				_, err := os.Stat(filepath.Join(r.spec.Config.Cwd, "up"))
				return err == nil
			})
		},
	}
	onEachVersion(t, func(t *testing.T, cli harness.Executable) {
		for name, reach := range moments {
			r := newRig(t, cli).open()
			reach(r)
			start := time.Now()
			r.close()
			if pids := descendants(t, r); len(pids) > 0 {
				t.Errorf("%s: processes %v remain after Close", name, pids)
			}
			if took := time.Since(start); took > 8*time.Second {
				t.Errorf("%s: Close took %v", name, took)
			}
			for {
				e, err := r.s.Recv(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				if exit, ok := e.(harness.Exit); ok && exit.Error != nil {
					t.Errorf("%s: an exit that was asked for says %v", name, exit.Error)
				}
			}
			r.close() // again
		}
	})
}

// TestStartFailures checks that a CLI that does not come up says why.
func TestStartFailures(t *testing.T) {
	script := func(body string) harness.Resolver {
		path := filepath.Join(t.TempDir(), "claude")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return func(context.Context, func(harness.Notice)) (harness.Executable, error) {
			return harness.Executable{Path: path, Version: "9.9.9"}, nil
		}
	}
	open := func(opts claude.Options, mode protocol.PermissionMode) error {
		t.Helper()
		opts.NoReaper = true
		spec := harness.Spec{SessionID: "s", Env: []string{"PATH=" + os.Getenv("PATH"), "ANTHROPIC_API_KEY=sk-secret-of-test"},
			Config: protocol.RunConfig{Cwd: t.TempDir(), PermissionMode: mode, APIKey: "sk-other-secret"}}
		s, err := claude.New(opts).Open(t.Context(), spec)
		if err == nil {
			s.Close(t.Context())
			t.Fatal("it started")
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a secret: %v", err)
		}
		return err
	}
	wantOpenError(t, open(claude.Options{Resolve: script(`echo "it is broken: $ANTHROPIC_API_KEY" >&2; exit 3`)}, ""), protocol.CategoryProcessExit, "it is broken: [redacted]")
	wantOpenError(t, open(claude.Options{Resolve: script(`exit 3`)}, ""), protocol.CategoryProcessExit, "status 3")
	wantOpenError(t, open(claude.Options{Resolve: script(`echo "error: unknown option '--x'" >&2; exit 1`)}, ""), protocol.CategoryInvalidRequest, "pinned version")
	wantOpenError(t, open(claude.Options{Resolve: script(`echo junk; cat >/dev/null`), HandshakeTimeout: 200 * time.Millisecond}, ""), protocol.CategoryProcessExit, "did not answer")
	old := func(context.Context, func(harness.Notice)) (harness.Executable, error) {
		return harness.Executable{Path: "/bin/false", Version: "2.1.9"}, nil
	}
	wantOpenError(t, open(claude.Options{Resolve: old}, ""), protocol.CategoryInvalidRequest, "too old")
	gone := func(context.Context, func(harness.Notice)) (harness.Executable, error) {
		return harness.Executable{Path: "/nonexistent/claude"}, nil
	}
	wantOpenError(t, open(claude.Options{Resolve: gone}, ""), protocol.CategoryProcessExit, "could not be started")
	if os.Geteuid() == 0 {
		wantOpenError(t, open(claude.Options{Resolve: gone}, protocol.ModeBypassPermissions), protocol.CategoryInvalidRequest, "IS_SANDBOX")
	}
}
