package provision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// hostClaude makes f's host have a native claude. The test binary itself is native and says nothing useful to --version, so the fixture's
// program is a script behind npm's layout, whose native file the search takes as it is.
func hostClaude(t *testing.T, home, version string) string {
	t.Helper()
	modules := filepath.Join(home, "lib", "node_modules", "@anthropic-ai", "claude-code")
	wrapper := writeProgram(t, filepath.Join(modules, "cli.js"), "#!/usr/bin/env node\n")
	native := writeProgram(t, filepath.Join(modules, "node_modules", "@anthropic-ai", "claude-code-linux-x64", "claude"), claudeScript(version))
	link := filepath.Join(home, "bin", "claude")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(wrapper, link); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	return native
}

// TestModes gives each mode every source, and takes the winners away.
func TestModes(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	for mode, order := range map[Mode][]Source{
		Auto:   {FromOverride, FromHost, FromCache, FromDownload},
		Pinned: {FromOverride, FromCache, FromDownload},
		System: {FromOverride, FromHost},
	} {
		t.Run(string(mode), func(t *testing.T) {
			f := newFixture(t, reg, func(_ *Options, env map[string]string) { env["AGENT_SERVER_PROVISION"] = string(mode) })
			f.opts.Overrides = map[Tool]string{Claude: writeProgram(t, filepath.Join(f.home, "own"), claudeScript("2.1.500"))}
			native := hostClaude(t, f.home, "2.1.400")
			if mode != System {
				if _, err := f.Install(t.Context(), Claude, InstallOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range order {
				exe := f.mustFind(t, want)
				if log := f.log.text(); !strings.HasSuffix(log, fmt.Sprintf("claude CLI: %s (%s %s)", exe.Path, want, exe.Version)) {
					t.Errorf("the log does not end in the line of %v:\n%s", exe, log)
				}
				switch want {
				case FromOverride:
					f.opts.Overrides = nil
					os.Remove(exe.Path)
				case FromHost:
					if exe.Path != native {
						t.Errorf("it runs %s, want the native %s", exe.Path, native)
					}
					os.RemoveAll(filepath.Join(f.home, "bin"))
					os.Remove(exe.Path)
				case FromCache:
					os.RemoveAll(exe.Dir)
				}
			}
			if mode == System {
				before := reg.requests.Load()
				err := f.mustFailSystem(t)
				if reg.requests.Load() != before {
					t.Error("system mode used the network")
				}
				for _, word := range []string{"$CLAUDE_CLI_PATH", ".local/bin/claude", "--provision auto"} {
					if !contains(err, word) {
						t.Errorf("the error lacks %q: %v", word, err)
					}
				}
			}
		})
	}
}

func (f *fixture) mustFailSystem(t *testing.T) error {
	t.Helper()
	exe, err := f.resolve(t)
	if _, ok := errors.AsType[*NotFoundError](err); !ok {
		t.Fatalf("%v, %v; want a NotFoundError", exe, err)
	}
	return err
}

func TestBadOptions(t *testing.T) {
	if _, err := New(Options{Mode: "always"}); !contains(err, "use auto, pinned or system") {
		t.Error(err)
	}
	f := newFixture(t, nil, nil)
	if _, err := f.Resolve(t.Context(), "sh", nil); !contains(err, "claude and codex") {
		t.Error(err)
	}
	if _, err := f.Install(t.Context(), "sh", InstallOptions{}); !contains(err, "claude and codex") {
		t.Error(err)
	}
	f.Close()
	if _, err := f.resolve(t); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := f.Install(t.Context(), Claude, InstallOptions{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestUnfitOverride falls through to the next place, and says so in the log.
func TestUnfitOverride(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	for body, says := range map[string]string{"": "no such file", claudeScript("1.0.0"): "is older than"} {
		f := newFixture(t, reg, func(o *Options, env map[string]string) {
			env["CLAUDE_CLI_PATH"] = filepath.Join(env["HOME"], "own")
			if body != "" {
				writeProgram(t, env["CLAUDE_CLI_PATH"], body)
			}
		})
		f.mustFind(t, FromDownload)
		if log := f.log.text(); !strings.Contains(log, "passed over: override "+f.env["CLAUDE_CLI_PATH"]) || !strings.Contains(log, says) {
			t.Errorf("the log lacks the reason %q: %s", says, log)
		}
	}
}

// TestResolveIsShared has ten callers wait for one slow download. Each is fed, one gives up without harm to the others.
func TestResolveIsShared(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	release := make(chan struct{})
	reg.tarball = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(reg.packed)))
		w.Write(reg.packed[:1000])
		w.(http.Flusher).Flush()
		<-release
		w.Write(reg.packed[1000:])
	}
	f := newFixture(t, reg, nil)
	impatient, cancel := context.WithCancel(t.Context())
	var wg, fed sync.WaitGroup
	fed.Add(10)
	for range 10 {
		wg.Go(func() {
			once := sync.OnceFunc(fed.Done)
			exe, err := f.Resolve(t.Context(), Claude, func(p Progress) {
				if p.Stage == Waiting || p.Total != int64(len(reg.packed)) || p.Tool != Claude || p.Version != "2.1.332" {
					t.Errorf("progress %+v", p)
				}
				once()
			})
			if err != nil || exe.Source != FromDownload {
				t.Errorf("%v, %v", exe, err)
			}
		})
	}
	wg.Go(func() {
		if _, err := f.Resolve(impatient, Claude, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the impatient caller got %v", err)
		}
	})
	cancel()
	fed.Wait()
	close(release)
	wg.Wait()
	f.mustFind(t, FromDownload) // the remembered result
	if n := reg.requests.Load(); n != 1 {
		t.Errorf("%d downloads", n)
	}
	if n := strings.Count(f.log.text(), "claude CLI:"); n != 1 {
		t.Errorf("%d log lines:\n%s", n, f.log.text())
	}
}

// TestProgressRate counts the reports of a download that moves all the time.
func TestProgressRate(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	reg.tarball = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(reg.packed)))
		step := len(reg.packed)/100 + 1
		pace := time.NewTicker(12 * time.Millisecond)
		defer pace.Stop()
		for off := 0; off < len(reg.packed); off += step {
			w.Write(reg.packed[off:min(off+step, len(reg.packed))])
			w.(http.Flusher).Flush()
			<-pace.C
		}
	}
	f := newFixture(t, reg, nil)
	start := time.Now()
	reports := 0
	if _, err := f.Resolve(t.Context(), Claude, func(Progress) { reports++ }); err != nil {
		t.Fatal(err)
	}
	if most := int(time.Since(start)/progressInterval) + 1; reports == 0 || reports > most {
		t.Errorf("%d reports in %v", reports, time.Since(start))
	}
}

