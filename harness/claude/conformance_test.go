package claude_test

import (
	"strconv"
	"testing"
	"time"

	"agentserver/harness/harnesstest"
	"agentserver/provision"
	"agentserver/provision/provisiontest"
)

// TestConformance runs the suite that every driver is run through. It looks for goroutines that are left, so nothing runs beside it. The
// older CLI differs in none of what it checks, and is slow to start: one of both must do.
func TestConformance(t *testing.T) {
	r := newRig(t, executable(provisiontest.CLI(t, provision.Claude)))
	harnesstest.Run(t, harnesstest.Suite{
		Harness: r.h,
		Config:  r.spec.Config,
		Env:     r.spec.Env,
		Prompts: harnesstest.Prompts{
			Text: "SAY hello",
			// A steered message is held until a tool runs, so the text must come to one. That makes LongTool superfluous.
			LongText:   "SLOW 5 20\nTOOL bash echo x && sleep 300",
			Permission: "TOOL bash touch made",
			Failure:    "ERR 400",
			Exit:       "TOOL bash kill -9 $PPID",
		},
		Alive: func() []int {
			var pids []int
			for _, pid := range descendants(t, r) {
				n, _ := strconv.Atoi(pid)
				pids = append(pids, n)
			}
			return pids
		},
		Wait:  patience,
		Quiet: 1500 * time.Millisecond, // the CLI takes a while to start
		Steps: 1,
	})
}
