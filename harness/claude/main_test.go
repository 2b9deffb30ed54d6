package claude_test

import (
	"flag"
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
	_ = flag.Set("test.parallel", "6") // most tests wait for processes; the command line still wins
	goleak.VerifyTestMain(m)
}
