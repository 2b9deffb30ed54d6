package codex

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentserver/harness"
	"agentserver/harness/internal/process"
	"agentserver/protocol"
)

// The ids of the harnesses.
const (
	AppServerID protocol.HarnessID = "codex-app-server"
	ExecID      protocol.HarnessID = "codex-sdk"
)

// Defaults of [Options].
const (
	DefaultMinVersion    = "0.171.0"
	DefaultCallTimeout   = 30 * time.Second
	DefaultInterruptWait = 3 * time.Second
	DefaultNetworkWait   = 2 * time.Minute
)

// DefaultLadder is how codex is ended: end of input, upon which it kills its commands and exits, then SIGTERM; then the tree is killed.
var DefaultLadder = process.Ladder{
	{Do: process.CloseStdin, Wait: 5 * time.Second},
	{Do: process.Terminate, Wait: 2 * time.Second},
}

// execLadder is how a running `codex exec` is ended: SIGINT lets it kill its commands, SIGTERM would orphan them.
var execLadder = process.Ladder{
	{Do: process.Interrupt, Wait: 2 * time.Second},
	{Do: process.Terminate, Wait: time.Second},
}

// Options configure a harness. Only Resolve is required; a zero field has the documented default.
type Options struct {
	// Resolve finds the codex CLI. Its Args come before the subcommand.
	Resolve harness.Resolver
	// Args are the operator's arguments after the subcommand, such as {"-c", "key=value"}. They come after the harness's own and win over them.
	Args []string
	// Home is the CODEX_HOME of all sessions; it must exist. Empty leaves it to the session's environment, in the end ~/.codex.
	Home string
	// KeyVariable is the environment variable, beside CODEX_API_KEY, in which [NewExec] hands config.apiKey to codex: the env_key of the
	// operator's model provider. [NewAppServer] needs none.
	KeyVariable string
	// MinVersion is the oldest codex that is accepted; DefaultMinVersion when empty. One that does not tell its version is accepted.
	MinVersion string
	// CallTimeout bounds each call of the app-server, the first included; DefaultCallTimeout when 0.
	CallTimeout time.Duration
	// InterruptWait is how long Close lets a running turn end by itself after the interrupt; DefaultInterruptWait when 0.
	InterruptWait time.Duration
	// NetworkWait is how long a turn may do nothing but wait for the network before it is ended: codex itself would wait for ever.
	// DefaultNetworkWait when 0.
	NetworkWait time.Duration
	// Ladder ends the app-server; DefaultLadder when nil.
	Ladder process.Ladder
	// MaxLine bounds a line of codex, in bytes; 64 MiB when 0. A longer one ends it.
	MaxLine int
	// NoReaper leaves codex without the protection against a SIGKILL of this program, see package process.
	NoReaper bool
}

func (o Options) withDefaults() Options {
	if o.MinVersion == "" {
		o.MinVersion = DefaultMinVersion
	}
	if o.Ladder == nil {
		o.Ladder = DefaultLadder
	}
	setDefault(&o.CallTimeout, DefaultCallTimeout)
	setDefault(&o.InterruptWait, DefaultInterruptWait)
	setDefault(&o.NetworkWait, DefaultNetworkWait)
	return o
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d <= 0 {
		*d = to
	}
}

// NewAppServer returns the harness that keeps a `codex app-server` for each session. It does no I/O.
func NewAppServer(opts Options) harness.Harness { return &appServer{opts: opts.withDefaults()} }

type appServer struct {
	opts   Options
	memory memory
}

// ID implements [harness.Harness].
func (*appServer) ID() protocol.HarnessID { return AppServerID }

// Capabilities implements [harness.Harness].
func (*appServer) Capabilities() protocol.Capabilities {
	return protocol.Capabilities{
		MultiTurn:          true,
		SessionResume:      true,
		ModelSwitch:        protocol.ModelSwitchInSession,
		ThinkingLevels:     thinkingLevels,
		Images:             true,
		MCPServers:         true,
		PermissionRequests: true,
		Steering:           true,
		Unsupported:        []string{"disableTools", "maxTurns", "resumeSessionAt"},
	}
}

