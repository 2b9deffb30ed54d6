package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Defaults of [Spec].
const (
	DefaultMaxLine    = 64 << 20         // bytes
	DefaultStderrTail = 64 << 10         // bytes
	DefaultWriteStall = 30 * time.Second // without one byte taken
)

// outputGrace is how long the child's output may be silent after its exit before a reader that a grandchild keeps waiting gets io.EOF.
const outputGrace = 250 * time.Millisecond

// Spec says what to run. Only Path is required.
type Spec struct {
	// Path is the executable: absolute, or a bare name that is looked up in this process's PATH. It is never given to a shell.
	Path string
	// Args are the arguments after argv[0].
	Args []string
	// Dir is the working directory; empty means this process's own. PWD in the child is set to it.
	Dir string
	// Env is the child's whole environment as NAME=value, see [Env]. Nil is an empty environment, never the inherited one.
	Env []string
	// MaxLine is the longest line of output in bytes, without its line ending, that is delivered; 0 means DefaultMaxLine. A longer one is
	// skipped, see [LineTooLongError].
	MaxLine int
	// StderrTail is how many of the last bytes of stderr are kept; 0 means DefaultStderrTail.
	StderrTail int
	// Marker is an optional label, such as a session id, for people who look at the child's environment. It need not be unique.
	Marker string
	// Secrets are strings that [Process.StderrTail] and [Process.Redact] blank. Those under 4 bytes are ignored.
	Secrets []string
	// WriteStall is how long a write may wait for a child that takes no byte; 0 means DefaultWriteStall.
	WriteStall time.Duration
	// NoReaper leaves this child without the protection against a SIGKILL of this process.
	NoReaper bool
	// Logger gets starts, exits and closing steps; nil means none. Arguments, environment and output are never logged.
	Logger *slog.Logger
}

// A Process is a running child and, once it has ended, what remains of it. Whoever starts one must Close it: until then the pipes are open
// and, on Linux, the dead child stays a zombie so that its pid cannot be given to a stranger.
//
// ReadLine is for one goroutine; all other methods are safe to call concurrently with it and with each other.
type Process struct {
	spec   Spec
	marker string
	log    *slog.Logger
	cmd    *exec.Cmd

	in     *input
	out    *output
	errOut *output
	lines  *lineReader
	stderr *tail
	tree   *tree

	done chan struct{} // closed when exit is set
	exit ExitState

	reapMu  sync.Mutex // held to signal the group, and to reap
	reaped  bool
	release chan struct{} // closed by Close: the zombie may be reaped

	wg        sync.WaitGroup // watchExit and the stderr drain
	closeOnce sync.Once
	hurry     chan struct{} // closed: no more patience, kill
	hurryOnce sync.Once
	closed    chan struct{} // closed when closeErr is set
	closeErr  error
}

// Start runs the child. ctx bounds the attempt only: once Start has returned, ctx no longer matters. An error is a [*StartError] that says what
// to do, or ctx's.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("process: start %s: %w", filepath.Base(spec.Path), context.Cause(ctx))
	}
	spec = spec.withDefaults()
	if !spec.NoReaper {
		guard.ensure(spec.Logger)
	}
	pipes, err := openPipes()
	if err != nil {
		return nil, &StartError{Path: spec.Path, Dir: spec.Dir, Err: err,
			Hint: "no pipe could be made: raise the limit of open files (ulimit -n), or close some sessions"}
	}
	marker := newMarker(spec.Marker)
	cmd := command(spec, marker, pipes)
	err = cmd.Start()
	pipes.closeChild()
	if err != nil {
		pipes.closeOurs()
		return nil, diagnose(spec, err)
	}
	return supervise(spec, marker, cmd, pipes), nil
}

