package client

import (
	"cmp"
	"io"
	"log/slog"
	"net/http"
	"time"

	"agentserver/protocol"
)

// Options tune a [Client]. A nil *Options and the zero value mean the defaults.
type Options struct {
	// Client names this program to the server.
	Client *protocol.Info
	// Logger takes the client's log; nil discards. No prompt, event or secret reaches it.
	Logger *slog.Logger

	// Token is sent as a bearer token by [Dial]; empty sends none.
	Token string
	// Header is added to the WebSocket handshake of [Dial].
	Header http.Header
	// HTTPClient makes the WebSocket handshake of [Dial]; nil means the default one.
	HTTPClient *http.Client

	// Env is the child's environment of [Spawn], as "NAME=value"; nil means this process's own.
	Env []string
	// Dir is the child's working directory of [Spawn]; empty means this process's own.
	Dir string
	// Stderr takes the stderr of the child of [Spawn]; nil discards.
	Stderr io.Writer
	// KillGrace is how long the child of [Spawn] may take to end after its stdin was closed, and again after SIGTERM. Default 12 s, which is
	// above the server's own drain timeout.
	KillGrace time.Duration

	// OnEvent, if set, is a handler as [Client.OnEvent] registers it, but from before the first connection on, so that it misses nothing.
	OnEvent func(protocol.Envelope)
	// OnState, if set, hears of every change of state, in order, from one goroutine. It must not call [Client.Close].
	OnState func(State)
	// OnError, if set, hears of what went wrong where nobody waits for an answer: a [*GapError] or [*DecodeError] of a session, a [*LagError] or
	// [*PanicError] of a handler. It is called from the goroutine of OnState.
	OnError func(error)

	// NoReconnect ends the client when the connection drops, as [Attach] always does.
	NoReconnect bool
	// ConnectTimeout bounds one attempt to connect, `initialize` included. Default 10 s.
	ConnectTimeout time.Duration
	// MinBackoff and MaxBackoff bound the wait before an attempt to connect: it starts at MinBackoff, doubles with each failure, is halved at
	// random, and starts anew once a connection has carried something. Defaults 100 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// Heartbeat is how long a connection may be silent before it is probed with a request, and how long it may then stay silent before it is
	// taken for dead and opened anew. Default 15 s; negative never probes.
	Heartbeat time.Duration
	// WriteTimeout bounds one write to the connection. Default 30 s.
	WriteTimeout time.Duration
	// MaxMessageBytes bounds one message from the server. Default 64 MiB.
	MaxMessageBytes int

	// ReplayAttempts and ReplayDelay say how often, and how far apart, a replay is tried before what is missing is given up. Defaults 3 and 250 ms.
	ReplayAttempts int
	ReplayDelay    time.Duration
	// ReplayPage is how many events one replay asks for. Default 1000.
	ReplayPage int
	// QueueLimit is how many events may wait for a handler or a turn handle. Whoever falls further behind is cut off with a [*LagError]; the
	// others notice nothing. Default 262144; negative has no limit.
	QueueLimit int
}

// withDefaults returns a copy of o with every default filled in.
func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Client == nil {
		opts.Client = &protocol.Info{Name: "agentserver-go"}
	}
	opts.KillGrace = cmp.Or(opts.KillGrace, 12*time.Second)
	opts.ConnectTimeout = cmp.Or(opts.ConnectTimeout, 10*time.Second)
	opts.MinBackoff = cmp.Or(opts.MinBackoff, 100*time.Millisecond)
	opts.MaxBackoff = max(cmp.Or(opts.MaxBackoff, 30*time.Second), opts.MinBackoff)
	opts.Heartbeat = cmp.Or(opts.Heartbeat, 15*time.Second)
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, 30*time.Second)
	opts.MaxMessageBytes = cmp.Or(opts.MaxMessageBytes, 64<<20)
	opts.ReplayAttempts = cmp.Or(opts.ReplayAttempts, 3)
	opts.ReplayDelay = cmp.Or(opts.ReplayDelay, 250*time.Millisecond)
	opts.ReplayPage = cmp.Or(opts.ReplayPage, 1000)
	opts.QueueLimit = cmp.Or(opts.QueueLimit, 1<<18)
	return opts
}

// Phase is where a connection stands.
type Phase string

// The phases.
const (
	// Connecting: an attempt is under way.
	Connecting Phase = "connecting"
	// Ready: connected and initialized.
	Ready Phase = "ready"
	// Waiting: the next attempt is timed.
	Waiting Phase = "waiting"
	// Closed: over for good.
	Closed Phase = "closed"
)

// State describes a client's connection.
type State struct {
	Phase Phase
	// Since is when the phase began.
	Since time.Time
	// Attempt counts the attempts to connect since the last connection, from 1; 0 while Ready.
	Attempt int
	// Next is when the next attempt begins, while Waiting.
	Next time.Time
	// Err is what ended the last connection or attempt; nil while Ready.
	Err error
	// InstanceID is the server's, once it has said it.
	InstanceID string
}
