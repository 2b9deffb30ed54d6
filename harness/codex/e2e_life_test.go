package codex_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentserver/harness"
	"agentserver/protocol"
)

func TestRealInterruptText(t *testing.T) {
	r := newRig(t).open()
	r.send("HANG some text")
	r.until("text", isText)
	r.interrupt()
	res := r.finish()
	wantEnd(t, res, protocol.StopCancelled)
	r.interrupt() // nothing runs: no effect on the next turn
	res = r.turn("SAY fine")
	wantEnd(t, res, protocol.StopEndTurn)
	wantText(t, res, "fine")
}

// An interrupt at once after Send, which codex would refuse or forget.
func TestRealInterruptAtOnce(t *testing.T) {
	r := newRig(t).open()
	for range 5 {
		r.send("HANG")
		r.interrupt()
		wantEnd(t, r.finish(), protocol.StopCancelled)
	}
	wantText(t, r.turn("SAY fine"), "fine")
}

// Codex leaves a command running when its turn is interrupted.
func TestRealInterruptCommand(t *testing.T) {
	for _, mode := range []protocol.PermissionMode{protocol.ModeAcceptEdits, protocol.ModeBypassPermissions} {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t)
			r.spec.Config.PermissionMode = mode
			r.open()
			r.send("SHELL echo begin; sleep 7961")
			r.until("the command", toolIs(protocol.ToolStatusInProgress))
			r.interrupt()
			res := r.finish()
			wantEnd(t, res, protocol.StopCancelled)
			if len(res.end.Background) > 0 || res.tools[0].State.Status() != protocol.ToolStatusCancelled {
				t.Errorf("background %v, %#v", res.end.Background, res.tools[0].State)
			}
			eventually(t, "the command is gone", func() bool { return len(processes(t, "sleep 7961", r.home)) == 0 })
			wantText(t, r.turn("SAY fine"), "fine")
		})
	}
}

func TestRealInterruptApproval(t *testing.T) {
	r := newRig(t).open()
	r.onPermission = func(harness.Permission) harness.Decision { return harness.Decision{Message: "no answer"} }
	r.send("SHELLESC touch made")
	ask := r.until("the permission", func(e harness.Event) bool { _, ok := e.(harness.Permission); return ok }).(harness.Permission)
	r.interrupt()
	withdrawn := 0
	r.on = func(e harness.Event) {
		if w, ok := e.(harness.PermissionWithdrawn); ok && w.Key == ask.Key {
			withdrawn++
		}
	}
	wantEnd(t, r.finish(), protocol.StopCancelled)
	if withdrawn != 1 {
		t.Errorf("withdrawn %d times", withdrawn)
	}
	if err := ask.Decide(harness.Decision{Allow: true}); err != nil { // too late
		t.Error(err)
	}
	wantText(t, r.turn("SAY fine"), "fine")
	if _, err := os.Stat(filepath.Join(r.spec.Config.Cwd, "made")); err == nil {
		t.Error("the command was run")
	}
}

