package provision

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// childVariable makes the test binary an installer process: its value is the cache folder.
const childVariable = "PROVISION_TEST_CHILD"

// childMain installs claude and prints what it got. With $PROVISION_TEST_STOP it kills itself at that point of the installation.
func childMain() int {
	pins, err := LoadPins(os.Getenv("PROVISION_TEST_PINS"))
	if err != nil {
		fmt.Println(err)
		return 2
	}
	p, err := New(Options{Mode: Pinned, CacheDir: os.Getenv(childVariable), Registry: os.Getenv("PROVISION_TEST_REGISTRY"), Pins: pins})
	if err != nil {
		fmt.Println(err)
		return 2
	}
	defer p.Close()
	p.platform = testPlatform
	p.hooks.at = func(point string) {
		if point == os.Getenv("PROVISION_TEST_STOP") {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if dir := os.Getenv("PROVISION_TEST_ARRIVED"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(os.Getpid())), nil, 0o600); err != nil {
			fmt.Println(err)
			return 2
		}
	}
	exe, err := p.Install(context.Background(), Claude, InstallOptions{Force: os.Getenv("PROVISION_TEST_FORCE") != ""})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(exe.Source, exe.Path)
	return 0
}

// child prepares an installer process for f's cache and reg.
func child(t *testing.T, f *fixture, reg *fakeRegistry, env ...string) *exec.Cmd {
	t.Helper()
	pins := filepath.Join(t.TempDir(), "pins.json") // one for each child: the others may be reading theirs
	if err := f.pins.write(pins); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+f.cache.root, "PROVISION_TEST_PINS="+pins, "PROVISION_TEST_REGISTRY="+reg.URL)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// TestTwentyProcesses starts 20 installers at once: one download, one copy, and nobody sees a part of it.
func TestTwentyProcesses(t *testing.T) {
	packed := claudePackage(t, "2.1.332")
	reg := newRegistry(t, packed)
	serve, arrived := reg.tarball, t.TempDir()
	reg.tarball = func(w http.ResponseWriter, r *http.Request) {
		eventually(t, "all installers have arrived", func() bool {
			all, err := os.ReadDir(arrived)
			return err != nil || len(all) == 20
		})
		serve(w, r)
	}
	f := newFixture(t, reg, nil)
	var downloads, copies int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 20 {
		cmd := child(t, f, reg, "PROVISION_TEST_ARRIVED="+arrived)
		wg.Go(func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("installer: %v: %s", err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			if strings.HasPrefix(string(out), string(FromDownload)) {
				downloads++
			} else {
				copies++
			}
		})
	}
	wg.Wait()
	if downloads != 1 || copies != 19 || reg.requests.Load() != 1 {
		t.Errorf("%d downloads, %d shared copies, %d requests; want 1, 19, 1", downloads, copies, reg.requests.Load())
	}
	f.mustFind(t, FromCache)
	f.mustHoldOneCopy(t)
}

// mustHoldOneCopy checks that the cache holds the version folder and, apart from locks, nothing else.
func (f *fixture) mustHoldOneCopy(t testing.TB) {
	t.Helper()
	for _, path := range treeOf(t, f.cache.root) {
		top := strings.Split(path, "/")[1]
		if top != "2.1.332-linux-x64" && !strings.HasPrefix(top, lockPrefix) {
			t.Errorf("left in the cache: %s", path)
		}
	}
}

// TestKill kills an installer at each point of its work, with a complete old copy there and without, and checks that what is visible is whole
// or absent, and that the next installer cleans up.
func TestKill(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	for _, point := range []string{"temp", "unpacked", "verified", "published"} {
		t.Run(point, func(t *testing.T) {
			f := newFixture(t, reg, nil)
			kill(t, child(t, f, reg, "PROVISION_TEST_STOP="+point))
			if point == "published" {
				f.mustFind(t, FromCache)
			} else {
				f.mustFind(t, FromDownload)
			}
			f.mustHoldOneCopy(t)
		})
	}
	for _, point := range []string{"unpacked", "moved", "published"} {
		t.Run("replace "+point, func(t *testing.T) {
			f := newFixture(t, reg, nil)
			if _, err := f.Install(t.Context(), Claude, InstallOptions{}); err != nil {
				t.Fatal(err)
			}
			kill(t, child(t, f, reg, "PROVISION_TEST_STOP="+point, "PROVISION_TEST_FORCE=1"))
			if _, err := f.resolve(t); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Install(t.Context(), Claude, InstallOptions{Force: true}); err != nil {
				t.Fatal(err)
			}
			f.mustHoldOneCopy(t)
		})
	}
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the installer was not killed: %v: %s", err, out)
	}
}

// TestKillWhileDownloading kills an installer at many offsets of its download.
func TestKillWhileDownloading(t *testing.T) {
	packed := claudePackage(t, "2.1.332")
	reg := newRegistry(t, packed)
	for _, offset := range []int{0, 1, 100, len(packed) / 2, len(packed) - 1} {
		f := newFixture(t, reg, nil)
		sent, hold := make(chan struct{}), make(chan struct{})
		reg.tarball = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(packed)))
			w.Write(packed[:offset])
			w.(http.Flusher).Flush()
			close(sent)
			<-hold
		}
		cmd := child(t, f, reg)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-sent
		eventually(t, "a temporary folder", func() bool { return len(treeOf(t, f.cache.root)) > 1 })
		cmd.Process.Kill()
		cmd.Wait()
		close(hold)
		if _, err := f.cache.lookup(Claude, "2.1.332", "linux-x64", f.pins.Tools[Claude].Platforms["linux-x64"]); err == nil {
			t.Fatalf("killed at byte %d, and the cache has a copy", offset)
		}
		reg.tarball = func(w http.ResponseWriter, r *http.Request) { w.Write(packed) }
		f.mustFind(t, FromDownload)
		f.mustHoldOneCopy(t)
	}
}

// TestProxyOfTheEnvironment runs an installer whose registry only the proxy of $HTTP_PROXY can reach.
func TestProxyOfTheEnvironment(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	f := newFixture(t, reg, nil)
	cmd := child(t, f, reg, "PROVISION_TEST_REGISTRY=http://registry.invalid/npm/", "HTTP_PROXY="+reg.URL, "NO_PROXY=")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), string(FromDownload)) {
		t.Fatalf("through the proxy: %v: %s", err, out)
	}
	f2 := newFixture(t, reg, nil)
	cmd = child(t, f2, reg, "PROVISION_TEST_REGISTRY=http://registry.invalid/npm/", "HTTP_PROXY="+reg.URL, "NO_PROXY=registry.invalid")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("around the proxy: %s", out)
	}
}

// TestWaitForAnotherProcess shows that a caller who waits for another process's installation can give up, and that Close does not hang.
func TestWaitForAnotherProcess(t *testing.T) {
	packed := claudePackage(t, "2.1.332")
	reg := newRegistry(t, packed)
	hold := make(chan struct{})
	started := make(chan struct{}, 1)
	reg.tarball = func(w http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		<-hold
		w.Write(packed)
	}
	f := newFixture(t, reg, nil)
	cmd := child(t, f, reg)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-started
	stages := make(chan Progress, 100)
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	if _, err := f.Resolve(ctx, Claude, func(p Progress) { stages <- p }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the wait ended by %v, want its deadline", err)
	}
	if p := <-stages; p.Stage != Waiting {
		t.Errorf("the first report is %v, want waiting", p)
	}
	f.Close()
	close(hold)
	out, _ := io.ReadAll(bufio.NewReader(stdout))
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the other installer: %v: %s", err, out)
	}
}
