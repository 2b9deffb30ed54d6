// Command agent-server runs coding agents (the claude CLI, codex, any ACP agent) as subprocesses and turns what they say into one stream of
// numbered events, over JSON-RPC on stdio or a WebSocket. See docs/ and `agent-server --help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Set by the linker; see the Makefile.
var (
	version = "dev"
	commit  = ""
)

// The exit codes. `run` maps a turn's outcome to them; everything else uses the first three.
const (
	exitOK        = 0
	exitFailed    = 1   // something went wrong, or the turn ended in an error
	exitUsage     = 2   // the command line is wrong
	exitRefused   = 3   // the model refused
	exitCutOff    = 4   // the turn hit max_tokens or its limit of round trips
	exitCancelled = 130 // the turn was cancelled, as a shell reports Ctrl-C
)

func main() {
	// A closed stdout is an error to be handled like any other. Ignoring the signal would be inherited by the agents; catching it is not.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute runs one command line and returns its exit code. ctx ends when the program is asked to stop.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCmd()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitFailed
	if e, ok := errors.AsType[*exitError](err); ok {
		code = e.code
		err = e.err
	}
	if err != nil {
		fmt.Fprintln(stderr, "agent-server: "+err.Error())
	}
	return code
}

// An exitError ends the program with a code. Without err it ends silently: what had to be said was said.
type exitError struct {
	code int
	err  error
}

// Error returns the cause's text.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format+"; see --help", args...)}
}
