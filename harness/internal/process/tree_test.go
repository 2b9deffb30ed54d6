//go:build linux

package process

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCloseSweepsTheTree(t *testing.T) {
	for name, script := range map[string]string{
		"sessions of their own":     "setsid sleep 600 & setsid setsid sleep 601 & echo 2; sleep 602",
		"orphans":                   "(setsid sleep 600 &); (sleep 601 &); echo 2; sleep 602",
		"no environment":            "env -i /usr/bin/setsid sleep 600 & env -i sleep 601 & echo 2; sleep 602",
		"the child is gone already": "(setsid sleep 600 &); (setsid sleep 601 &); echo 2; exit 0",
		"orphans without environment in groups of their own": "set -m; (env -i sleep 600 &); (env -i sleep 601 &); echo 2; sleep 602",
		"wrapper": `sh -c 'sh -c "setsid sleep 600 & setsid sleep 601 & wait" & wait' & echo 2; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, shell(script))
			expectLine(t, p, "2")
			var pids []int
			eventually(t, 5*time.Second, "the tree is complete", func() bool {
				var err error
				pids, err = p.Tree()
				sleeps := 0
				for _, pid := range pids {
					cmdline, _ := readInto("/proc/"+itoa(pid)+"/cmdline", nil, 100)
					if bytes.HasPrefix(cmdline, []byte("sleep\x00")) {
						sleeps++
					}
				}
				return err == nil && sleeps >= 2
			})
			begin := time.Now()
			if err := p.Close(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d processes gone in %v", len(pids), time.Since(begin))
			for _, pid := range pids {
				if alive(pid) {
					t.Errorf("%d is alive", pid)
				}
			}
		})
	}
}

func TestCloseOutrunsRespawningChildren(t *testing.T) {
	p := start(t, helper("respawn", "first"))
	expectLine(t, p, "ready")
	eventually(t, 5*time.Second, "they run", func() bool { return len(carriers(t, p.Marker())) >= 3 })
	begin := time.Now()
	if err := p.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("gone in %v", time.Since(begin))
	if left := carriers(t, p.Marker()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A recycled pid is another process.
func TestSignalsGoByStartTime(t *testing.T) {
	p := start(t, helper("deaf"))
	expectLine(t, p, "ready")
	row, err := readProc(p.Pid())
	if err != nil {
		t.Fatal(err)
	}
	row.start--
	if signalProc(row, unix.SIGKILL) {
		t.Error("the signal was sent")
	}
	row.start++
	if !signalProc(row, unix.SIGKILL) {
		t.Error("the signal was not sent")
	}
	expectExit(t, p, "killed by SIGKILL")
}

// As pid 1 of a container, or another subreaper, we inherit orphans and have to reap them.
func TestInheritedOrphansAreReaped(t *testing.T) {
	p := start(t, helper("init", "(setsid sleep 600 &); (sleep 601 &); echo 2; cat"))
	expectExit(t, p, "exited with status 0")
}

// Without file descriptors nothing can be seen, which must not be taken for an empty tree.
func TestSweepWaitsForFileDescriptors(t *testing.T) {
	p := start(t, shell("setsid sleep 600 & echo $!; wait"))
	pid := readPid(t, p)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		<-time.After(100 * time.Millisecond)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	})
	err := p.Close(t.Context(), nil)
	wg.Wait()
	if err != nil {
		t.Error(err)
	}
	if alive(pid) {
		t.Error("the grandchild has survived")
	}
}

func TestTreesAreApart(t *testing.T) {
	a, b := start(t, shell("setsid sleep 600 & echo $!; wait")), start(t, shell("setsid sleep 600 & echo $!; wait"))
	readPid(t, a)
	pid := readPid(t, b)
	if err := a.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if !alive(b.Pid()) || !alive(pid) {
		t.Error("closing one tree has hit the other")
	}
}

func TestParseStat(t *testing.T) {
	tail := " 7 8 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 "
	for _, c := range []struct {
		stat string
		want proc
		ok   bool
	}{
		{"5 (a) b) (c) S" + tail + "1 0 4711 0 0\n", proc{pid: 5, ppid: 7, pgrp: 8, session: 9, start: 4711}, true},
		{"5 (z) Z" + tail + "1 0 4711 0 0\n", proc{pid: 5, ppid: 7, pgrp: 8, session: 9, start: 4711, dead: true}, true},
		{"5 (half dead) Z" + tail + "3 0 4711 0 0\n", proc{pid: 5, ppid: 7, pgrp: 8, session: 9, start: 4711}, true},
		{"5 (short) S 1 2 3", proc{}, false},
		{"", proc{}, false},
	} {
		if got, ok := parseStat(5, []byte(c.stat)); ok != c.ok || got != c.want {
			t.Errorf("%q: got %+v, %v", c.stat, got, ok)
		}
	}
}

func TestEnvironHas(t *testing.T) {
	match := func(e []byte) bool { return string(e) == "b-2" }
	for environ, want := range map[string]bool{
		"AGENT_SERVER_PROCESS=b-2":                                           true,
		"A=1\x00AGENT_SERVER_PROCESS=a-1:b-2:c-3\x00B=2\x00":                 true,
		"A=1\x00AGENT_SERVER_PROCESS=b-22\x00":                               false,
		"A=AGENT_SERVER_PROCESS=b-2\x00":                                     false,
		"XAGENT_SERVER_PROCESS=b-2\x00":                                      false,
		"XAGENT_SERVER_PROCESS=b-2\x00AGENT_SERVER_PROCESS=b-2\x00":          true,
		"AGENT_SERVER_PROCESS=AGENT_SERVER_PROCESS=b-2\x00":                  false,
		"AGENT_SERVER_PROCESS=x\x00AGENT_SERVER_PROCESS=y:b-2\x00more=1\x00": true,
		"": false,
	} {
		if got := environHas([]byte(environ), match); got != want {
			t.Errorf("%q: got %v", environ, got)
		}
	}
}

// A server in another server's agent: the outer one finds what the inner one starts.
func TestMarkersNest(t *testing.T) {
	t.Setenv(markerVar, "outer-1")
	p := start(t, shell("sleep 600"))
	outer := &tree{match: func(e []byte) bool { return string(e) == "outer-1" }, known: map[int]uint64{}}
	eventually(t, 5*time.Second, "the outer server finds it", func() bool {
		members, err := outer.scan()
		return err == nil && slices.ContainsFunc(members, func(m proc) bool { return m.pid == p.Pid() })
	})
	if ownMarker(p.Marker()) == p.Marker() {
		t.Errorf("the marker is %q", p.Marker())
	}
}

func TestMarkerLabel(t *testing.T) {
	if m := newMarker("a/b:c=\x00ä-1"); !bytes.HasSuffix([]byte(m), []byte("-abc-1")) {
		t.Errorf("got %q", m)
	}
}

func BenchmarkScan(b *testing.B) {
	p := start(b, helper("deaf"))
	expectLine(b, p, "ready")
	for b.Loop() {
		if _, err := p.Tree(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestKillOrphans: only what runs the named program and has lost its parent goes, with what descends from it.
func TestKillOrphans(t *testing.T) {
	p := start(t, shell(`(setsid bash -c 'exec -a helper bash -c "setsid sleep 7001 & wait"' &); (setsid sleep 7002 &); bash -c 'exec -a helper sleep 7003' & cat`))
	runs := func(argv ...string) bool {
		pids, err := p.Tree()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(pids, func(pid int) bool {
			raw, _ := os.ReadFile("/proc/" + itoa(pid) + "/cmdline") // it may be gone
			return string(raw) == strings.Join(argv, "\x00")+"\x00"
		})
	}
	eventually(t, 20*time.Second, "the tree is up", func() bool { return runs("sleep", "7001") && runs("sleep", "7002") && runs("helper", "7003") })
	if err := p.KillOrphans("helper"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "what the lost helper ran is gone", func() bool { return !runs("sleep", "7001") })
	if !runs("sleep", "7002") || !runs("helper", "7003") {
		t.Error("another orphan, or a helper that is still held, was killed")
	}
}
