//go:build linux

package process

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// modeVar makes the test binary play a child.
const modeVar = "PROCESS_TEST_MODE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVar); mode != "" {
		os.Exit(play(mode, os.Args[1:]))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		StopReaper()
		os.Exit(code)
	}))
}

// play is what the children do.
func play(mode string, args []string) int {
	switch mode {
	case "exit":
		code, _ := strconv.Atoi(args[0])
		return code
	case "echo": // copies lines until the end of stdin
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "print": // stdout, stderr
		fmt.Print(args[0])
		if len(args) > 1 {
			fmt.Fprint(os.Stderr, args[1])
		}
	case "stubborn": // ignores everything but SIGKILL
		signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
		fmt.Println("ready")
		forever()
	case "interrupt": // exits with 7 on SIGINT
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGINT)
		fmt.Println("ready")
		<-c
		return 7
	case "deaf": // never reads stdin
		fmt.Println("ready")
		forever()
	case "late": // reads nothing for a while, then echoes
		fmt.Println("ready")
		time.Sleep(300 * time.Millisecond)
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "bigline":
		n, _ := strconv.Atoi(args[0])
		writeBig(os.Stdout, n)
		fmt.Println("after")
	case "flood": // so many bytes on stderr, then a last word
		n, _ := strconv.Atoi(args[0])
		line := bytes.Repeat([]byte("0123456789abcdef"), 64)
		line[len(line)-1] = '\n'
		for ; n > 0; n -= len(line) {
			_, _ = os.Stderr.Write(line)
		}
		fmt.Fprintln(os.Stderr, "the last word")
	case "numbers":
		n, _ := strconv.Atoi(args[0])
		w := bufio.NewWriter(os.Stdout)
		for i := range n {
			fmt.Fprintln(w, i)
		}
		_ = w.Flush()
		if len(args) > 1 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
	case "respawn": // children in sessions of their own that start a successor when they are told to end, and without end
		respawn(args)
	case "flag": // exits 3 if its output is in non-blocking mode
		for fd := range 3 {
			flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			if flags&unix.O_NONBLOCK != 0 {
				return 3
			}
		}
	case "init": // is pid 1 to its descendants; prints how many zombies are left after closing
		return beInit(args[0])
	case "server": // starts what args say and then waits to be killed
		return serve(args)
	default:
		fmt.Fprintln(os.Stderr, "no such mode:", mode)
		return 2
	}
	return 0
}

func writeBig(w io.Writer, n int) {
	b := bytes.Repeat([]byte{'x'}, 64<<10)
	for n > 0 {
		m, err := w.Write(b[:min(n, len(b))])
		if err != nil {
			return
		}
		n -= m
	}
	_, _ = w.Write([]byte{'\n'})
}

// respawn keeps a chain of processes alive: each, in a session of its own, starts the next one and lives a little longer.
func respawn(args []string) {
	signal.Ignore(unix.SIGTERM)
	if len(args) > 0 { // the first one stays
		for range 3 {
			startNext()
		}
		fmt.Println("ready")
		forever()
	}
	time.Sleep(20 * time.Millisecond)
	startNext()
	time.Sleep(20 * time.Millisecond)
}

func startNext() {
	cmd := exec.Command("/proc/self/exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = cmd.Start()
}

// serve is an agent server in small: it starts a shell child with a tree and reports the pids.
func serve(args []string) int {
	p, err := Start(context.Background(), Spec{Path: "/bin/sh", Args: []string{"-c", args[0]}, Env: os.Environ()})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	line, err := p.ReadLine()
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("tree", string(line), p.Pid(), guard.proc.Pid, p.Marker())
	if len(args) > 1 { // clean end
		err = p.Close(context.Background(), nil)
		fmt.Println("closed", err)
		return 0
	}
	forever()
	return 0
}

// beInit inherits the orphans of a child's tree, closes the child, and returns the number of zombies.
func beInit(script string) int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 100
	}
	p, err := Start(context.Background(), Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ()})
	if err != nil {
		return 101
	}
	if _, err = p.ReadLine(); err != nil {
		return 102
	}
	if p.Close(context.Background(), DefaultLadder) != nil {
		return 103
	}
	table, err := processTable()
	if err != nil {
		return 104
	}
	zombies := 0
	for _, row := range table {
		if row.dead && row.ppid == os.Getpid() {
			zombies++
		}
	}
	return zombies
}

// helper returns the spec of a child that plays mode.
func helper(mode string, args ...string) Spec {
	return Spec{Path: "/proc/self/exe", Args: args, Env: []string{modeVar + "=" + mode, "PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}}
}

// shell returns the spec of a shell child.
func shell(script string) Spec {
	return Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
}

// start starts a child that the test's end kills.
func start(t testing.TB, spec Spec) *Process {
	t.Helper()
	p, err := Start(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background(), nil); err != nil {
			t.Error(err)
		}
	})
	return p
}

func expectLine(t testing.TB, p *Process, want string) {
	t.Helper()
	line, err := p.ReadLine()
	if err != nil || string(line) != want {
		t.Fatalf("got line %.100q, %v; want %q; stderr %q", line, err, want, p.StderrTail(5))
	}
}

func expectEOF(t testing.TB, p *Process) {
	t.Helper()
	if line, err := p.ReadLine(); err != io.EOF {
		t.Fatalf("got line %.100q, %v; want io.EOF", line, err)
	}
}

func expectExit(t testing.TB, p *Process, want string) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the exit is not reported")
	}
	if st, ok := p.ExitState(); !ok || st.String() != want {
		t.Fatalf("got %v, %v; want %q; stderr %q", st, ok, want, p.StderrTail(5))
	}
}

// readPid reads a line that holds a pid.
func readPid(t testing.TB, p *Process) int {
	t.Helper()
	line, err := p.ReadLine()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(line)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	row, err := readProc(pid)
	return err == nil && !row.dead
}

func itoa(n int) string { return strconv.Itoa(n) }

// eventually polls.
func eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// carriers returns the pids of all processes whose environment holds the text.
func carriers(t testing.TB, text string) []int {
	t.Helper()
	table, err := processTable()
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, row := range table {
		environ, _ := readEnviron(row.pid, nil) // a process may be gone meanwhile
		if !row.dead && row.pid != os.Getpid() && bytes.Contains(environ, []byte(text)) {
			pids = append(pids, row.pid)
		}
	}
	return pids
}

// forever blocks; select {} would be taken for a deadlock.
func forever() { time.Sleep(time.Hour) }
