package provision

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A Mode says which places may supply an executable.
type Mode string

// The modes. The override is looked at in each of them.
const (
	Auto   Mode = "auto"   // override, host install, managed cache, download
	Pinned Mode = "pinned" // override, managed cache, download: never a host install
	System Mode = "system" // override, host install: never a download and never the network
)

// ParseMode reads a mode as flags and the environment spell it; "" is Auto.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return Auto, nil
	case Auto, Pinned, System:
		return m, nil
	}
	return "", fmt.Errorf("provision mode %q: use auto, pinned or system", s)
}

// A Source is the place that an executable came from.
type Source string

// The sources.
const (
	FromOverride Source = "override"
	FromHost     Source = "host"
	FromCache    Source = "cache"
	FromDownload Source = "download"
)

// An Executable is a CLI that was checked.
type Executable struct {
	// Path is absolute and names a native program, or whatever an override names.
	Path string
	// Version is what it answers to --version, such as "2.1.332".
	Version string
	Source  Source
	// Dir is the package's folder in the cache, and the folder that holds Path for the other sources.
	Dir string
}

// String returns the form that the log and the commands print: "PATH (cache 2.1.332)".
func (e Executable) String() string { return fmt.Sprintf("%s (%s %s)", e.Path, e.Source, e.Version) }

// Options configure a Provisioner. The zero value is the documented default of every field.
type Options struct {
	// Mode is Auto when it is empty and $AGENT_SERVER_PROVISION is.
	Mode Mode
	// Overrides names executables by tool, and wins over $CLAUDE_CLI_PATH and $CODEX_CLI_PATH. Only the operator may fill it.
	Overrides map[Tool]string
	// IgnoreOverrides leaves the override variables of the environment alone; Overrides still count.
	IgnoreOverrides bool
	// CacheDir is $AGENT_SERVER_CACHE_DIR when it is empty, and the user's cache folder when both are.
	CacheDir string
	// Registry is the npm registry's URL; empty means the chain that [DefaultRegistry] ends.
	Registry string
	// Env looks up environment variables; nil is os.Getenv. Children are started with the process's own environment.
	Env func(string) string
	// WorkDir is the folder whose node_modules/.bin, and those above it, never supply an executable; empty is the working directory.
	WorkDir string
	// Logger gets one line for each resolution; nil is slog.Default().
	Logger *slog.Logger
	// HTTPClient makes the requests; nil is a client that honours HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE.
	HTTPClient *http.Client
	// Pins replace the compiled-in pins of the tools that they hold.
	Pins *Pins
}

// ErrClosed reports the use of a Provisioner after Close.
var ErrClosed = errors.New("provision: the provisioner is closed")

// A Provisioner finds and installs CLIs. Its methods are safe for concurrent use. Close ends what it started.
type Provisioner struct {
	opts     Options
	pins     *Pins
	platform Platform
	cache    cache
	client   *http.Client
	policy   retryPolicy
	timeout  time.Duration // of `--version`

	hooks hooks // empty but in tests

	ctx    context.Context // the life of every resolution
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // the resolutions' goroutines; Add under mu

	mu      sync.Mutex // guards flights and closed
	flights map[Tool]*flight
	closed  bool
}

