package provision

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// doctorTimeout bounds the question whether the registry answers.
const doctorTimeout = 10 * time.Second

// A Report is what a doctor finds. It changes nothing on the machine and downloads nothing.
type Report struct {
	Mode     Mode
	Platform Platform
	Tools    []ToolReport
	Cache    CacheReport
	Registry RegistryReport
}

// A ToolReport says what would run for one tool.
type ToolReport struct {
	Tool               Tool
	Pinned, MinVersion string
	// Executable is what would run now; its Path is "" when nothing is installed.
	Executable Executable
	// Downloadable says that nothing is installed and that the first turn would download the pinned build.
	Downloadable bool
	// Tried lists the places that were passed over.
	Tried []Tried
	// Credentials names the variables and files that seem to hold credentials. No value is ever read.
	Credentials []string
}

// Usable reports whether a turn could start.
func (r ToolReport) Usable() bool { return r.Executable.Path != "" || r.Downloadable }

// A CacheReport is the state of the managed cache.
type CacheReport struct {
	Root string
	// Exists is false before the first installation.
	Exists bool
	// Err says why the cache cannot be used at all, and WriteErr why nothing can be added to it.
	Err, WriteErr error
	Entries       []CacheEntry
}

// A RegistryReport is about the npm registry.
type RegistryReport struct {
	// Address has no password. It is "" when Err says that none is configured, or when the mode never uses one.
	Address string
	// Source says which setting named it.
	Source string
	Took   time.Duration
	Err    error
}

// Doctor looks at everything that a turn would need. With no tools it looks at all.
func (p *Provisioner) Doctor(ctx context.Context, tools ...Tool) (Report, error) {
	if len(tools) == 0 {
		tools = Tools()
	}
	r := Report{Mode: p.opts.Mode, Platform: p.platform, Tools: make([]ToolReport, len(tools))}
	for _, tool := range tools {
		if _, err := traitsOf(tool); err != nil {
			return r, err
		}
	}
	var wg sync.WaitGroup
	for i, tool := range tools {
		wg.Go(func() { r.Tools[i] = p.toolReport(ctx, tool) })
	}
	if p.opts.Mode != System {
		wg.Go(func() { r.Registry = p.registryReport(ctx, tools[0]) })
		r.Cache = p.cacheReport()
	}
	wg.Wait()
	for i := range r.Tools {
		t := &r.Tools[i]
		_, _, err := p.pins.Tools[t.Tool].packageFor(p.platform)
		t.Downloadable = t.Executable.Path == "" && p.opts.Mode != System && err == nil &&
			r.Registry.Err == nil && r.Cache.Err == nil && r.Cache.WriteErr == nil
	}
	return r, nil
}

func (p *Provisioner) toolReport(ctx context.Context, tool Tool) ToolReport {
	s := &search{p: p, tool: tool, pins: p.pins.Tools[tool]}
	exe, _ := s.installed(ctx)
	return ToolReport{
		Tool: tool, Pinned: s.pins.Version, MinVersion: s.pins.MinVersion, Executable: exe, Tried: s.tried,
		Credentials: credentials(tool, p.opts.Env),
	}
}

// credentials names where tool would find credentials.
func credentials(tool Tool, env func(string) string) []string {
	c := traits[tool].credentials
	var names []string
	for _, name := range c.variables {
		if env(name) != "" {
			names = append(names, "$"+name)
		}
	}
	dir := env(c.homeVar)
	if home := env("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, c.homeDir)
	}
	if file := filepath.Join(dir, c.file); dir != "" {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			names = append(names, file)
		}
	}
	return names
}

func (p *Provisioner) cacheReport() CacheReport {
	r := CacheReport{Root: p.cache.root}
	err := checkRoot(p.cache.root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.WriteErr = writable(existingParent(p.cache.root))
		return r
	case err != nil:
		r.Err = err
		return r
	}
	r.Exists = true
	r.WriteErr = writable(p.cache.root)
	r.Entries, r.Err = p.CacheList()
	return r
}

// existingParent returns the nearest folder above path that exists.
func existingParent(path string) string {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
	}
}

// writable asks the system without writing.
func writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return cacheWriteError(dir, err)
	}
	return nil
}

// registryReport asks the registry for the head of the file that an installation of tool would download.
func (p *Provisioner) registryReport(ctx context.Context, tool Tool) RegistryReport {
	ctx, cancel := context.WithTimeoutCause(ctx, doctorTimeout, errStalled)
	defer cancel()
	_, pkg, err := p.pins.Tools[tool].packageFor(p.platform)
	if err != nil {
		return RegistryReport{Err: err}
	}
	reg, err := p.findRegistry(ctx, pkg.scope())
	if err != nil {
		return RegistryReport{Err: err}
	}
	r := RegistryReport{Address: shown(reg.base), Source: reg.source}
	start := time.Now()
	r.Err = p.reach(ctx, reg, pkg)
	r.Took = time.Since(start)
	return r
}

func (p *Provisioner) reach(ctx context.Context, reg registry, pkg Package) error {
	at := reg.tarball(pkg)
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, at.String(), nil)
	if err != nil {
		return err
	}
	if auth := reg.authorization(at); auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("it does not answer: %w", connectError(ctx, err))
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &statusError{code: resp.StatusCode, url: at}
	}
	return nil
}
