//go:build linux

package process

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestEcho(t *testing.T) {
	p := start(t, helper("echo"))
	for _, s := range []string{"hello", "", `{"a":1}`} {
		if err := p.WriteLine(t.Context(), []byte(s)); err != nil {
			t.Fatal(err)
		}
		expectLine(t, p, s)
	}
	p.CloseStdin()
	p.CloseStdin()
	expectEOF(t, p)
	expectEOF(t, p)
	expectExit(t, p, "exited with status 0")
}

func TestStartHonoursContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	if _, err := Start(ctx, helper("echo")); !errors.Is(err, errBoom) {
		t.Errorf("got %v", err)
	}
}

func TestChildSeesPlainBlockingPipesItsDirectoryAndNothingElse(t *testing.T) {
	p := start(t, helper("flag"))
	expectExit(t, p, "exited with status 0")

	t.Setenv("PROCESS_TEST_LEAK", "leaked")
	spec := shell(`echo "$PWD"; pwd; ls /proc/self/fd | wc -l; env | grep -c LEAK`)
	spec.Dir = t.TempDir()
	p = start(t, spec)
	expectLine(t, p, spec.Dir)
	expectLine(t, p, spec.Dir)
	expectLine(t, p, strconv.Itoa(4+inheritable(t))) // three, and the directory that ls reads
	expectLine(t, p, "0")
}

// inheritable counts the descriptors above 2 that this process was itself started with and that every child of it gets.
func inheritable(t *testing.T) (n int) {
	t.Helper()
	for fd := 3; fd < 1024; fd++ {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			n++
		}
	}
	return n
}

func TestExitStates(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0": "exited with status 0", "exit 3": "exited with status 3", "exit 143": "exited with status 143",
		"kill -9 $$": "killed by SIGKILL", "kill -15 $$": "killed by SIGTERM",
	} {
		p := start(t, shell(script+"; sleep 600"))
		if script == "exit 0" {
			if _, ok := p.ExitState(); ok && !isClosed(p.Done()) {
				t.Error("an exit state before the exit")
			}
		}
		expectExit(t, p, want)
		expectEOF(t, p)
		if err := p.Interrupt(); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("Interrupt after the exit: %v", err)
		}
		if err := p.WriteLine(t.Context(), []byte("x")); !errors.Is(err, ErrStdinClosed) {
			eventually(t, time.Second, "stdin is closed", func() bool {
				return errors.Is(p.WriteLine(t.Context(), []byte("x")), ErrStdinClosed)
			})
		}
	}
}

func TestExitStateWords(t *testing.T) {
	for _, c := range []struct {
		state ExitState
		text  string
		hint  string
	}{
		{ExitState{}, "exited with status 0", ""},
		{ExitState{Code: 127}, "exited with status 127", "PATH"},
		{ExitState{Code: 126}, "exited with status 126", "chmod"},
		{ExitState{Code: -1, Signal: unix.SIGKILL}, "killed by SIGKILL", "memory"},
		{ExitState{Code: -1, Signal: unix.SIGABRT, CoreDumped: true}, "killed by SIGABRT (core dumped)", ""},
		{ExitState{Code: -1, Signal: 63}, "killed by signal 63", ""},
		{ExitState{Code: -1}, "ended with an unknown status", "wait4"},
	} {
		if c.state.String() != c.text || !strings.Contains(c.state.Hint(), c.hint) || (c.hint == "") != (c.state.Hint() == "") {
			t.Errorf("%+v: got %q, %q", c.state, c.state, c.state.Hint())
		}
		if c.state.Success() != (c.state == ExitState{}) {
			t.Errorf("%v: Success is %v", c.state, c.state.Success())
		}
	}
}

func TestInterruptReachesTheChildAlone(t *testing.T) {
	p := start(t, helper("interrupt"))
	expectLine(t, p, "ready")
	if err := p.Interrupt(); err != nil {
		t.Fatal(err)
	}
	expectExit(t, p, "exited with status 7")
}

