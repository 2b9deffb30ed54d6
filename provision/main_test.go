package provision

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain also serves as the installer process that the crash and concurrency tests start: see child_test.go.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(childMain())
	}
	goleak.VerifyTestMain(m)
}

// testPlatform is what the fake packages are for, wherever the tests run.
var testPlatform = Platform{OS: "linux", Arch: "x64"}

// testPolicy makes retries quick, and leaves a busy machine the time it needs.
var testPolicy = retryPolicy{attempts: 3, backoff: time.Millisecond, maxWait: 20 * time.Millisecond, idle: 5 * time.Second, total: 60 * time.Second}

// file is one entry of a fake archive; the zero type is a regular file.
type file struct {
	name string
	body string
	mode int64
	kind byte
	link string
}

// script returns a program that answers --version with line.
func script(line string) string { return "#!/bin/sh\necho '" + line + "'\n" }

func claudeScript(version string) string { return script(version + " (Claude Code)") }

// pack makes an npm package.
func pack(t testing.TB, files ...file) []byte {
	t.Helper()
	packed, ok := tryPack(files...)
	if !ok {
		t.Fatal("the archive cannot be written")
	}
	return packed
}

// tryPack is pack for entries that the tar format may not be able to say.
func tryPack(files ...file) ([]byte, bool) {
	var out bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	archive := tar.NewWriter(zip)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.body)), Typeflag: f.kind, Linkname: f.link, ModTime: time.Unix(499162500, 0)}
		if f.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := archive.WriteHeader(h); err != nil {
			return nil, false
		}
		if _, err := io.WriteString(archive, f.body); err != nil {
			return nil, false
		}
	}
	ok := archive.Close() == nil && zip.Close() == nil
	return out.Bytes(), ok
}

// claudePackage is a well-formed package whose program says version, padded so that a download takes more than one read.
func claudePackage(t testing.TB, version string) []byte {
	padding := make([]byte, 200_000)
	for i := range padding {
		padding[i] = byte(i * i >> 3) // does not compress to nothing
	}
	return pack(t,
		file{name: "package/claude", body: claudeScript(version), mode: 0o755},
		file{name: "package/package.json", body: "{}"},
		file{name: "package/deep/er/padding", body: string(padding)},
	)
}

// pinsFor pins packed as claude version for the test platform.
func pinsFor(packed []byte, version string) *Pins {
	sum := sha512.Sum512(packed)
	return &Pins{Tools: map[Tool]ToolPins{Claude: {Version: version, MinVersion: "2.1.197", Platforms: map[string]Package{
		testPlatform.String(): {
			Name: "@anthropic-ai/claude-code-linux-x64", Version: version,
			Integrity: integrityOf(sum[:]), Size: int64(len(packed)), Entry: "claude",
		},
	}}}}
}

// fakeRegistry serves one package, and lets a test replace its handlers.
type fakeRegistry struct {
	*httptest.Server
	packed   []byte
	requests atomic.Int64 // for the tarball
	tarball  http.HandlerFunc
	metadata http.HandlerFunc
}

func newRegistry(t testing.TB, packed []byte) *fakeRegistry {
	r := &fakeRegistry{packed: packed}
	r.tarball = func(w http.ResponseWriter, req *http.Request) {
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(r.packed))
	}
	r.metadata = http.NotFound
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, ".tgz") {
			if req.Method == http.MethodGet {
				r.requests.Add(1)
			}
			r.tarball(w, req)
			return
		}
		r.metadata(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// logLines collects the messages of a logger.
type logLines struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *logLines) Enabled(context.Context, slog.Level) bool { return true }
func (l *logLines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logLines) WithGroup(string) slog.Handler            { return l }
func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r.Message)
	return nil
}

func (l *logLines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// fixture is a Provisioner on a bare machine: an empty home, an empty PATH, a cache of its own, and a registry.
type fixture struct {
	*Provisioner
	log  *logLines
	home string
	env  map[string]string
}

func newFixture(t testing.TB, reg *fakeRegistry, change func(*Options, map[string]string)) *fixture {
	t.Helper()
	home := t.TempDir()
	f := &fixture{log: &logLines{}, home: home, env: map[string]string{"HOME": home, "PATH": filepath.Join(home, "bin")}}
	opts := Options{Env: func(k string) string { return f.env[k] }, Logger: slog.New(f.log), CacheDir: filepath.Join(home, "cache")}
	if reg != nil {
		opts.Registry = reg.URL
		opts.Pins = pinsFor(reg.packed, "2.1.332")
	}
	if change != nil {
		change(&opts, f.env)
	}
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	p.platform, p.policy = testPlatform, testPolicy
	f.Provisioner = p
	t.Cleanup(func() { p.Close() })
	return f
}

func (f *fixture) resolve(t testing.TB) (Executable, error) {
	t.Helper()
	return f.Resolve(t.Context(), Claude, nil)
}

// mustFind resolves claude and checks where it came from.
func (f *fixture) mustFind(t testing.TB, want Source) Executable {
	t.Helper()
	exe, err := f.resolve(t)
	if err != nil {
		t.Fatal(err)
	}
	if exe.Source != want {
		t.Fatalf("found %v, want the source %s", exe, want)
	}
	return exe
}

// mustFail resolves claude and checks that the error holds every one of the words, and that nothing was left in the cache.
func (f *fixture) mustFail(t testing.TB, words ...string) error {
	t.Helper()
	exe, err := f.resolve(t)
	if err == nil {
		t.Fatalf("found %v, want an error", exe)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error lacks %q:\n%v", w, err)
		}
	}
	f.mustBeEmpty(t)
	return err
}

// mustBeEmpty checks that the cache holds nothing but locks.
func (f *fixture) mustBeEmpty(t testing.TB) {
	t.Helper()
	for _, path := range treeOf(t, f.cache.root) {
		if !strings.Contains(filepath.Base(path), lockPrefix) {
			t.Errorf("left in the cache: %s", path)
		}
	}
}

// treeOf lists the files and folders below root but the tools' own folders, relative to it.
func treeOf(t testing.TB, root string) []string {
	t.Helper()
	var paths []string
	filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, path); err == nil && rel != "." && rel != "claude" && rel != "codex" {
			paths = append(paths, rel)
		}
		return nil
	})
	return paths
}

// writeProgram puts an executable file at path.
func writeProgram(t testing.TB, path, body string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// eventually polls until ok, for thirty seconds at most. Any goroutine may call it.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("timed out: " + what)
			return
		}
	}
}