func TestRealSteer(t *testing.T) {
	r := newRig(t)
	r.spec.Config.PermissionMode = protocol.ModeAcceptEdits
	r.open()
	steer := func(text string) bool {
		t.Helper()
		ok, err := r.s.(harness.Steerer).Steer(t.Context(), protocol.Text(text))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if steer("SAY nothing") {
		t.Error("a steer was taken with nothing running")
	}
	r.send("HANG some text")
	r.until("text", isText)
	if !steer("SAY other text") {
		t.Error("a steer in a text was not taken")
	}
	res := r.finish()
	wantEnd(t, res, protocol.StopEndTurn)
	wantText(t, res, "other text")

	r.send("SHELL sleep 1")
	r.until("the command", toolIs(protocol.ToolStatusInProgress))
	if !steer("hurry up") {
		t.Error("a steer in a command was not taken")
	}
	wantText(t, r.finish(), "hurry up")
}

func TestRealResumeAfterKill(t *testing.T) {
	r := newRig(t).open()
	native := ""
	r.on = func(e harness.Event) {
		if s, ok := e.(harness.SessionStarted); ok {
			native = s.NativeSessionID
		}
	}
	wantEnd(t, r.turn("USAGE 1000 0 0 1000\nSAY the first turn"), protocol.StopEndTurn)
	r.send("HANG cut")
	r.until("text", isText)
	r.s.(harness.Killer).Kill()
	res := r.finish()
	if res.exit == nil || res.exit.Error == nil || res.exit.Error.Category != protocol.CategoryProcessExit {
		t.Fatalf("exit %+v", res.exit)
	}
	if err := r.s.Send(t.Context(), harness.Turn{ID: "x", Input: protocol.Text("SAY x")}); err == nil {
		t.Error("a dead session took a turn")
	}
	r.close()

	r.spec.Resume = native
	var resumed *bool
	r.on = func(e harness.Event) {
		if s, ok := e.(harness.SessionStarted); ok {
			native, resumed = s.NativeSessionID, s.Resumed
		}
	}
	r.open()
	res = r.turn("USAGE 7 0 0 5\nSAY resumed")
	wantText(t, res, "resumed")
	if native != r.spec.Resume || resumed == nil || !*resumed {
		t.Errorf("session %s, resumed %v", native, resumed)
	}
	if got := res.end.Tokens; got == nil || got.Input != 7 || got.Output != 5 {
		t.Errorf("tokens %s: those of earlier turns are not this one's", input(got))
	}
	calls := r.model.Calls()
	if body := string(calls[len(calls)-1].Body); !strings.Contains(body, "the first turn") {
		t.Error("the model was not told of the first turn")
	}
	r.close()

	for _, id := range []string{"01a22ebd-383e-7ca0-9314-e8b763244d6c", "not-a-uuid"} {
		r.spec.Resume = id
		r.open()
		wantText(t, r.turn("SAY anew"), "anew")
		if resumed == nil || *resumed || native == id {
			t.Errorf("%s: resumed %v", id, resumed)
		}
		r.close()
	}
}

func TestRealCrash(t *testing.T) {
	r := newRig(t).open()
	r.send("HANG cut")
	r.until("text", isText)
	for _, pid := range processes(t, "app-server", r.home) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	res := r.finish()
	if res.exit == nil || res.exit.Error == nil || !strings.Contains(res.exit.Error.Message, "SIGKILL") || strings.Contains(res.exit.Error.Message, "bubblewrap") {
		t.Errorf("exit %+v", res.exit)
	}
}

func TestRealErrors(t *testing.T) {
	r := newRig(t).open()
	for _, c := range []struct {
		script   string
		category protocol.ErrorCategory
		text     string
	}{
		{"ERR 401", protocol.CategoryAuth, "config.apiKey"},
		{"ERR 403", protocol.CategoryAuth, ""},
		{"ERR 429", protocol.CategoryRateLimit, "429"},
		{"ERR usage", protocol.CategoryUsageLimit, ""},
		{"ERR quota", protocol.CategoryUsageLimit, ""},
		{"ERR 500", protocol.CategoryInternal, ""},
		{"ERR overloaded", protocol.CategoryRateLimit, "capacity"},
		{"ERR context", protocol.CategoryContextLimit, ""},
		{"ERR badreq", protocol.CategoryInvalidRequest, ""},
		{"ERR modelnotfound", protocol.CategoryInvalidRequest, "config.model"},
		{"ERR drop", protocol.CategoryNetwork, ""},
		{"DROP", protocol.CategoryNetwork, ""},
	} {
		res := r.turn(c.script)
		if res.end.Error == nil || res.end.Error.Category != c.category || !strings.Contains(res.end.Error.Message, c.text) {
			t.Errorf("%s: %s %+v, want %s with %q", c.script, res.end.StopReason, res.end.Error, c.category, c.text)
		}
	}
	wantEnd(t, r.turn("MAXTOK"), protocol.StopMaxTokens)
	wantText(t, r.turn("SAY fine"), "fine")
}

func TestRealRetry(t *testing.T) {
	r := newRig(t)
	for i, arg := range r.opts.Args {
		r.opts.Args[i] = strings.Replace(arg, "stream_max_retries=0", "stream_max_retries=3", 1)
	}
	r.open()
	res := r.turn("ERRN 401 1")
	wantEnd(t, res, protocol.StopEndTurn)
	wantText(t, res, "ok after 1 failures")
	var failures []harness.Failure
	var notices []harness.Notice
	for _, e := range res.events {
		switch e := e.(type) {
		case harness.Failure:
			failures = append(failures, e)
		case harness.Notice:
			notices = append(notices, e)
		}
	}
	if len(failures) != 1 || failures[0].Category != protocol.CategoryAuth || len(notices) != 1 || notices[0].Kind != protocol.NoticeRetry || notices[0].Progress == nil {
		t.Errorf("failures %+v, notices %+v", failures, notices)
	}
}

// Without a network codex waits for ever.
func TestRealNoNetwork(t *testing.T) {
	for _, mk := range []func(*testing.T) *rig{newRig, newExecRig} {
		t.Run("", func(t *testing.T) {
			r := mk(t)
			for i, arg := range r.opts.Args {
				r.opts.Args[i] = strings.Replace(arg, r.model.URL(), "http://127.0.0.1:9", 1)
			}
			r.opts.NetworkWait = 500 * time.Millisecond
			r.open()
			wantError(t, r.turn("SAY x"), protocol.CategoryNetwork, "network")
		})
	}
}

func TestRealBigOutput(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes, with the race detector")
	}
	r := newRig(t).open()
	res := r.turn("BIGDELTA 8388608")
	wantEnd(t, res, protocol.StopEndTurn)
	if len(res.text) != 8<<20 {
		t.Errorf("%d bytes", len(res.text))
	}
	done := r.turn("SHELL head -c 2000000 /dev/zero").completed(t, 0)
	if len(done.Output) < 1<<20 || !strings.Contains(done.Output, "omitted") {
		t.Errorf("%d bytes of output", len(done.Output))
	}
}

