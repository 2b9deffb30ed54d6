package process

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
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
	expectEOF(t, p)
	expectExit(t, p, "exited with status 0")
}

func TestExitStates(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0": "exited with status 0", "exit 3": "exited with status 3", "exit 143": "exited with status 143",
		"kill -9 $$": "killed by SIGKILL", "kill -15 $$": "killed by SIGTERM",
	} {
		p := start(t, shell(script))
		expectExit(t, p, want)
		expectEOF(t, p)
	}
}

func TestGrandchildHoldsStdout(t *testing.T) {
	p := start(t, shell("sleep 600 & echo $!; echo last; exit 3"))
	pid := readPid(t, p)
	begin := time.Now()
	expectExit(t, p, "exited with status 3")
	expectLine(t, p, "last")
	expectEOF(t, p)
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("the end of the output took %v", d)
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

func TestCloseKillsSetsidChildren(t *testing.T) {
	p := start(t, shell("setsid sleep 600 & setsid setsid sleep 601 & echo $$; sleep 602"))
	readPid(t, p)
	eventually(t, 5*time.Second, "three sleeps", func() bool { return len(carriers(t, p.Marker())) >= 4 })
	begin := time.Now()
	if err := p.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("closed in %v", time.Since(begin))
	if left := carriers(t, p.Marker()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestDeafChild(t *testing.T) {
	spec := helper("deaf")
	spec.WriteStall = 200 * time.Millisecond
	p := start(t, spec)
	expectLine(t, p, "ready")
	big := []byte(strings.Repeat("x", 1<<20))
	var werr *WriteError
	if err := p.WriteLine(t.Context(), big); !errors.Is(err, ErrStdinStalled) || !errors.As(err, &werr) || !werr.Begun {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	if err := p.WriteLine(ctx, big); !errors.Is(err, errBoom) {
		t.Fatalf("got %v", err)
	}
}

func TestCloseDuringReadLine(t *testing.T) {
	p := start(t, helper("stubborn"))
	expectLine(t, p, "ready")
	got := make(chan error)
	go func() {
		_, err := p.ReadLine()
		got <- err
	}()
	if err := p.Close(t.Context(), Ladder{{CloseStdin, 50 * time.Millisecond}, {Terminate, 50 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != io.EOF {
		t.Errorf("got %v", err)
	}
	expectExit(t, p, "killed by SIGKILL")
}
