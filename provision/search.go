package provision

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// Tried is one place that was looked at, and why it did not serve.
type Tried struct {
	Source Source
	Place  string
	Err    error
}

// String returns "host /usr/bin/claude: version 2.0.1 is older than …".
func (t Tried) String() string { return fmt.Sprintf("%s %s: %v", t.Source, t.Place, t.Err) }

// A NotFoundError says that no place supplied a tool, and what to do.
type NotFoundError struct {
	Tool  Tool
	Mode  Mode
	Tried []Tried
}

// Error lists each place on a line of its own.
func (e *NotFoundError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no usable %s CLI was found (--provision %s). Looked at:", e.Tool, e.Mode)
	for _, t := range e.Tried {
		fmt.Fprintf(&b, "\n  %v", t)
	}
	b.WriteString("\nTo mend it, ")
	if e.Mode == System {
		fmt.Fprintf(&b, "install %s on this machine, name its executable by $%s, or allow downloads by --provision auto", e.Tool, OverrideVariable(e.Tool))
	} else {
		fmt.Fprintf(&b, "run `agent-server install --harness %s` where the registry can be reached, or name an executable by $%s", e.Tool, OverrideVariable(e.Tool))
	}
	return b.String()
}

// Unwrap gives the causes of all places.
func (e *NotFoundError) Unwrap() []error {
	errs := make([]error, len(e.Tried))
	for i, t := range e.Tried {
		errs[i] = t.Err
	}
	return errs
}

// A search is one walk through the places of a mode.
type search struct {
	p     *Provisioner
	tool  Tool
	pins  ToolPins
	tried []Tried
}

// search finds tool and writes the log line.
func (p *Provisioner) search(ctx context.Context, tool Tool, m *meter) (Executable, error) {
	s := &search{p: p, tool: tool, pins: p.pins.Tools[tool]}
	exe, ok := s.installed(ctx)
	if !ok && p.opts.Mode != System && ctx.Err() == nil {
		exe, ok = s.download(ctx, m)
	}
	if err := context.Cause(ctx); err != nil && !ok {
		return Executable{}, err
	}
	if !ok {
		err := &NotFoundError{Tool: tool, Mode: p.opts.Mode, Tried: s.tried}
		p.opts.Logger.Error(fmt.Sprintf("%s CLI: none: %s", tool, s.passedOver()))
		return Executable{}, err
	}
	line := fmt.Sprintf("%s CLI: %v", tool, exe)
	if reasons := s.passedOver(); reasons != "" {
		line += "; passed over: " + reasons
	}
	p.opts.Logger.Info(line)
	return exe, nil
}

// passedOver joins the reasons. A place where nothing is installed is the normal case and not worth a word.
func (s *search) passedOver() string {
	var reasons []string
	for _, t := range s.tried {
		if !errors.Is(t.Err, fs.ErrNotExist) {
			reasons = append(reasons, strings.ReplaceAll(t.String(), "\n", " "))
		}
	}
	return strings.Join(reasons, "; ")
}

// installed looks at every place that needs no network.
func (s *search) installed(ctx context.Context) (Executable, bool) {
	if exe, ok := s.override(ctx); ok {
		return exe, true
	}
	if s.p.opts.Mode != Pinned {
		if exe, ok := s.host(ctx); ok {
			return exe, true
		}
	}
	if s.p.opts.Mode != System {
		return s.cached()
	}
	return Executable{}, false
}

func (s *search) override(ctx context.Context) (Executable, bool) {
	path := s.p.opts.Overrides[s.tool]
	if path == "" {
		return Executable{}, false
	}
	return s.try(ctx, FromOverride, path, path)
}

func (s *search) host(ctx context.Context) (Executable, bool) {
	seen := map[string]bool{}
	candidates := hostCandidates(s.tool, s.p.opts.Env, s.p.opts.WorkDir)
	for _, candidate := range candidates {
		real, err := filepath.EvalSymlinks(candidate)
		if err != nil || seen[real] {
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.pass(FromHost, candidate, err)
			}
			continue
		}
		seen[real] = true
		native, err := s.native(candidate)
		if err != nil {
			s.pass(FromHost, candidate, err)
			continue
		}
		if exe, ok := s.try(ctx, FromHost, candidate, native); ok {
			return exe, true
		}
	}
	if len(seen) == 0 {
		s.pass(FromHost, strings.Join(candidates, ", "), fmt.Errorf("nothing is installed there: %w", fs.ErrNotExist))
	}
	return Executable{}, false
}

func (s *search) native(candidate string) (string, error) {
	if err := checkCandidate(candidate); err != nil {
		return "", err
	}
	return nativeExecutable(s.tool, candidate, s.p.platform)
}

// try counts path as found if its version does. place is how reports call it.
func (s *search) try(ctx context.Context, source Source, place, path string) (Executable, bool) {
	version, err := s.p.probe(s.tool, s.pins.MinVersion).check(ctx, path)
	if err != nil {
		s.pass(source, place, err)
		return Executable{}, false
	}
	return Executable{Path: path, Version: version, Source: source, Dir: filepath.Dir(path)}, true
}

// cached looks into the managed cache. The copy there answered --version before it got its name, and is not asked again at each start.
func (s *search) cached() (Executable, bool) {
	key, pkg, err := s.pins.packageFor(s.p.platform)
	if err != nil {
		return Executable{}, false // the download says so
	}
	exe, err := s.p.cache.lookup(s.tool, s.pins.Version, key, pkg)
	if err != nil {
		s.pass(FromCache, s.p.cache.root, err)
		return Executable{}, false
	}
	return exe, true
}

func (s *search) download(ctx context.Context, m *meter) (Executable, bool) {
	exe, err := s.p.install(ctx, s.tool, false, m)
	if err != nil {
		s.pass(FromDownload, fmt.Sprintf("%s %s", s.tool, s.pins.Version), err)
		return Executable{}, false
	}
	return exe, true
}

func (s *search) pass(source Source, place string, err error) {
	s.tried = append(s.tried, Tried{Source: source, Place: place, Err: err})
}

func (p *Provisioner) probe(tool Tool, oldest string) versionProbe {
	return versionProbe{tool: tool, oldest: oldest, timeout: p.timeout}
}
