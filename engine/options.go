package engine

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"agentserver/engine/eventlog"
	"agentserver/harness"
	"agentserver/protocol"
)

// Options configure a [Runtime]. Only Registry is required; the zero value of everything else means its default. A negative duration means
// without limit, where that is possible.
type Options struct {
	// Registry holds the harnesses that the runtime offers.
	Registry *harness.Registry
	// Logger takes the engine's and the drivers' log; nil discards it. Secrets never reach it.
	Logger *slog.Logger
	// InstanceID names this runtime's set of logs; minted by default.
	InstanceID string
	// Server is what `initialize` answers; the name is "agent-server" by default.
	Server protocol.Info
	// Log bounds the session logs.
	Log eventlog.Limits

	// MaxSessions bounds the open sessions, MaxTurns the turns that run at the same time; 0 means no limit. Beyond them: overloaded.
	MaxSessions, MaxTurns int

	// BaseEnv is the environment of the agents ("NAME=value") before a turn's own is layered over it. By default it is this process's, without
	// the variables AGENT_SERVER_*.
	BaseEnv []string
	// AllowEnv lists variables that a client may set although [DeniedEnv] names them. A name may end in "*".
	AllowEnv []string

	// InterruptTimeout is how long a cancel waits for the agent's confirmation; 5 s by default.
	InterruptTimeout time.Duration
	// CancelGrace is how long after a cancel its turn has ended in any case; 10 s by default.
	CancelGrace time.Duration
	// PermissionTimeout resolves a permission request that nobody answers as cancelled; 0 waits for ever.
	PermissionTimeout time.Duration
	// DrainTimeout bounds [Runtime.Shutdown]; 10 s by default.
	DrainTimeout time.Duration
	// IdleTimeout ends the agent of a session in which nothing happened for so long; its next turn resumes. 30 min by default.
	IdleTimeout time.Duration
	// OpenTimeout bounds the start of an agent, a download of it included; 10 min by default.
	OpenTimeout time.Duration
	// AckTimeout is how long a turn that was admitted waits for [Admission.Begin]; 10 s by default.
	AckTimeout time.Duration

	// StateBytes bounds the states that are kept for `session/snapshot`, all sessions together, by an estimate; 64 MiB by default. Beyond it the
	// largest is dropped: a later snapshot of that session begins at what its log still holds, and says so.
	StateBytes int64
}

func (o Options) withDefaults() (Options, error) {
	if o.Registry == nil {
		return o, errors.New("engine: Options.Registry is missing; make one with harness.NewRegistry")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.InstanceID == "" {
		o.InstanceID = protocol.NewID()
	}
	if o.Server.Name == "" {
		o.Server.Name = "agent-server"
	}
	if o.BaseEnv == nil {
		o.BaseEnv = ownEnv()
	}
	if o.Log.SessionEvents <= 0 {
		o.Log.SessionEvents = eventlog.DefaultSessionEvents
	}
	if o.StateBytes <= 0 {
		o.StateBytes = 64 << 20
	}
	orDefault(&o.InterruptTimeout, 5*time.Second)
	orDefault(&o.CancelGrace, 10*time.Second)
	orDefault(&o.DrainTimeout, 10*time.Second)
	orDefault(&o.OpenTimeout, 10*time.Minute)
	orDefault(&o.AckTimeout, 10*time.Second)
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 30 * time.Minute
	}
	o.InterruptTimeout = min(o.InterruptTimeout, o.CancelGrace/2)
	return o, nil
}

func orDefault(d *time.Duration, def time.Duration) {
	if *d <= 0 {
		*d = def
	}
}

// ownEnv is this process's environment without what configures this process.
func ownEnv() []string {
	env := []string{}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "AGENT_SERVER_") {
			env = append(env, kv)
		}
	}
	return env
}
