package codex_test

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
	goleak.VerifyTestMain(m)
}