// New returns a Provisioner. It looks at nothing on the machine but the environment; an error is about the options themselves.
func New(opts Options) (*Provisioner, error) {
	if opts.Env == nil {
		opts.Env = os.Getenv
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.WorkDir == "" {
		opts.WorkDir, _ = os.Getwd()
	}
	mode, err := ParseMode(firstOf(string(opts.Mode), opts.Env("AGENT_SERVER_PROVISION")))
	if err != nil {
		return nil, err
	}
	opts.Mode = mode
	root, err := cacheRoot(opts.CacheDir, opts.Env)
	if err != nil && mode != System {
		return nil, err
	}
	if opts.Overrides, err = overrides(opts); err != nil {
		return nil, err
	}
	client := opts.HTTPClient
	if client == nil {
		client = newClient()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Provisioner{
		opts: opts, pins: opts.Pins.over(DefaultPins()), platform: HostPlatform(), cache: cache{root}, client: client,
		policy: defaultPolicy, timeout: probeTimeout, ctx: ctx, cancel: cancel, flights: map[Tool]*flight{},
	}, nil
}

// overrides merges the options with the environment and makes the paths absolute.
func overrides(opts Options) (map[Tool]string, error) {
	merged := map[Tool]string{}
	for _, tool := range Tools() {
		path := opts.Overrides[tool]
		if path == "" && !opts.IgnoreOverrides {
			path = opts.Env(OverrideVariable(tool))
		}
		if path == "" {
			continue
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("the override for %s: %w", tool, err)
		}
		merged[tool] = abs
	}
	return merged, nil
}

// Close cancels running resolutions, waits for them and makes later calls fail with ErrClosed. It is idempotent.
func (p *Provisioner) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel(ErrClosed)
	p.wg.Wait()
	if p.opts.HTTPClient == nil {
		p.client.CloseIdleConnections()
	}
	return nil
}

// Resolve returns the executable to run for tool. The search runs once for each tool and is shared by concurrent callers; a search that
// failed is made again at the next call. ctx bounds this caller's wait only. progress, which may be nil, is called by this goroutine at most
// four times a second while a download runs.
//
// The error of a fruitless search is a *[NotFoundError].
func (p *Provisioner) Resolve(ctx context.Context, tool Tool, progress func(Progress)) (Executable, error) {
	if _, err := traitsOf(tool); err != nil {
		return Executable{}, err
	}
	f, err := p.join(tool)
	if err != nil {
		return Executable{}, err
	}
	return f.wait(ctx, progress)
}

// Prefetch begins the search for tools without waiting for it, so that the first turn finds it done or under way. What comes of it is in the
// log, and a failure is tried again by the next Resolve.
func (p *Provisioner) Prefetch(tools ...Tool) {
	for _, tool := range tools {
		if _, err := traitsOf(tool); err == nil {
			p.join(tool) // ErrClosed is the only error, and then there is nothing to fetch for
		}
	}
}

// InstallOptions configure [Provisioner.Install].
type InstallOptions struct {
	// Force downloads even when the cache holds a complete copy, and replaces it.
	Force bool
	// Progress is called by Install's goroutine at most four times a second; nil is fine.
	Progress func(Progress)
}

// Install brings tool's pinned version into the cache, whatever the host has and whatever the mode, and returns it. The source is FromCache
// when a complete copy was there already. ctx bounds the whole installation.
func (p *Provisioner) Install(ctx context.Context, tool Tool, opts InstallOptions) (Executable, error) {
	if _, err := traitsOf(tool); err != nil {
		return Executable{}, err
	}
	f := newFlight()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(ErrClosed) })()
	err := p.start(func() {
		defer close(f.done)
		f.exe, f.err = p.install(ctx, tool, opts.Force, &f.meter)
	})
	if err != nil {
		return Executable{}, err
	}
	defer func() { <-f.done }()
	return f.wait(ctx, opts.Progress)
}

func (p *Provisioner) install(ctx context.Context, tool Tool, force bool, m *meter) (Executable, error) {
	in, err := p.newInstallation(tool, force, m)
	if err != nil {
		return Executable{}, err
	}
	if !force { // without a lock, so that a read-only cache serves
		if found, err := p.cache.lookup(tool, in.version, in.key, in.pkg); err == nil {
			return found, nil
		}
	}
	return in.run(ctx)
}

// start runs work in a goroutine that Close joins.
func (p *Provisioner) start(work func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startLocked(work)
}

func (p *Provisioner) startLocked(work func()) error {
	if p.closed {
		return ErrClosed
	}
	p.wg.Go(work)
	return nil
}

// join returns the flight of tool: the one that runs or has landed, or a new one.
func (p *Provisioner) join(tool Tool) (*flight, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.flights[tool]; f != nil && !f.vanished() {
		return f, nil
	}
	f := newFlight()
	err := p.startLocked(func() { p.fly(tool, f) })
	if err != nil {
		return nil, err
	}
	p.flights[tool] = f
	return f, nil
}

// fly makes one search. A failed one is forgotten before its waiters wake, so that whoever asks next starts afresh.
func (p *Provisioner) fly(tool Tool, f *flight) {
	defer close(f.done)
	f.exe, f.err = p.search(p.ctx, tool, &f.meter)
	if f.err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.flights, tool)
	}
}

// A flight is one search or installation and its result, shared by all who wait for it.
type flight struct {
	meter meter
	done  chan struct{} // closed when exe and err are set
	exe   Executable
	err   error
}

func newFlight() *flight { return &flight{done: make(chan struct{})} }

// wait returns the result, or ctx's cause; meanwhile it feeds progress.
func (f *flight) wait(ctx context.Context, progress func(Progress)) (Executable, error) {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	var last Progress
	for {
		select {
		case <-f.done:
			return f.exe, f.err
		case <-ctx.Done():
			return Executable{}, context.Cause(ctx)
		case <-ticker.C:
		}
		if now := f.meter.load(); progress != nil && now != last && now.Stage != "" {
			last = now
			progress(now)
		}
	}
}

// vanished reports whether f has found a file that is gone since: an update of the host's CLI, or a pruned cache.
func (f *flight) vanished() bool {
	select {
	case <-f.done:
		_, err := os.Stat(f.exe.Path)
		return f.err == nil && errors.Is(err, fs.ErrNotExist)
	default:
		return false
	}
}
