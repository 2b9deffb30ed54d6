package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// A Pipe carries whole JSON texts between two processes.
//
// One goroutine calls Read, and one at a time Write; Close may be called from anywhere, at any time and more than once.
type Pipe interface {
	// Read returns the next text, without white space around it; blank ones are skipped. The caller owns the bytes.
	//
	// After the last text it returns io.EOF (a stream that ended) or a [*CloseError] (a WebSocket that was closed, by whom ever), and
	// goes on returning it. A [*TooLargeError] concerns one text only: the next Read goes on behind it. When ctx ends, the pipe is closed.
	Read(ctx context.Context) ([]byte, error)
	// Write writes whole texts in order, in as few system calls as it can, and returns when the operating system has them all. Line
	// breaks between the tokens of a text become spaces. The bytes stay the caller's. An error is final: the pipe is closed. When ctx
	// ends before the first byte is written, its cause is returned and nothing is written; from then on only the write timeout counts.
	Write(ctx context.Context, texts ...[]byte) error
	// Close unblocks Read and Write and releases what the pipe holds. The first call tells the peer code and reason (at most 123
	// bytes) where the transport can, and waits a short time for the peer to agree; later calls wait for the first one.
	Close(code CloseCode, reason string) error
}

// A CloseCode says why a connection ended: a WebSocket close code (RFC 6455, section 7.4).
type CloseCode int

// The codes that this module sends or makes up.
const (
	CloseNormal    CloseCode = 1000 // the client is done
	CloseGoingAway CloseCode = 1001 // the server shuts down
	CloseProtocol  CloseCode = 1002 // what came is no WebSocket frame
	CloseAbnormal  CloseCode = 1006 // never sent: the connection broke without a word
	ClosePolicy    CloseCode = 1008 // refused
	CloseTooBig    CloseCode = 1009 // a message over MaxMessageBytes
	CloseInternal  CloseCode = 1011 // a bug of ours
	CloseStalled   CloseCode = 4408 // the peer took no byte for WriteTimeout
	CloseDead      CloseCode = 4409 // the peer sent no byte, not even a pong, for PingInterval + PongTimeout
)

// A CloseError is what Read and Write return once the pipe is closed.
type CloseError struct {
	Code   CloseCode
	Reason string // for a person; may come from the peer
	Err    error  // the cause below, or nil
}

// Error says code, reason and cause.
func (e *CloseError) Error() string {
	s := fmt.Sprintf("connection closed: %d", e.Code)
	if e.Reason != "" {
		s += " " + e.Reason
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause below.
func (e *CloseError) Unwrap() error { return e.Err }

// CodeOf returns the close code in err's chain: [CloseNormal] for io.EOF, and [CloseAbnormal] for any other error.
func CodeOf(err error) CloseCode {
	if e, ok := errors.AsType[*CloseError](err); ok {
		return e.Code
	}
	if errors.Is(err, io.EOF) {
		return CloseNormal
	}
	return CloseAbnormal
}

// A TooLargeError says that one text was longer than MaxMessageBytes and was skipped. The pipe lives.
type TooLargeError struct {
	Size, Limit int    // bytes
	Head        []byte // the beginning of the text, at most 256 bytes
}

// Error says both sizes and what to do.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("a message of %d bytes was skipped: the limit is %d; send less at once, or raise maxMessageBytes", e.Size, e.Limit)
}

// Defaults of [PipeOptions].
const (
	DefaultMaxMessageBytes = 64 << 20
	DefaultWriteTimeout    = 30 * time.Second
	DefaultPingInterval    = 20 * time.Second
	DefaultPongTimeout     = 20 * time.Second
	DefaultCloseTimeout    = 3 * time.Second
)

// PipeOptions bound a pipe. The zero value means the defaults.
type PipeOptions struct {
	// MaxMessageBytes limits an inbound text (lines) or frame (WebSocket). 0 means DefaultMaxMessageBytes.
	MaxMessageBytes int
	// WriteTimeout ends a connection whose peer takes nothing: it bounds every write of up to 64 KiB. 0 means DefaultWriteTimeout.
	WriteTimeout time.Duration
	// PingInterval is the time between two WebSocket pings. 0 means DefaultPingInterval, a negative value no pings.
	PingInterval time.Duration
	// PongTimeout is how much longer than PingInterval a WebSocket may be silent while we read. 0 means DefaultPongTimeout.
	PongTimeout time.Duration
	// CloseTimeout bounds the WebSocket close handshake. 0 means DefaultCloseTimeout.
	CloseTimeout time.Duration
}

func (o PipeOptions) withDefaults() PipeOptions {
	orDefault(&o.MaxMessageBytes, DefaultMaxMessageBytes)
	orDefault(&o.WriteTimeout, DefaultWriteTimeout)
	orDefault(&o.PingInterval, DefaultPingInterval)
	orDefault(&o.PongTimeout, DefaultPongTimeout)
	orDefault(&o.CloseTimeout, DefaultCloseTimeout)
	return o
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// oneLine returns text without line breaks. In valid JSON they only stand between tokens.
func oneLine(text []byte) []byte {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	out := bytes.Clone(text)
	for i, c := range out {
		if c == '\n' || c == '\r' {
			out[i] = ' '
		}
	}
	return out
}
