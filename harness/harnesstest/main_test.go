package harnesstest_test

import (
	"testing"

	"agentserver/harness/harnesstest/agent"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	agent.Main()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("agentserver/harness/internal/process.(*reaper).watch"))
}
