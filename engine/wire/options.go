package wire

import (
	"log/slog"
	"time"

	"agentserver/internal/transport"
)

// Options configure a [Server]. The zero value means the defaults.
type Options struct {
	// Logger takes the log; nil discards. Neither params nor events nor secrets reach it.
	Logger *slog.Logger

	// Token, if set, is what a WebSocket client must send as "Authorization: Bearer …"; anything else is answered 401 before the upgrade. It
	// does not concern stdio, [Server.Serve] and [Server.DialOut], whose peers were chosen by whoever started them.
	Token string
	// OriginPatterns list the hosts of the web pages that may connect besides the server's own ([path.Match] patterns). A request without an
	// Origin header is no browser's and is let through.
	OriginPatterns []string
	// MaxConnections bounds the open connections; more are refused (503 for a WebSocket). Default 1024; negative has no limit.
	MaxConnections int

	// OnShutdown, if set, is what a client's `shutdown` request leads to, once, on a goroutine of its own, in place of [Server.Shutdown].
	OnShutdown func()

	// MaxMessageBytes bounds one message of a client. Default 64 MiB.
	MaxMessageBytes int
	// WriteTimeout closes a connection whose peer takes no byte for so long. Default 30 s.
	WriteTimeout time.Duration
	// PingInterval is the time between two pings of a WebSocket, below what proxies take for idle. Default 20 s; negative never pings.
	PingInterval time.Duration
	// PongTimeout is how much longer than PingInterval a WebSocket may be silent. Default 20 s.
	PongTimeout time.Duration
	// MaxInFlight bounds a connection's requests that are not yet answered; at the limit its reader waits. Default 256.
	MaxInFlight int
	// DrainTimeout bounds a [Server.Shutdown] that a client asked for, above what the runtime's own drain takes. Default 30 s.
	DrainTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 1024
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = 30 * time.Second
	}
	return o
}

func (o *Options) pipe() transport.PipeOptions {
	return transport.PipeOptions{
		MaxMessageBytes: o.MaxMessageBytes, WriteTimeout: o.WriteTimeout, PingInterval: o.PingInterval, PongTimeout: o.PongTimeout,
	}
}
