package mock_test

import (
	"testing"
	"time"

	"agentserver/harness/harnesstest"
	"agentserver/harness/mock"
)

func TestConformance(t *testing.T) {
	harnesstest.Run(t, harnesstest.Suite{
		Harness: mock.New(),
		Prompts: harnesstest.Prompts{
			Text:       "say hello there",
			LongText:   "think hm\npace 1ms\nburst 1000000",
			Permission: `ask Bash {"command":"ls"}`,
			LongTool:   "subagent explorer look\n  tool Read\n  hang",
			Failure:    "say a\nfail auth log in",
			Background: "say a\nbackground 1ms\n  say by the way",
			Exit:       "say a\ncrash",
		},
		Quiet: 100 * time.Millisecond,
		Wait:  10 * time.Second,
	})
}
