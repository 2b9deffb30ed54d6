package provision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	probeTimeout   = 10 * time.Second // for `--version`
	maxProbeOutput = 64 << 10         // bytes of it that are kept
	busyWait       = 2 * time.Second  // how long "text file busy" is waited out
	busyPoll       = 20 * time.Millisecond
)

// A versionProbe runs `--version` on candidates and judges the answer.
type versionProbe struct {
	tool    Tool
	oldest  string // the minimum version
	timeout time.Duration
}

// check returns the version of the executable at path, or why it does not count as a candidate.
func (v versionProbe) check(ctx context.Context, path string) (string, error) {
	if err := checkCandidate(path); err != nil {
		return "", err
	}
	out, err := v.run(ctx, path)
	if err != nil {
		return "", err
	}
	return v.judge(out)
}

func checkCandidate(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no such file")
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("not a file")
	case info.Mode().Perm()&0o111 == 0:
		return errors.New("not executable")
	}
	return nil
}

// judge parses the first line of an answer and compares it with the minimum.
func (v versionProbe) judge(out []byte) (string, error) {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	line = strings.TrimSpace(line)
	match := traits[v.tool].versionLine.FindStringSubmatch(line)
	if match == nil {
		return "", fmt.Errorf("--version printed %q, which is not a version of %s", shorten(line), v.tool)
	}
	got, err := parseVersion(match[1])
	if err != nil {
		return "", err
	}
	oldest, err := parseVersion(v.oldest)
	if err != nil {
		return "", err
	}
	if got.compare(oldest) < 0 {
		return "", fmt.Errorf("version %s is older than %s, the oldest that is supported", match[1], v.oldest)
	}
	return match[1], nil
}

// run returns what `path --version` prints, and ends its whole process group when it takes too long.
func (v versionProbe) run(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, v.timeout, fmt.Errorf("--version did not answer within %v", v.timeout))
	defer cancel()
	var stdout, stderr headBuffer
	for deadline := time.Now().Add(busyWait); ; {
		stdout, stderr = headBuffer{}, headBuffer{}
		cmd := v.command(ctx, path, &stdout, &stderr)
		err := cmd.Run()
		if cmd.Process != nil {
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left running, if anything
		}
		if errors.Is(err, syscall.ETXTBSY) && time.Now().Before(deadline) && pause(ctx, busyPoll) == nil {
			continue // a fork of this process still holds the freshly written file open, for as long as its exec takes
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return stdout.Bytes(), describeRun(path, err, stderr.String())
	}
}

func (v versionProbe) command(ctx context.Context, path string, stdout, stderr io.Writer) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Dir = "/" // not the server's: a checkout must not influence what it prints
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// describeRun turns a failed start or exit into words. A missing loader is reported by the system as a missing file, which misleads.
func describeRun(path string, err error, stderr string) error {
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // the latter: it has answered, and left a child that holds its output
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if loader := interpreterOf(path); loader != "" {
			return fmt.Errorf("cannot start: its dynamic loader %s is missing, so it was built for another libc", loader)
		}
		return errors.New("cannot start: the interpreter that it names is missing")
	case errors.Is(err, syscall.ENOEXEC):
		return errors.New("cannot start: not a program for this machine")
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n"); line != "" {
		return fmt.Errorf("--version failed: %w: %s", err, shorten(line))
	}
	return fmt.Errorf("--version failed: %w", err)
}

// shorten makes a foreign line fit into a message.
func shorten(line string) string {
	const longest = 120
	line = strings.ToValidUTF8(line, "?")
	if runes := []rune(line); len(runes) > longest {
		return string(runes[:longest]) + "..."
	}
	return line
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// headBuffer keeps the first maxProbeOutput bytes and swallows the rest.
type headBuffer struct{ bytes.Buffer }

func (b *headBuffer) Write(p []byte) (int, error) {
	if room := maxProbeOutput - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
