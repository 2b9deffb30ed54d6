package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"agentserver/internal/transport"
)

// Spawn starts a server as a child process and speaks to it over its stdin and stdout. ctx bounds the start only. The child gets a process group
// of its own, so that a Ctrl-C in the terminal reaches this process alone; on Close its stdin is closed, which ends an agent-server, and what is
// left of the group after [Options.KillGrace] is terminated and then killed.
//
// A child that ends by itself takes its logs with it: every turn handle fails with [ErrInstanceChanged], and a new child is started after the
// back-off, unless [Options.NoReconnect] is set.
func Spawn(ctx context.Context, command string, args []string, opts *Options) (*Client, error) {
	o := opts.withDefaults()
	open := func(context.Context) (transport.Pipe, error) { return openChild(command, args, &o) }
	return start(ctx, opts, dialer{open: open, ephemeral: true}, open)
}

// A child is a server process, seen as the pipe of its stdin and stdout.
type child struct {
	transport.Pipe
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	grace  time.Duration
	exited chan struct{} // closed when the process has been reaped; err is set
	err    error
	once   sync.Once
}

func openChild(command string, args []string, opts *Options) (transport.Pipe, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("client: start %s: %w", command, err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, fmt.Errorf("client: start %s: %w", command, err)
	}
	cmd := exec.Command(command, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, opts.Stderr
	cmd.Env, cmd.Dir = opts.Env, opts.Dir
	cmd.WaitDelay = 2 * time.Second // for a grandchild that keeps stderr open
	ownGroup(cmd)
	err = cmd.Start()
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, &refusedError{fmt.Errorf("client: start the server: %w; is %q the right command?", err, command)}
	}
	c := &child{cmd: cmd, stdin: inW, stdout: outR, grace: opts.KillGrace, exited: make(chan struct{})}
	c.Pipe = openLines(struct {
		io.Reader
		io.WriteCloser
	}{outR, closers{inW, outR}}, opts)
	go c.wait() // joined by Close
	return c, nil
}

// closers writes to a file and closes it together with another.
type closers struct{ w, r *os.File }

func (c closers) Write(p []byte) (int, error) { return c.w.Write(p) }
func (c closers) Close() error                { return errors.Join(c.w.Close(), c.r.Close()) }

func (c *child) wait() {
	c.err = c.cmd.Wait()
	close(c.exited)
}

// Read explains the end of the child's stdout with how the child ended.
func (c *child) Read(ctx context.Context) ([]byte, error) {
	data, err := c.Pipe.Read(ctx)
	return data, c.explain(ctx, err)
}

// Write does the same for an end that it is the first to notice.
func (c *child) Write(ctx context.Context, texts ...[]byte) error {
	return c.explain(ctx, c.Pipe.Write(ctx, texts...))
}

// explain gives a child that has closed its streams a moment to end, and says how it did.
func (c *child) explain(ctx context.Context, err error) error {
	if _, big := errors.AsType[*transport.TooLargeError](err); err == nil || big || ctx.Err() != nil {
		return err
	}
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-c.exited:
		return fmt.Errorf("the server process ended: %v", c.cmd.ProcessState)
	case <-t.C:
	case <-ctx.Done():
	}
	return err
}

// Close ends the child: end of input, then SIGTERM, then SIGKILL, each with its grace, to the whole group. It returns when the child is reaped.
func (c *child) Close(transport.CloseCode, string) error {
	c.once.Do(func() {
		c.stdin.Close()
		drained := make(chan struct{})
		go func() { // so that what the child still has to say does not keep it
			defer close(drained)
			io.Copy(io.Discard, c.stdout)
		}()
		if !c.gone(c.grace) {
			terminateGroup(c.cmd.Process.Pid)
			c.gone(c.grace)
		}
		killGroup(c.cmd.Process.Pid) // also what the child has left behind
		<-c.exited
		c.Pipe.Close(transport.CloseNormal, "")
		<-drained
	})
	<-c.exited
	return nil
}

// gone waits for the child's end, for at most d.
func (c *child) gone(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.exited:
		return true
	case <-t.C:
		return false
	}
}
