package parrot_test

import (
	"testing"

	"go.uber.org/goleak"

	"agentserver/harness/harnesstest"
	"example.com/embed/parrot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	harnesstest.Run(t, harnesstest.Suite{
		Harness: parrot.Harness{},
		Prompts: harnesstest.Prompts{
			Text:       "Polly wants a cracker",
			LongText:   "forever",
			Permission: "run ls",
		},
	})
}