// TestFailureIsNotRemembered lets the registry recover between two turns.
func TestFailureIsNotRemembered(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	serve := reg.tarball
	reg.tarball = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	f := newFixture(t, reg, nil)
	f.mustFail(t, "500")
	reg.tarball = serve
	f.mustFind(t, FromDownload)
}

// TestCloseEndsADownload closes in the middle, and expects everybody back and nothing left.
func TestCloseEndsADownload(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	started := make(chan struct{}, 2)
	reg.tarball = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(reg.packed)))
		w.Write(reg.packed[:1000])
		w.(http.Flusher).Flush()
		started <- struct{}{}
		<-r.Context().Done()
	}
	f := newFixture(t, reg, nil)
	got := make(chan error, 1)
	go func() {
		_, err := f.Resolve(context.Background(), Claude, nil)
		got <- err
	}()
	<-started
	f.Close()
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Errorf("the caller got %v", err)
	}
	f.mustBeEmpty(t)
}

// TestDamagedCopies damages an installed version in each way that is noticed, and expects a fresh one.
func TestDamagedCopies(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	for name, damage := range map[string]func(dir string) error{
		"missing program":   func(dir string) error { return os.Remove(filepath.Join(dir, "claude")) },
		"not executable":    func(dir string) error { return os.Chmod(filepath.Join(dir, "claude"), 0o644) },
		"truncated program": func(dir string) error { return os.Truncate(filepath.Join(dir, "claude"), 3) },
		"program is a link": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "claude")), os.Symlink("/bin/sh", filepath.Join(dir, "claude")))
		},
		"program is open to all": func(dir string) error { return os.Chmod(filepath.Join(dir, "claude"), 0o777) },
		"no record":              func(dir string) error { return os.Remove(filepath.Join(dir, stampName)) },
		"torn record":            func(dir string) error { return os.Truncate(filepath.Join(dir, stampName), 10) },
		"another package": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, stampName), []byte("{}"), 0o644)
		},
		"empty folder":   func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)) },
		"a file instead": func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o644)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, reg, nil)
			exe, err := f.Install(t.Context(), Claude, InstallOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(exe.Dir); err != nil {
				t.Fatal(err)
			}
			f.mustFind(t, FromDownload)
			f.mustHoldOneCopy(t)
			if !strings.Contains(f.log.text(), "is damaged") {
				t.Errorf("the log does not say why: %s", f.log.text())
			}
			second := newFixture(t, reg, func(o *Options, _ map[string]string) { o.CacheDir = f.cache.root })
			second.mustFind(t, FromCache)
		})
	}
}