// thinkingLevels are those for which codex has an effort. Its models cannot be told not to think.
var thinkingLevels = []protocol.ThinkingLevel{protocol.ThinkingLow, protocol.ThinkingMedium, protocol.ThinkingHigh, protocol.ThinkingXHigh}

// effort returns codex's word for a level; "" leaves it to codex.
func effort(level protocol.ThinkingLevel) string {
	if slices.Contains(thinkingLevels, level) {
		return string(level)
	}
	return ""
}

// Open implements [harness.Harness]: it starts an app-server and returns when the thread is started or resumed.
func (d *appServer) Open(ctx context.Context, spec harness.Spec) (harness.Session, error) {
	exe, err := resolve(ctx, &d.opts, spec)
	if err != nil {
		return nil, err
	}
	return d.start(ctx, spec, exe)
}

// resolve finds the executable, and refuses one that is too old.
func resolve(ctx context.Context, opts *Options, spec harness.Spec) (harness.Executable, error) {
	exe, err := opts.Resolve(ctx, spec.Notify)
	if err != nil {
		return exe, err
	}
	if older(exe.Version, opts.MinVersion) {
		return exe, &harness.Error{Category: protocol.CategoryInvalidRequest, Message: fmt.Sprintf(
			"codex %s is too old: version %s or newer is needed; update it, or let the server install its own copy", exe.Version, opts.MinVersion)}
	}
	// A working directory that does not exist, codex accepts without a word.
	if info, err := os.Stat(spec.Config.Cwd); err != nil || !info.IsDir() {
		return exe, &harness.Error{Category: protocol.CategoryInvalidRequest, Message: "config.cwd is not an existing directory: create it or choose another", Err: err}
	}
	return exe, nil
}

// older reports whether version is known to be below least. Versions are dotted numbers; what follows another character is ignored.
func older(version, least string) bool {
	return version != "" && slices.Compare(numbers(version), numbers(least)) < 0 && len(numbers(version)) > 0
}

func numbers(version string) []int {
	var ns []int
	for field := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(field)
		if err != nil {
			break
		}
		ns = append(ns, n)
	}
	return ns
}

// keptFromCommands are overrides that hold credentials back from the commands which the agent runs: without the first, they inherit everything.
var keptFromCommands = []string{"-c", "shell_environment_policy.ignore_default_excludes=false"}

// dropped are variables that a codex above us has set for its commands, and that would confuse this one.
var dropped = []string{"CODEX_THREAD_ID", "CODEX_CI", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_INTERNAL_ORIGINATOR_OVERRIDE"}

// environment returns the child's environment. extra is added to it.
func environment(opts *Options, spec harness.Spec, exe harness.Executable, extra map[string]string) []string {
	set := map[string]string{}
	for name, value := range extra {
		set[name] = value
	}
	if opts.Home != "" {
		set["CODEX_HOME"] = opts.Home
	}
	// The vendor's package has a ripgrep beside the binary.
	tools := filepath.Join(filepath.Dir(filepath.Dir(exe.Path)), "codex-path")
	if info, err := os.Stat(tools); err == nil && info.IsDir() {
		set["PATH"] = tools + string(filepath.ListSeparator) + lookup(spec.Env, "PATH")
	}
	drop := process.Names(dropped...)
	return process.Env(spec.Env, func(name string) bool {
		_, asked := spec.Config.Env[name]
		return drop(name) && !asked
	}, set)
}

// credentials are variables whose values must not be shown.
var credentials = []string{"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"}

// secrets returns every value that must not be shown: those of the config, and the credentials in the environment.
func secrets(spec harness.Spec) []string {
	all := spec.Config.Secrets()
	for _, name := range credentials {
		if v := lookup(spec.Env, name); v != "" {
			all = append(all, v)
		}
	}
	return all
}

// lookup returns the value of a variable in env; the last entry wins.
func lookup(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
