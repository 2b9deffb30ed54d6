package codex_test

import (
	"testing"

	"agentserver/protocol"
)

func TestRealText(t *testing.T) {
	r := newRig(t).open()
	res := r.turn("USAGE 100 0 20 30 7\nTHINK hello there")
	wantEnd(t, res, protocol.StopEndTurn)
	wantText(t, res, "hello there")
}
