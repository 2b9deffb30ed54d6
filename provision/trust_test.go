package provision

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestUntrustedCacheRoots(t *testing.T) {
	const stranger = 54321
	mkdir := func(t *testing.T, path string, mode fs.FileMode) string {
		t.Helper()
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	give := func(t *testing.T, path string) {
		t.Helper()
		if os.Geteuid() != 0 {
			t.Skip("only root can give a folder to another user")
		}
		if err := os.Lchown(path, stranger, stranger); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, home string) (root string)
		says    string
	}{
		"symbolic link": {func(t *testing.T, home string) string {
			if err := os.Symlink(mkdir(t, home+"/real", 0o700), home+"/cache"); err != nil {
				t.Fatal(err)
			}
			return home + "/cache"
		}, "is a symbolic link"},
		"file": {func(t *testing.T, home string) string {
			return writeProgram(t, home+"/cache", "")
		}, "is not a folder"},
		"foreign": {func(t *testing.T, home string) string {
			root := mkdir(t, home+"/cache", 0o700)
			give(t, root)
			return root
		}, "belongs to user 54321"},
		"group-writable": {func(t *testing.T, home string) string { return mkdir(t, home+"/cache", 0o770) }, "is writable by others (mode 0770)"},
		"world-writable": {func(t *testing.T, home string) string { return mkdir(t, home+"/cache", 0o707) }, "is writable by others"},
		"below a group-writable folder": {func(t *testing.T, home string) string {
			mkdir(t, home+"/shared", 0o770)
			return mkdir(t, home+"/shared/x/cache", 0o700)
		}, "who could swap what is below"},
		"below a foreign folder": {func(t *testing.T, home string) string {
			root := mkdir(t, home+"/theirs/cache", 0o700)
			give(t, home+"/theirs")
			return root
		}, "who could swap it"},
		"through a foreign link": {func(t *testing.T, home string) string {
			mkdir(t, home+"/real/cache", 0o700)
			if err := os.Symlink(home+"/real", home+"/link"); err != nil {
				t.Fatal(err)
			}
			give(t, home+"/link")
			return home + "/link/cache"
		}, "who could swap it"},
		"through our link to a shared folder": {func(t *testing.T, home string) string {
			mkdir(t, home+"/real/cache", 0o700)
			mkdir(t, home+"/real", 0o777)
			if err := os.Symlink(home+"/real", home+"/link"); err != nil {
				t.Fatal(err)
			}
			return home + "/link/cache"
		}, "who could swap what is below"},
		"not yet there, below a shared folder": {func(t *testing.T, home string) string {
			mkdir(t, home+"/shared", 0o777)
			return home + "/shared/cache"
		}, "who could swap what is below"},
	} {
		t.Run(name, func(t *testing.T) {
			reg := newRegistry(t, claudePackage(t, "2.1.332"))
			f := newFixture(t, reg, func(o *Options, _ map[string]string) { o.CacheDir = tc.prepare(t, filepath.Dir(o.CacheDir)) })
			_, err := f.resolve(t)
			if _, ok := errors.AsType[*untrustedError](err); !ok {
				t.Fatalf("%v, want an error that the folder cannot be trusted", err)
			}
			if err := checkRoot(f.cache.root); err == nil || !contains(err, tc.says) || !contains(err, "$AGENT_SERVER_CACHE_DIR") {
				t.Errorf("%v, want %q and what to do", err, tc.says)
			}
			if reg.requests.Load() != 0 {
				t.Error("it downloaded into a cache that it does not trust")
			}
		})
	}
}

func TestTrustedCacheRoots(t *testing.T) {
	home := t.TempDir()
	if err := createRoot(home + "/a/b/cache"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(home + "/a/b/cache")
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("created with mode %v, %v; want 0700", info.Mode(), err)
	}
	if err := os.Symlink(home+"/a", home+"/ours"); err != nil {
		t.Fatal(err)
	}
	if err := checkRoot(home + "/ours/b/cache"); err != nil { // our own link above the root is ours to make
		t.Error(err)
	}
	if err := os.Chmod(home+"/a/b", 0o777|fs.ModeSticky); err != nil { // as /tmp is
		t.Fatal(err)
	}
	if err := checkRoot(home + "/a/b/cache"); err != nil {
		t.Error(err)
	}
}

func TestCacheRootChain(t *testing.T) {
	env := map[string]string{"HOME": "/h", "XDG_CACHE_HOME": "/x", "AGENT_SERVER_CACHE_DIR": "/a"}
	lookup := func(k string) string { return env[k] }
	for _, want := range []string{"/o", "/a", "/x/agent-server"} {
		configured := ""
		if want == "/o" {
			configured = "/o"
		}
		if got, err := cacheRoot(configured, lookup); got != want || err != nil {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
		if want == "/a" {
			delete(env, "AGENT_SERVER_CACHE_DIR")
		}
	}
	env["XDG_CACHE_HOME"] = "relative" // the XDG specification says to ignore it
	if got, err := cacheRoot("", lookup); !filepath.IsAbs(got) || filepath.Base(got) != "agent-server" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	delete(env, "HOME")
	if got, err := cacheRoot("", lookup); err == nil {
		t.Errorf("without a home: %s", got)
	}
}
