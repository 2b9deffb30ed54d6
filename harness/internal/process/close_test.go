//go:build linux

package process

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"
)

func TestCloseIsGentleFirst(t *testing.T) {
	for _, c := range []struct {
		mode   string
		ladder Ladder
		want   string
	}{
		{"echo", DefaultLadder, "exited with status 0"},
		{"interrupt", Ladder{{CloseStdin, 20 * time.Millisecond}, {Interrupt, 5 * time.Second}}, "exited with status 7"},
		{"deaf", Ladder{{Terminate, 5 * time.Second}}, "killed by SIGTERM"},
		{"stubborn", Ladder{{CloseStdin, 20 * time.Millisecond}, {Interrupt, 20 * time.Millisecond}, {Terminate, 20 * time.Millisecond}}, "killed by SIGKILL"},
		{"deaf", nil, "killed by SIGKILL"},
	} {
		p := start(t, helper(c.mode))
		if c.mode != "echo" {
			expectLine(t, p, "ready")
		}
		if err := p.Close(t.Context(), c.ladder); err != nil {
			t.Error(err)
		}
		expectExit(t, p, c.want)
	}
}

func TestCloseManyTimesAtOnce(t *testing.T) {
	p := start(t, helper("stubborn"))
	expectLine(t, p, "ready")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			ladder := Ladder{{CloseStdin, time.Hour}}
			if i == 7 {
				ladder = nil // the one in a hurry
			}
			if err := p.Close(t.Context(), ladder); err != nil {
				t.Error(err)
			}
			if alive(p.Pid()) {
				t.Error("Close has returned before the end")
			}
		})
	}
	wg.Wait()
	if err := p.Close(t.Context(), DefaultLadder); err != nil {
		t.Error(err)
	}
}

func TestCloseContextCutsTheLadder(t *testing.T) {
	p := start(t, helper("stubborn"))
	expectLine(t, p, "ready")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Close(ctx, Ladder{{CloseStdin, time.Hour}}); err != nil {
		t.Error(err)
	}
	expectExit(t, p, "killed by SIGKILL")
}

func TestCloseDuringReadLine(t *testing.T) {
	p := start(t, helper("stubborn"))
	expectLine(t, p, "ready")
	got := make(chan error)
	go func() {
		_, err := p.ReadLine()
		got <- err
	}()
	if err := p.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != io.EOF {
		t.Errorf("got %v", err)
	}
}

func TestCloseDuringWriteLine(t *testing.T) {
	p := start(t, helper("deaf"))
	expectLine(t, p, "ready")
	got := make(chan error)
	go func() { got <- p.WriteLine(context.Background(), make([]byte, 1<<20)) }()
	if err := p.Close(t.Context(), Ladder{{CloseStdin, 20 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err == nil {
		t.Error("the write has succeeded")
	}
}

// A child that has more to say than a pipe holds ends by itself even though nobody listens.
func TestCloseDiscardsWhatNobodyReads(t *testing.T) {
	p := start(t, helper("numbers", "500000"))
	expectLine(t, p, "0")
	if err := p.Close(t.Context(), Ladder{{CloseStdin, 20 * time.Second}}); err != nil {
		t.Fatal(err)
	}
	expectExit(t, p, "exited with status 0")
	for {
		if _, err := p.ReadLine(); err != nil {
			if err != errDiscarded {
				t.Errorf("got %v", err)
			}
			break
		}
	}
}

func TestCloseLetsDescendantsEndWell(t *testing.T) {
	file := t.TempDir() + "/done"
	p := start(t, shell(`setsid sh -c 'trap "echo ok > `+file+`; exit" TERM; echo ready; while :; do sleep 0.01; done' & cat`))
	expectLine(t, p, "ready")
	if err := p.Close(t.Context(), DefaultLadder); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, file); got != "ok\n" {
		t.Errorf("got %q", got)
	}
}
