package process

import (
	"context"
	"slices"
	"time"
)

// An Action is one way of asking a child to end.
type Action int

// The actions, gentle ones first.
const (
	CloseStdin Action = iota // end of its input
	Interrupt                // SIGINT to the child
	Terminate                // SIGTERM to its process group
)

// String is the action's name in logs.
func (a Action) String() string {
	switch a {
	case CloseStdin:
		return "close stdin"
	case Interrupt:
		return "interrupt"
	}
	return "terminate"
}

// A Step does something and gives the child time to end.
type Step struct {
	Do   Action
	Wait time.Duration
}

// A Ladder is what Close tries, in order, before it kills. Each wait ends when the child does. An empty ladder kills at once.
type Ladder []Step

// DefaultLadder suits an agent that ends when its input does: 5 s after that, 2 s after SIGTERM. Do not change it.
var DefaultLadder = Ladder{{CloseStdin, 5 * time.Second}, {Terminate, 2 * time.Second}}

const (
	// sweepGrace is what descendants that outlived the child get between SIGTERM and SIGKILL.
	sweepGrace = 150 * time.Millisecond
	// idleOutput is how long output may lie unread in the pipe while Close waits before it is discarded.
	idleOutput = 250 * time.Millisecond
	// joinBudget bounds the wait for a child that outlived SIGKILL.
	joinBudget = time.Second
)

// Close ends the child, and whatever it started, and returns when nothing of it is left: no process, no goroutine, no open pipe. It goes down the
// ladder until the child has exited, gives descendants that outlived it 150 ms to end after SIGTERM, and kills the rest.
//
// When ctx ends, the rest of the ladder is skipped; the tree is still killed, within seconds. The only error is a [*SurvivorsError], or that the
// process table could not be read.
//
// Close is idempotent. A second call, at the same time or later, waits for the same end and gets the same result; its ladder counts only if it is
// empty, which makes the first one kill at once. A reader should keep reading meanwhile: it gets all that the child writes, and then io.EOF. If
// nobody reads, output that would keep the child from ending is discarded.
func (p *Process) Close(ctx context.Context, ladder Ladder) error {
	if len(ladder) == 0 {
		p.kill()
	}
	p.closeOnce.Do(func() { go p.runClose(slices.Clone(ladder)) }) // every caller of Close waits for it
	select {
	case <-p.closed:
	case <-ctx.Done():
		p.kill()
		<-p.closed
	}
	return p.closeErr
}

// kill ends all patience.
func (p *Process) kill() { p.hurryOnce.Do(func() { close(p.hurry) }) }

func (p *Process) runClose(ladder Ladder) {
	defer close(p.closed)
	p.descend(ladder)
	p.in.close()
	if isClosed(p.done) && !isClosed(p.hurry) { // a child that is still there has had its chance
		p.tree.terminate(sweepGrace, p.hurry)
	}
	p.closeErr = p.killTree()
	if p.closeErr != nil {
		p.log.Warn("process tree not gone", "error", p.closeErr)
	}
	p.out.finish()
	p.errOut.finish()
	select {
	case <-p.done:
	case <-time.After(joinBudget):
		// It cannot be killed. Its goroutine ends when it does.
		close(p.release)
		return
	}
	close(p.release)
	p.wg.Wait()
}

// descend goes down the ladder until the child has exited or patience has ended. Descendants are noted before each step: they lose their
// parents when the child ends.
func (p *Process) descend(ladder Ladder) {
	for _, step := range ladder {
		if isClosed(p.done) || isClosed(p.hurry) {
			break
		}
		_, _ = p.tree.scan()
		p.log.Debug("closing process", "step", step.Do.String(), "wait", step.Wait)
		switch step.Do {
		case CloseStdin:
			p.in.close()
		case Interrupt:
			_ = p.Interrupt() // it may have ended: the wait sees it
		case Terminate:
			_ = p.Terminate()
		}
		p.await(step.Wait)
	}
}

// await waits for the exit, and sees to it that a full pipe does not stand in its way.
func (p *Process) await(wait time.Duration) {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	look := time.NewTicker(idleOutput / 5)
	defer look.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-p.hurry:
			return
		case <-timeout.C:
			return
		case <-look.C:
			if p.out.discardIfAbandoned(idleOutput) {
				look.Reset(time.Millisecond) // more may follow, a pipe full at a time
			}
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
