package acp

import (
	"context"
	"maps"
	"slices"
	"time"

	"agentserver/harness"
	"agentserver/harness/internal/process"
	"agentserver/protocol"
)

// DefaultID is the id of a harness that was given none.
const DefaultID protocol.HarnessID = "acp"

// Defaults of [Options].
const (
	DefaultInitializeTimeout = 120 * time.Second // a package runner downloads at its first start
	DefaultSessionTimeout    = 60 * time.Second
	DefaultSettingTimeout    = 20 * time.Second
	DefaultAuthTimeout       = 5 * time.Minute // the agent may open a browser
	DefaultSettle            = 150 * time.Millisecond
	DefaultLateTools         = time.Second
	DefaultQuiet             = 2 * time.Second
	DefaultInterruptWait     = 3 * time.Second
	DefaultCancelWait        = 10 * time.Second
)

// DefaultLadder is how an idle agent is ended: end of input, SIGTERM, then the tree is killed.
var DefaultLadder = process.Ladder{
	{Do: process.CloseStdin, Wait: 3 * time.Second},
	{Do: process.Terminate, Wait: 3 * time.Second},
}

// Options configure the harness of one agent. Either Command or Resolve is needed; a zero field has the documented default.
type Options struct {
	// ID is the name of the harness; DefaultID when empty.
	ID protocol.HarnessID
	// Command is the agent's program and its arguments. The program is looked up in PATH at every start. See [SplitCommand].
	Command []string
	// Resolve finds the agent instead of Command.
	Resolve harness.Resolver
	// Env is set for the agent where its environment does not have the variable yet.
	Env map[string]string
	// AuthMethod is the id of the method that is used when the agent asks for a login. When empty the agent is never told to log in, for that may open a
	// browser on the server's machine, or wait for minutes.
	AuthMethod string
	// APIKeyVars are the environment variables that config.apiKey goes into; without any the harness takes no apiKey.
	APIKeyVars []string
	// ServeFS serves fs/read_text_file and fs/write_text_file, within cwd and the additional directories. By default agents use the disk themselves,
	// which all do, and some do better.
	ServeFS bool
	// ThinkingLevels are what the agent tells apart; all levels when nil. A level that the agent does not list is reported at the turn that asks for it.
	ThinkingLevels []protocol.ThinkingLevel
	// NoPermissions says that the agent never asks for permission.
	NoPermissions bool
	// Steering says that the agent has the _session/steering extension.
	Steering bool

	// InitializeTimeout bounds the time from the start to the first answer; DefaultInitializeTimeout when 0.
	InitializeTimeout time.Duration
	// SessionTimeout bounds the making or loading of a session; DefaultSessionTimeout when 0.
	SessionTimeout time.Duration
	// SettingTimeout bounds the change of a mode or model; DefaultSettingTimeout when 0.
	SettingTimeout time.Duration
	// AuthTimeout bounds a login by AuthMethod; DefaultAuthTimeout when 0.
	AuthTimeout time.Duration
	// Settle is how long a turn stays open after the response to its prompt, for what the agent sends late; DefaultSettle when 0, none when negative.
	Settle time.Duration
	// LateTools is how much longer it stays open while tool calls are not over; DefaultLateTools when 0.
	LateTools time.Duration
	// Quiet is the silence after which a turn that the agent began by itself is ended; DefaultQuiet when 0.
	Quiet time.Duration
	// InterruptWait is how long Close lets a running turn end by itself after the cancel; DefaultInterruptWait when 0.
	InterruptWait time.Duration
	// CancelWait is how long a cancelled turn may go on before the agent is killed; DefaultCancelWait when 0.
	CancelWait time.Duration
	// Ladder ends the agent; DefaultLadder when nil.
	Ladder process.Ladder
	// NoReaper leaves the agent without the protection against a SIGKILL of this program, see package process.
	NoReaper bool
}

// Options returns the options for a known agent, whose harness id is its name: the installed program first, then the package runner.
func (a Agent) Options() Options {
	levels := a.ThinkingLevels
	if levels == nil {
		levels = []protocol.ThinkingLevel{}
	}
	return Options{
		ID: protocol.HarnessID(a.Name), Resolve: FirstInstalled(a.Commands, a.Hint), Env: maps.Clone(a.Env), APIKeyVars: slices.Clone(a.APIKeyVars),
		ThinkingLevels: levels, NoPermissions: a.NoPermissions, Steering: a.Steering,
	}
}

// New returns the harness. It does no I/O.
func New(opts Options) harness.Harness {
	if opts.ID == "" {
		opts.ID = DefaultID
	}
	if opts.Resolve == nil {
		var commands [][]string
		if len(opts.Command) > 0 {
			commands = [][]string{slices.Clone(opts.Command)}
		}
		opts.Resolve = FirstInstalled(commands, "")
	}
	if opts.ThinkingLevels == nil {
		opts.ThinkingLevels = allLevels
	}
	if opts.Ladder == nil {
		opts.Ladder = DefaultLadder
	}
	for d, to := range map[*time.Duration]time.Duration{
		&opts.InitializeTimeout: DefaultInitializeTimeout, &opts.SessionTimeout: DefaultSessionTimeout, &opts.SettingTimeout: DefaultSettingTimeout,
		&opts.AuthTimeout: DefaultAuthTimeout, &opts.Settle: DefaultSettle, &opts.LateTools: DefaultLateTools, &opts.Quiet: DefaultQuiet,
		&opts.InterruptWait: DefaultInterruptWait, &opts.CancelWait: DefaultCancelWait,
	} {
		if *d == 0 {
			*d = to
		}
	}
	return &driver{opts: opts}
}

type driver struct{ opts Options }

// ID implements [harness.Harness].
func (d *driver) ID() protocol.HarnessID { return d.opts.ID }

// Capabilities implements [harness.Harness]. ACP has no call for the fields under Unsupported. What an agent turns out not to have (a model, a
// mode, images, a kind of MCP server) is reported at the turn that asks for it.
func (d *driver) Capabilities() protocol.Capabilities {
	unsupported := []string{"systemPromptAppend", "maxTurns", "resumeSessionAt", "disableTools"}
	if len(d.opts.APIKeyVars) == 0 {
		unsupported = append(unsupported, "apiKey")
	}
	slices.Sort(unsupported)
	return protocol.Capabilities{
		MultiTurn:          true,
		SessionResume:      true,
		ModelSwitch:        protocol.ModelSwitchInSession,
		ThinkingLevels:     slices.Clone(d.opts.ThinkingLevels),
		Images:             true,
		MCPServers:         true,
		PermissionRequests: !d.opts.NoPermissions,
		Steering:           d.opts.Steering,
		Files:              true,
		ImageURLs:          true,
		Unsupported:        unsupported,
	}
}

// Open implements [harness.Harness]: it starts an agent of the session's own and returns when that has a session.
func (d *driver) Open(ctx context.Context, spec harness.Spec) (harness.Session, error) {
	exe, err := d.opts.Resolve(ctx, spec.Notify)
	if err != nil {
		return nil, err
	}
	return d.start(ctx, spec, exe)
}