// TestInstall covers what the command needs: the cache even where the host has a copy, a second run, and force.
func TestInstall(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	f := newFixture(t, reg, nil)
	hostClaude(t, f.home, "2.1.400")
	for i, want := range []Source{FromDownload, FromCache, FromDownload} {
		exe, err := f.Install(t.Context(), Claude, InstallOptions{Force: i == 2})
		if err != nil || exe.Source != want {
			t.Fatalf("install %d: %v, %v; want %s", i, exe, err, want)
		}
	}
	body, err := os.ReadFile(filepath.Join(f.cache.root, "claude", "2.1.332-linux-x64", "deep", "er", "padding"))
	if err != nil || len(body) != 200_000 {
		t.Errorf("the package's tree is not whole: %d bytes, %v", len(body), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Install(ctx, Claude, InstallOptions{Force: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled installation: %v", err)
	}
	f.mustHoldOneCopy(t)
}

func TestListAndPrune(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	f := newFixture(t, reg, nil)
	if list, err := f.CacheList(); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	old := newRegistry(t, claudePackage(t, "2.1.300"))
	oldPins := pinsFor(old.packed, "2.1.300")
	previous := newFixture(t, old, func(o *Options, _ map[string]string) { o.CacheDir, o.Pins = f.cache.root, oldPins })
	for _, p := range []*fixture{previous, f} {
		if _, err := p.Install(t.Context(), Claude, InstallOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(f.cache.root, "claude", tempPrefix+"2.1.1-linux-x64-123")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	list, err := f.CacheList()
	if err != nil || len(list) != 2 || list[0].Pinned || !list[1].Pinned || list[0].Damage != nil || list[1].Damage != nil || list[1].Bytes < 200_000 {
		t.Fatalf("%+v, %v", list, err)
	}
	lock, err := tryLockFile(f.cache.lockPath(Claude, list[0].Name))
	if err != nil {
		t.Fatal(err)
	}
	if removed, err := f.Prune(t.Context()); err != nil || len(removed) != 0 {
		t.Fatalf("it removed a locked version: %+v, %v", removed, err)
	}
	lock.unlock()
	removed, err := f.Prune(t.Context())
	if err != nil || len(removed) != 1 || removed[0].Name != "2.1.300-linux-x64" {
		t.Fatalf("%+v, %v", removed, err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("a crashed installer's folder is still there")
	}
	f.mustHoldOneCopy(t)
	f.mustFind(t, FromCache)
}

// TestDoctor looks at a bare machine, at a configured one and at a broken one.
func TestDoctor(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	f := newFixture(t, reg, nil)
	doctor := func() (Report, ToolReport) {
		t.Helper()
		r, err := f.Doctor(t.Context(), Claude)
		if err != nil {
			t.Fatal(err)
		}
		return r, r.Tools[0]
	}
	r, bare := doctor()
	if !bare.Usable() || !bare.Downloadable || bare.Executable.Path != "" || r.Registry.Err != nil || r.Cache.Exists || len(bare.Credentials) != 0 {
		t.Errorf("bare machine: %+v", r)
	}
	if reg.requests.Load() != 0 {
		t.Error("doctor downloaded")
	}
	f.env["ANTHROPIC_API_KEY"] = "s3cret"
	writeProgram(t, filepath.Join(f.home, ".claude", ".credentials.json"), "s3cret")
	f.mustFind(t, FromDownload)
	r, configured := doctor()
	if configured.Executable.Source != FromCache || configured.Downloadable || len(r.Cache.Entries) != 1 {
		t.Errorf("configured machine: %+v", r)
	}
	if got := strings.Join(configured.Credentials, " "); got != "$ANTHROPIC_API_KEY "+filepath.Join(f.home, ".claude", ".credentials.json") {
		t.Errorf("credentials: %s", got)
	}
	os.RemoveAll(f.cache.root)
	reg.Close()
	r, broken := doctor()
	if broken.Usable() || r.Registry.Err == nil || len(broken.Tried) == 0 {
		t.Errorf("broken machine: %+v", r)
	}
}

// FuzzExtract feeds archives to the extractor: whatever they hold, nothing appears outside the folder and nothing panics.
func FuzzExtract(f *testing.F) {
	f.Add("package/claude", "x", byte('0'), "")
	f.Add("package/../../x", "", byte('2'), "/etc")
	f.Add("a//b/./c", "y", byte('5'), "")
	f.Fuzz(func(t *testing.T, name, body string, kind byte, link string) {
		outer := t.TempDir()
		inner := filepath.Join(outer, "a", "b", "inner")
		if err := os.MkdirAll(inner, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(inner)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		packed, ok := tryPack(file{name: name, body: body, kind: kind, link: link}, file{name: "package/" + name, body: body})
		if !ok {
			return
		}
		newExtractor(root, 1<<20).extract(bytes.NewReader(packed))
		if found := treeOf(t, outer); len(found) < 3 {
			t.Fatal(found)
		} else {
			for _, path := range found {
				if !strings.HasPrefix("a/b/inner", path) && !strings.HasPrefix(path, "a/b/inner/") {
					t.Errorf("%q made %s", name, path)
				}
			}
		}
	})
}