func (s Spec) withDefaults() Spec {
	if s.MaxLine <= 0 {
		s.MaxLine = DefaultMaxLine
	}
	if s.StderrTail <= 0 {
		s.StderrTail = DefaultStderrTail
	}
	if s.WriteStall <= 0 {
		s.WriteStall = DefaultWriteStall
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	return s
}

func command(spec Spec, marker string, pipes *pipes) *exec.Cmd {
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	set := map[string]string{}
	if spec.Dir != "" {
		if abs, err := filepath.Abs(spec.Dir); err == nil {
			set["PWD"] = abs
		}
	}
	// The marker goes first: a scan then finds it in the first bytes of most environments.
	cmd.Env = append([]string{markerVar + "=" + marker}, Env(spec.Env, Names(markerVar, reaperVar), set)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes.stdin, pipes.stdout, pipes.stderr
	// A session of its own is a process group of its own, and has no terminal: what asks for a password there fails instead of being stopped.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

func supervise(spec Spec, marker string, cmd *exec.Cmd, pipes *pipes) *Process {
	p := &Process{
		spec:    spec,
		marker:  marker,
		log:     spec.Logger.With("pid", cmd.Process.Pid, "program", filepath.Base(spec.Path)),
		cmd:     cmd,
		in:      newInput(pipes.toChild, spec.WriteStall),
		out:     newOutput(pipes.fromStdout, outputGrace),
		errOut:  newOutput(pipes.fromStderr, 0),
		stderr:  newTail(spec.StderrTail, spec.Secrets),
		tree:    newTree(cmd.Process.Pid, marker),
		done:    make(chan struct{}),
		release: make(chan struct{}),
		hurry:   make(chan struct{}),
		closed:  make(chan struct{}),
	}
	p.lines = newLineReader(p.out, spec.MaxLine)
	p.log.Debug("process started")
	p.wg.Go(p.watchExit)
	p.wg.Go(func() { p.stderr.drain(p.errOut) })
	return p
}

// watchExit reports the exit at once, and reaps the child when Close lets it.
func (p *Process) watchExit() {
	state, reaped := awaitExit(p.cmd)
	p.reapMu.Lock()
	p.reaped = reaped
	p.reapMu.Unlock()
	p.exit = state
	close(p.done)
	p.log.Debug("process ended", "exit", state.String())
	p.in.close() // a grandchild may hold the other end: nobody must wait for it
	p.out.childExited()
	p.errOut.childExited()
	<-p.release
	p.reap()
}

func (p *Process) reap() {
	p.reapMu.Lock()
	defer p.reapMu.Unlock()
	if !p.reaped {
		_ = p.cmd.Wait() // the state is already known
		p.reaped = true
	}
}

// Pid is the child's process id, and its process group's.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Marker is the value of AGENT_SERVER_PROCESS that every process of the tree carries.
func (p *Process) Marker() string { return p.marker }

// ReadLine returns the next line of the child's stdout without its line ending ("\n" or "\r\n"); a UTF-8 byte order mark at the start of
// the stream is dropped, all other bytes are as the child wrote them. The slice is valid until the next call.
//
// It blocks until there is a line. A line over [Spec.MaxLine] gives a [*LineTooLongError], after which reading goes on with the next line. The
// stream ends with io.EOF when every writer has closed the pipe, or when the child has exited, all that it wrote has been
// delivered, and other holders of the pipe have been silent for 250 ms. A last line without line ending is delivered. Lines that were in
// the pipe when Close ended are still delivered.
func (p *Process) ReadLine() ([]byte, error) { return p.lines.next() }

// WriteLine writes line and a newline to the child's stdin. Lines of concurrent callers never mix. line must hold no newline, except for one at
// its end, which is then not doubled. The slice is not kept.
//
// An error is a [*WriteError]: its cause is ctx's, [ErrStdinStalled] if the child took no byte for [Spec.WriteStall], or
// [ErrStdinClosed]. A line that had been begun when ctx ended or the child stalled is completed before the next one, so the stream stays whole.
func (p *Process) WriteLine(ctx context.Context, line []byte) error { return p.in.writeLine(ctx, line) }

// CloseStdin closes the child's stdin. A write that is under way ends with [ErrStdinClosed]. It is idempotent.
func (p *Process) CloseStdin() { p.in.close() }

// StderrTail returns the last n lines of what the child wrote to stderr, as far as they are kept, with secrets blanked, escape sequences and
// control characters dropped and invalid UTF-8 replaced. n <= 0 means all. After the exit it includes the child's last words.
func (p *Process) StderrTail(n int) string {
	select {
	case <-p.done:
		// The exit may have overtaken the drain. What the child wrote is in the pipe, so this takes microseconds.
		select {
		case <-p.errOut.flushed:
		case <-time.After(100 * time.Millisecond):
		}
	default:
	}
	return p.stderr.lines(n)
}

// Redact returns s with the secrets of the spec blanked.
func (p *Process) Redact(s string) string { return p.stderr.redact(s) }

// Done is closed when the child has exited, within milliseconds and whoever holds its pipes. Output may still be unread.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitState reports how the child ended; ok is false while it runs.
func (p *Process) ExitState() (state ExitState, ok bool) {
	select {
	case <-p.done:
		return p.exit, true
	default:
		return ExitState{}, false
	}
}

// Tree returns the pids of the living processes of the tree, the child included, in no order.
func (p *Process) Tree() ([]int, error) {
	members, err := p.tree.scan()
	pids := make([]int, 0, len(members))
	for _, m := range members {
		pids = append(pids, m.pid)
	}
	return pids, err
}

// KillOrphans kills the processes of the tree that run one of the named programs (the last element of argv[0]) and have lost their parent, with what
// descends from them or is in a session of theirs. It is for a child that has lost a helper of its own: what it still holds is left alone, and so are
// other orphans. On systems that do not tell argv it does nothing.
func (p *Process) KillOrphans(programs ...string) error {
	members, err := p.tree.scan()
	if err != nil {
		return err
	}
	held := map[int]bool{}
	for _, m := range members {
		held[m.pid] = true
	}
	gone := map[int]bool{}
	for _, m := range members {
		if m.pid != p.Pid() && m.ppid != p.Pid() && !held[m.ppid] && slices.Contains(programs, programOf(m.pid)) {
			gone[m.pid] = true
		}
	}
	var victims []proc
	for found := len(gone) > 0; found; {
		found = false
		members = slices.DeleteFunc(members, func(m proc) bool {
			if !gone[m.pid] && !gone[m.ppid] && !gone[m.session] {
				return false
			}
			gone[m.pid], found = true, true
			victims = append(victims, m)
			return true
		})
	}
	p.tree.signal(victims, unix.SIGKILL)
	return nil
}

// Interrupt sends SIGINT to the child alone. It returns os.ErrProcessDone after the exit.
func (p *Process) Interrupt() error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
		return p.cmd.Process.Signal(unix.SIGINT)
	}
}

// Terminate sends SIGTERM to the child's process group. It returns os.ErrProcessDone if no process is left in it.
func (p *Process) Terminate() error { return p.signalGroup(unix.SIGTERM) }

// Kill sends SIGKILL to the whole tree and returns when it is gone, or with a [*SurvivorsError]. The pipes stay open: Close is still due.
func (p *Process) Kill() error { return p.killTree() }

func (p *Process) killTree() error {
	_, _ = p.tree.scan()            // note the descendants while they still have their parents
	_ = p.signalGroup(unix.SIGKILL) // all at once, so that none sees another die
	return p.tree.kill(time.Now().Add(sweepBudget))
}

func (p *Process) signalGroup(sig syscall.Signal) error {
	p.reapMu.Lock()
	defer p.reapMu.Unlock()
	if p.reaped {
		// The number may be another group's by now. The scan that follows every kill finds what is left, one by one.
		return os.ErrProcessDone
	}
	err := unix.Kill(-p.Pid(), sig)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// pipes are the six ends of the child's standard streams.
type pipes struct {
	stdin, stdout, stderr           *os.File // the child's
	toChild, fromStdout, fromStderr *os.File // ours
}

func openPipes() (*pipes, error) {
	var ps pipes
	var err error
	for _, pair := range [...][2]**os.File{{&ps.stdin, &ps.toChild}, {&ps.fromStdout, &ps.stdout}, {&ps.fromStderr, &ps.stderr}} {
		if *pair[0], *pair[1], err = os.Pipe(); err != nil {
			ps.closeChild()
			ps.closeOurs()
			return nil, err
		}
	}
	return &ps, nil
}

func (ps *pipes) closeChild() { closeFiles(ps.stdin, ps.stdout, ps.stderr) }

func (ps *pipes) closeOurs() { closeFiles(ps.toChild, ps.fromStdout, ps.fromStderr) }

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
