package acp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"agentserver/harness/internal/process"
	"agentserver/internal/transport"
)

// A pipe is the agent's standard streams as a message pipe.
type pipe struct {
	proc *process.Process
	// seen hears of every line, on the read loop; the bytes must not be kept.
	seen func(line []byte)
	// broken hears once why reading or writing stopped before the agent's output did.
	broken func(error)
}

// Read implements [transport.Pipe]. A line over the limit ends the stream: it may have been the one that a turn waits for.
func (p *pipe) Read(context.Context) ([]byte, error) {
	for {
		line, err := p.proc.ReadLine()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.broken(err)
				return nil, &transport.CloseError{Code: transport.CloseAbnormal, Err: err}
			}
			return nil, io.EOF
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			p.seen(line)
			return bytes.Clone(line), nil
		}
	}
}

// Write implements [transport.Pipe]. An agent that takes no input any more is killed.
func (p *pipe) Write(ctx context.Context, texts ...[]byte) error {
	for _, text := range texts {
		err := p.proc.WriteLine(ctx, text)
		if err == nil {
			continue
		}
		if errors.Is(err, process.ErrStdinStalled) {
			p.broken(err)
		} // else it has closed its input, and the end of its output tells more
		return &transport.CloseError{Code: transport.CloseAbnormal, Err: err}
	}
	return nil
}

// partingLadder ends an agent whose connection broke: mostly it is about to exit, and has more to say than that it was killed.
var partingLadder = process.Ladder{{Do: process.CloseStdin, Wait: time.Second}, {Do: process.Terminate, Wait: time.Second}}

// Close implements [transport.Pipe]. Unless the connection broke, the agent is gone by then.
func (p *pipe) Close(transport.CloseCode, string) error {
	return p.proc.Close(context.Background(), partingLadder)
}