// Two sessions at once, with a CODEX_HOME in common.
func TestRealParallelSessions(t *testing.T) {
	a := newRig(t)
	b := *a
	b.spec.Config.Cwd = t.TempDir()
	a.open()
	b.open()
	var wg sync.WaitGroup
	for i, r := range []*rig{a, &b} {
		wg.Go(func() {
			for n := range 3 {
				word := fmt.Sprintf("session %d turn %d", i, n)
				if res := r.turn("SHELL echo " + word); len(res.tools) != 1 || !strings.Contains(res.text, word) {
					t.Errorf("%s: %d calls, text %q", word, len(res.tools), res.text)
				}
			}
		})
	}
	wg.Wait()
}

// A command that outlives its turn goes on, and its part ends when it does.
func TestRealBackgroundCommand(t *testing.T) {
	r := newRig(t)
	r.spec.Config.PermissionMode = protocol.ModeBypassPermissions
	r.open()
	res := r.turn(`TOOL exec_command {"cmd":"echo start; sleep 1; echo end","yield_time_ms":300}`)
	wantEnd(t, res, protocol.StopEndTurn)
	if len(res.end.Background) != 1 || res.end.Background[0] != res.tools[0].ToolCallID {
		t.Fatalf("background %v", res.end.Background)
	}
	e := r.until("its end", toolIs(protocol.ToolStatusCompleted)).(harness.PartUpdate)
	if done := e.Part.(*protocol.ToolPart).State.(*protocol.ToolCompleted); done.Output != "start\nend\n" || e.Key != res.end.Background[0] {
		t.Errorf("%s: %q", e.Key, done.Output)
	}
}

// A resolver that fails, and a codex that does not start.
func TestRealStartFailures(t *testing.T) {
	r := newRig(t)
	r.spec.Env = append(r.spec.Env, "CODEX_HOME="+filepath.Join(r.home, "nothing"))
	_, err := r.make(r.opts).Open(t.Context(), r.spec)
	if err == nil || !strings.Contains(err.Error(), "CODEX_HOME") {
		t.Errorf("no home: %v", err)
	}
	r.spec.Config.Cwd = filepath.Join(r.home, "nothing")
	if _, err = r.make(r.opts).Open(t.Context(), r.spec); err == nil || !strings.Contains(err.Error(), "config.cwd") {
		t.Errorf("no cwd: %v", err)
	}
	r.opts.MinVersion = "99.0"
	if _, err = r.make(r.opts).Open(t.Context(), r.spec); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("too old: %v", err)
	}
}

func TestRealCloseInTheMiddle(t *testing.T) {
	r := newRig(t)
	r.spec.Config.PermissionMode = protocol.ModeBypassPermissions
	r.open()
	r.send("SHELL setsid sleep 7962")
	r.until("the command", toolIs(protocol.ToolStatusInProgress))
	start := time.Now()
	r.close()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("closing took %s", took)
	}
	if pids := processes(t, "", r.home); len(pids) > 0 {
		t.Errorf("processes %v remain", pids)
	}
	if _, err := r.s.Recv(context.Background()); err == nil {
		// What was queued is still delivered; the end comes after it.
		for err == nil {
			_, err = r.s.Recv(context.Background())
		}
	}
}

// processes returns those whose environment has the rig's home and whose command line holds text.
func processes(t *testing.T, text, home string) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		command, _ := os.ReadFile(dir + "/cmdline") // it may be gone
		env, _ := os.ReadFile(dir + "/environ")
		if len(command) > 0 && strings.Contains(string(env), home) && strings.Contains(strings.ReplaceAll(string(command), "\x00", " "), text) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}
