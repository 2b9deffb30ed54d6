package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// typescriptVersion is the compiler that the types are checked with.
const typescriptVersion = "5.9.3"

// TestTypeScript compiles the generated types, a program that uses them (testdata/consumer.ts), and fold.mjs with the types in its comments.
func TestTypeScript(t *testing.T) {
	lib := typescript(t)
	dir := t.TempDir()
	for name, to := range map[string]string{
		"../schema/agent-server.d.ts": "schema/agent-server.d.ts", "testdata/consumer.ts": "examples/consumer.ts", "fold.mjs": "examples/fold.mjs",
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := nodeCommand(t, filepath.Join(lib, "bin", "tsc"), "--noEmit", "--strict", "--target", "es2023", "--module", "esnext",
		"--moduleResolution", "bundler", "--allowJs", "--checkJs", "schema/agent-server.d.ts", "examples/consumer.ts", "examples/fold.mjs")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// typescript returns the folder of the compiler, which is installed once into the user's cache.
func typescript(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("installs the TypeScript compiler; leave out -short")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "agent-server-test", "typescript-"+typescriptVersion)
	lib := filepath.Join(dir, "node_modules", "typescript")
	if _, err := os.Stat(lib); err == nil {
		return lib
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Fatal("npm is not on the PATH; install Node with npm: the TypeScript types are checked with the compiler from there")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	// Installed aside and renamed, so that what is there is whole.
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "typescript-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	cmd := exec.CommandContext(t.Context(), npm, "install", "--prefix", tmp, "--no-audit", "--no-fund", "--ignore-scripts", "typescript@"+typescriptVersion)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm install typescript@%s: %v\n%s\nis a registry reachable? see npm config get registry", typescriptVersion, err, out)
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, there := os.Stat(lib); there != nil { // another test was not faster
			t.Fatal(err)
		}
	}
	return lib
}
