package claude_test

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
	if os.Getenv(fakeVariable) != "" {
		serveFake(os.Getenv(fakeVariable))
		return
	}
	goleak.VerifyTestMain(m)
}
