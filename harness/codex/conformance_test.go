package codex_test

import (
	"testing"

	"agentserver/harness/harnesstest"
	"agentserver/protocol"
)

// Long tools are left to TestRealInterruptCommand and its like: each prompt of the suite starts codex dozens of times.
//
// The suite looks for goroutines and processes that are left, so nothing of this package runs beside it.

func TestConformanceAppServer(t *testing.T) { conform(t, newSerialRig(t)) }

func TestConformanceExec(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of starting processes, one a turn")
	}
	conform(t, newSerialExecRig(t))
}

func conform(t *testing.T, r *rig) {
	prompts := harnesstest.Prompts{
		Text:     "SAY hello",
		LongText: "HANG some text",
		Failure:  "ERR 400",
	}
	r.spec.Config.PermissionMode = protocol.ModeAcceptEdits
	if r.make(r.opts).Capabilities().PermissionRequests {
		prompts.Permission = "SHELLESC touch made"
	}
	harnesstest.Run(t, harnesstest.Suite{
		Harness: r.make(r.opts),
		Config:  r.spec.Config,
		Env:     r.spec.Env,
		Prompts: prompts,
		Alive:   func() []int { return processes(t, "", r.home) },
		Wait:    patience,
		Steps:   1,
	})
}
