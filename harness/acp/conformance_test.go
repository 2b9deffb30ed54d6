package acp_test

import (
	"encoding/json"
	"os"
	"testing"

	"agentserver/harness/acp"
	"agentserver/harness/harnesstest"
)

func TestConformance(t *testing.T) {
	config, err := json.Marshal(agentConfig{Steer: true})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	harnesstest.Run(t, harnesstest.Suite{
		Harness: acp.New(acp.Options{Command: []string{exe}, Settle: -1, NoReaper: true, Steering: true}),
		Env:     []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), agentVariable + "=" + string(config)},
		Steps:   6,
		Prompts: harnesstest.Prompts{
			Text:       "THINK hm\nSAY hello",
			LongText:   "SAY one\nSAY two\nHANG",
			Permission: "ASK ls\nSAY ok",
			LongTool:   "TOOL sleep\nHANG",
			Failure:    "ERR -32603 no model",
			Exit:       "SAY x\nCRASH bang",
		},
	})
}
