package acp_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(mcpVariable) != "" {
		serveMCP()
		return
	}
	if os.Getenv(agentVariable) != "" {
		serveAgent(os.Getenv(agentVariable))
		return
	}
	goleak.VerifyTestMain(m)
}
