package provision

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFullDisk installs into file systems that are too small.
func TestFullDisk(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	t.Run("real", func(t *testing.T) {
		f := newFixture(t, reg, func(o *Options, _ map[string]string) { o.CacheDir = mountTmpfs(t, "size=64k") })
		f.mustFail(t, "is full")
	})
	t.Run("known before", func(t *testing.T) {
		before := reg.requests.Load()
		f := newFixture(t, reg, func(o *Options, _ map[string]string) { o.CacheDir = mountTmpfs(t, "size=64k") })
		pkg := f.pins.Tools[Claude].Platforms["linux-x64"]
		pkg.Unpacked = 300_000
		f.pins.Tools[Claude].Platforms["linux-x64"] = pkg
		f.mustFail(t, "is full", "are needed")
		if reg.requests.Load() != before {
			t.Error("it downloaded what cannot fit")
		}
	})
}

// mountTmpfs mounts a small file system, where this process may; the test that needs a real one is skipped elsewhere, beside its injected twin.
func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mount")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options+",mode=0700"); err != nil {
		t.Skipf("mounting needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestReadOnlyCache(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	dir := mountTmpfs(t, "size=4m")
	change := func(o *Options, _ map[string]string) { o.CacheDir = dir }
	remount := func(flags uintptr) {
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(unix.MS_RDONLY)
	newFixture(t, reg, change).mustFail(t, "is read-only", "agent-server install")
	remount(0)
	newFixture(t, reg, change).mustFind(t, FromDownload)
	remount(unix.MS_RDONLY)
	newFixture(t, reg, change).mustFind(t, FromCache)
}
