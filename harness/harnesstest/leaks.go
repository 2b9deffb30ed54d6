package harnesstest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// goroutines returns the stacks of all goroutines by their numbers.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := make(map[string]string)
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		number, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		all[number] = stack
	}
	return all
}

// noGoroutines fails the test when goroutines stay that were not there before it, but for those of package testing and of this program's start.
func noGoroutines(t *testing.T, before map[string]string) {
	t.Helper()
	var left []string
	if poll(5*time.Second, func() bool { left = added(before); return len(left) == 0 }) {
		return
	}
	t.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
}

func added(before map[string]string) (left []string) {
	for number, stack := range goroutines() {
		if _, old := before[number]; !old && !strings.Contains(stack, "testing.tRunner(") && !strings.Contains(stack, "os/signal.") {
			left = append(left, stack)
		}
	}
	return left
}

// poll calls done until it is true or the time is over, and returns what it said last.
func poll(d time.Duration, done func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(5 * time.Millisecond) {
		if done() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