func TestTerminateReachesTheGroup(t *testing.T) {
	p := start(t, shell("sleep 600 & echo $!; wait"))
	pid := readPid(t, p)
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	expectExit(t, p, "killed by SIGTERM")
	eventually(t, 5*time.Second, "the grandchild ends", func() bool { return !alive(pid) })
}

func TestKillLeavesOnlyClosing(t *testing.T) {
	p := start(t, shell("setsid sleep 600 & echo $!; sleep 600"))
	readPid(t, p)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	expectExit(t, p, "killed by SIGKILL")
	expectEOF(t, p)
	if left := carriers(t, p.Marker()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Whatever a child wrote before it was killed is delivered, even if another process holds the pipe open and the reader comes late.
func TestNothingWrittenIsLost(t *testing.T) {
	const n = 5000 // fits into the pipe
	p := start(t, shell("sleep 600 & i=0; while [ $i -lt 5000 ]; do echo $i; i=$((i+1)); done; kill -9 $$"))
	expectExit(t, p, "killed by SIGKILL")
	for i := range n {
		expectLine(t, p, strconv.Itoa(i))
	}
	expectEOF(t, p)
}

func TestOutputIsThereAfterClose(t *testing.T) {
	p := start(t, helper("print", "one\ntwo\nthree", "word\n"))
	expectExit(t, p, "exited with status 0")
	if err := p.Close(t.Context(), DefaultLadder); err != nil {
		t.Fatal(err)
	}
	expectLine(t, p, "one")
	expectLine(t, p, "two")
	expectLine(t, p, "three")
	expectEOF(t, p)
	if got := p.StderrTail(0); got != "word" {
		t.Errorf("got stderr %q", got)
	}
}

func TestKilledAtAnyTime(t *testing.T) {
	for range 25 {
		p := start(t, helper("numbers", "200000"))
		time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, func() { _ = unix.Kill(p.Pid(), unix.SIGKILL) })
		n := 0
		for ; ; n++ {
			line, err := p.ReadLine()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := strconv.Itoa(n); string(line) != want && !strings.HasPrefix(want, string(line)) {
				t.Fatalf("got %q, want %q", line, want)
			}
		}
		<-p.Done()
		if st, _ := p.ExitState(); st.Success() && n != 200000 {
			t.Fatalf("%d lines of a child that %v", n, st)
		}
		if err := p.Close(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGrandchildHoldsThePipes(t *testing.T) {
	p := start(t, shell("sleep 600 <&0 & echo $!; echo last; echo word >&2; exit 3"))
	pid := readPid(t, p)
	begin := time.Now()
	expectExit(t, p, "exited with status 3")
	if got := p.StderrTail(0); got != "word" {
		t.Errorf("got stderr %q", got)
	}
	expectLine(t, p, "last")
	expectEOF(t, p)
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("the end of the output took %v", d)
	}
	big := make([]byte, 1<<20)
	if err := p.WriteLine(t.Context(), big); !errors.Is(err, ErrStdinClosed) {
		t.Errorf("got %v", err)
	}
	if !alive(pid) {
		t.Error("the grandchild is gone before Close")
	}
	if err := p.Close(t.Context(), DefaultLadder); err != nil {
		t.Error(err)
	}
	if alive(pid) {
		t.Error("the grandchild has survived Close")
	}
}

func TestTalkativeGrandchildDoesNotKeepTheStreamOpen(t *testing.T) {
	p := start(t, shell("(while :; do echo noise; done) & exit 0"))
	expectExit(t, p, "exited with status 0")
	for begin := time.Now(); ; {
		if _, err := p.ReadLine(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatal("the stream does not end")
		}
	}
}

func TestBigLine(t *testing.T) {
	const size = 32 << 20
	p := start(t, helper("bigline", strconv.Itoa(size)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	line, err := p.ReadLine()
	runtime.ReadMemStats(&after)
	if err != nil || len(line) != size {
		t.Fatalf("got %d bytes, %v", len(line), err)
	}
	if got := float64(after.TotalAlloc-before.TotalAlloc) / size; got > 2.5 {
		t.Errorf("the line cost %.2f times its size", got)
	}
	expectLine(t, p, "after")
	expectEOF(t, p)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+1<<20 {
		t.Errorf("%d bytes are still held", after.HeapAlloc-before.HeapAlloc)
	}
}

func TestLineOverTheLimit(t *testing.T) {
	spec := helper("bigline", strconv.Itoa(3<<20))
	spec.MaxLine = 1 << 20
	p := start(t, spec)
	_, err := p.ReadLine()
	long, ok := errors.AsType[*LineTooLongError](err)
	if !ok || long.Size != 3<<20 || len(long.Head) != lineHead {
		t.Fatalf("got %v", err)
	}
	expectLine(t, p, "after")
	expectEOF(t, p)
}

func TestStderrFloodIsBounded(t *testing.T) {
	const size = 100 << 20
	p := start(t, helper("flood", strconv.Itoa(size)))
	expectExit(t, p, "exited with status 0")
	if got := p.StderrTail(1); got != "the last word" {
		t.Errorf("got %q", got)
	}
	if got := p.StderrTail(0); len(got) > DefaultStderrTail || len(got) < DefaultStderrTail/2 {
		t.Errorf("%d bytes are kept", len(got))
	}
	if p.stderr.total < size || cap(p.stderr.ring) > 2*DefaultStderrTail {
		t.Errorf("%d bytes came, %d are held", p.stderr.total, cap(p.stderr.ring))
	}
}

func TestManyInSequenceLeaveNothing(t *testing.T) {
	run := func() {
		p := start(t, shell("setsid sleep 600 & cat"))
		if err := p.WriteLine(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
		expectLine(t, p, "x")
		if err := p.Close(t.Context(), DefaultLadder); err != nil {
			t.Fatal(err)
		}
	}
	run() // what is made once
	fds, goroutines := countFDs(t), runtime.NumGoroutine()
	for range 100 {
		run()
	}
	eventually(t, 5*time.Second, "goroutines and descriptors are back", func() bool {
		return countFDs(t) == fds && runtime.NumGoroutine() <= goroutines
	})
	if left := carriers(t, markerVar+"="+instanceID()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if zombies := zombieChildren(t); len(zombies) > 0 {
		t.Errorf("zombies: %v", zombies)
	}
}

func countFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func zombieChildren(t *testing.T) (pids []int) {
	t.Helper()
	table, err := processTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range table {
		if row.dead && row.ppid == os.Getpid() {
			pids = append(pids, row.pid)
		}
	}
	return pids
}

func TestChildGetsTheMarkerAndNoReaperVariable(t *testing.T) {
	spec := Spec{Path: "/usr/bin/env"}
	spec.Env = append(spec.Env, reaperVar+"=x", markerVar+"=forged")
	p := start(t, spec)
	expectLine(t, p, markerVar+"="+p.Marker())
	for {
		line, err := p.ReadLine()
		if err != nil {
			break
		}
		if string(line) == reaperVar+"=x" || string(line) == markerVar+"=forged" {
			t.Errorf("got %q", line)
		}
	}
}

func TestRedact(t *testing.T) {
	p := start(t, Spec{Path: "/bin/true", Secrets: []string{"hunter22"}})
	if got := p.Redact("password hunter22."); got != "password [redacted]." {
		t.Errorf("got %q", got)
	}
}

// BenchmarkReadLine reads from a real child.
func BenchmarkReadLine(b *testing.B) {
	p := start(b, Spec{Path: "/usr/bin/yes", Args: []string{strings.Repeat("x", 299)}})
	b.SetBytes(300)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.ReadLine(); err != nil {
			b.Fatal(err)
		}
	}
}
