package claude

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"agentserver/harness"
	"agentserver/harness/internal/process"
	"agentserver/protocol"
)

// ID is the id of the harness.
const ID protocol.HarnessID = "claude-code"

// Defaults of [Options].
const (
	DefaultMinVersion       = "2.1.197"
	DefaultHandshakeTimeout = 30 * time.Second
	DefaultMCPTimeout       = 30 * time.Second
	DefaultInterruptWait    = 3 * time.Second
	DefaultQuiet            = 2 * time.Second
)

// DefaultLadder is how an idle CLI is ended: end of input (it may wait 5 s for its background commands), SIGINT, SIGTERM; then the tree is killed.
var DefaultLadder = process.Ladder{
	{Do: process.CloseStdin, Wait: 6 * time.Second},
	{Do: process.Interrupt, Wait: 2 * time.Second},
	{Do: process.Terminate, Wait: 2 * time.Second},
}

// Options configure the harness. Only Resolve is required; a zero field has the documented default.
type Options struct {
	// Resolve finds the CLI.
	Resolve harness.Resolver
	// MinVersion is the oldest CLI that is accepted; DefaultMinVersion when empty. A CLI that does not tell its version is accepted.
	MinVersion string
	// HandshakeTimeout bounds the time from the start of the CLI to its first answer; DefaultHandshakeTimeout when 0.
	HandshakeTimeout time.Duration
	// MCPTimeout bounds the connection of the configured MCP servers before the first turn; DefaultMCPTimeout when 0.
	MCPTimeout time.Duration
	// InterruptWait is how long Close lets a running turn end by itself after the interrupt; DefaultInterruptWait when 0.
	InterruptWait time.Duration
	// Quiet is the silence after which a turn that only work in the background opened is ended; DefaultQuiet when 0.
	Quiet time.Duration
	// Ladder ends the CLI; DefaultLadder when nil.
	Ladder process.Ladder
	// MaxLine bounds a line of the CLI, in bytes; 64 MiB when 0. A longer one ends the CLI.
	MaxLine int
	// Entrypoint names this program to the CLI (CLAUDE_CODE_ENTRYPOINT); "agent-server" when empty.
	Entrypoint string
	// NoReaper leaves the CLI without the protection against a SIGKILL of this program, see package process.
	NoReaper bool
}

// New returns the harness. It does no I/O.
func New(opts Options) harness.Harness {
	if opts.MinVersion == "" {
		opts.MinVersion = DefaultMinVersion
	}
	if opts.Entrypoint == "" {
		opts.Entrypoint = "agent-server"
	}
	if opts.Ladder == nil {
		opts.Ladder = DefaultLadder
	}
	setDefault(&opts.HandshakeTimeout, DefaultHandshakeTimeout)
	setDefault(&opts.MCPTimeout, DefaultMCPTimeout)
	setDefault(&opts.InterruptWait, DefaultInterruptWait)
	setDefault(&opts.Quiet, DefaultQuiet)
	return &driver{opts: opts, euid: os.Geteuid()}
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d <= 0 {
		*d = to
	}
}

type driver struct {
	opts Options
	euid int
}

// ID implements [harness.Harness].
func (d *driver) ID() protocol.HarnessID { return ID }

// Capabilities implements [harness.Harness].
func (d *driver) Capabilities() protocol.Capabilities {
	return protocol.Capabilities{
		MultiTurn:          true,
		SessionResume:      true,
		ModelSwitch:        protocol.ModelSwitchInSession,
		ThinkingLevels:     []protocol.ThinkingLevel{protocol.ThinkingOff, protocol.ThinkingLow, protocol.ThinkingMedium, protocol.ThinkingHigh, protocol.ThinkingXHigh},
		Images:             true,
		MCPServers:         true,
		PermissionRequests: true,
		Steering:           true,
		Cost:               true,
		Files:              true,
	}
}

// Open implements [harness.Harness]: it starts a CLI of the session's own and returns when that has answered.
func (d *driver) Open(ctx context.Context, spec harness.Spec) (harness.Session, error) {
	if err := d.check(spec); err != nil {
		return nil, err
	}
	if d.opts.Resolve == nil {
		return nil, errors.New("claude: Options.Resolve is missing: name a function that finds the CLI, such as one on package provision")
	}
	exe, err := d.opts.Resolve(ctx, spec.Notify)
	if err != nil {
		return nil, err
	}
	if older(exe.Version, d.opts.MinVersion) {
		return nil, &harness.Error{Category: protocol.CategoryInvalidRequest, Message: fmt.Sprintf(
			"claude %s is too old: version %s or newer is needed; update it, or let the server install its own copy", exe.Version, d.opts.MinVersion)}
	}
	return d.start(ctx, spec, exe)
}

// check refuses, before anything is started, what the CLI is known to refuse.
func (d *driver) check(spec harness.Spec) error {
	bypass := spec.Config.PermissionMode == protocol.ModeBypassPermissions
	if bypass && d.euid == 0 && lookup(spec.Env, "IS_SANDBOX") != "1" {
		return &harness.Error{Category: protocol.CategoryInvalidRequest, Message: "config.permissionMode bypass_permissions: claude refuses it to root. " +
			"Run the server as another user, or, if this machine is a sandbox, set the environment variable IS_SANDBOX to exactly 1"}
	}
	return nil
}

// older reports whether version is known to be below least. Versions are dotted numbers; what follows another character is ignored.
func older(version, least string) bool {
	v, w := numbers(version), numbers(least)
	for i := range min(len(v), len(w)) {
		if v[i] != w[i] {
			return v[i] < w[i]
		}
	}
	return false
}

func numbers(version string) []int {
	var ns []int
	for field := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(field)
		if err != nil {
			return ns
		}
		ns = append(ns, n)
	}
	return ns
}
