package provision

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// TestRegistryChain takes the chain's links away one by one and expects the next to answer.
func TestRegistryChain(t *testing.T) {
	f := newFixture(t, nil, nil)
	home := f.home
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	global := filepath.Join(home, "prefix", "etc", "npmrc")
	npm := filepath.Join(home, "bin", "npm")
	DefaultRegistry = "https://baked.example"
	defer func() { DefaultRegistry = "" }()
	f.opts.Registry = "https://flag.example"
	f.env["AGENT_SERVER_NPM_REGISTRY"] = "https://own.example/npm"
	f.env["npm_config_registry"] = "https://lower.example"
	f.env["NPM_CONFIG_REGISTRY"] = "https://upper.example"
	f.env["MIRROR"] = "user.example"
	f.env["NPM_CONFIG_PREFIX"] = filepath.Join(home, "prefix")
	write(filepath.Join(home, ".npmrc"), "; a comment\n@openai:registry = https://scope.example/\nregistry=\"https://${MIRROR}/x/\"\n")
	write(global, "registry=https://global.example\n")
	writeProgram(t, npm, "#!/bin/sh\n[ \"$*\" = 'config get registry' ] && [ \"$PWD\" = / ] && echo https://npm.example/\n")

	for _, link := range []struct {
		want   string
		remove func()
	}{
		{"https://flag.example/", func() { f.opts.Registry = "" }},
		{"https://own.example/npm/", func() { delete(f.env, "AGENT_SERVER_NPM_REGISTRY") }},
		{"https://lower.example/", func() { delete(f.env, "npm_config_registry") }},
		{"https://upper.example/", func() { delete(f.env, "NPM_CONFIG_REGISTRY") }},
		{"https://scope.example/", func() { write(filepath.Join(home, ".npmrc"), "registry=https://${MIRROR}/x/") }},
		{"https://user.example/x/", func() { os.Remove(filepath.Join(home, ".npmrc")) }},
		{"https://global.example/", func() { os.Remove(global) }},
		{"https://npm.example/", func() { os.Remove(npm) }},
		{"https://baked.example/", func() { DefaultRegistry = "" }},
	} {
		reg, err := f.findRegistry(t.Context(), "@openai")
		if err != nil || reg.base.String() != link.want {
			t.Fatalf("got %v, %v; want %s", reg.base, err, link.want)
		}
		link.remove()
	}
	if _, err := f.findRegistry(t.Context(), "@openai"); !errors.Is(err, ErrNoRegistry) {
		t.Errorf("with nothing configured: %v", err)
	}
	if _, err := f.resolve(t); !errors.Is(err, ErrNoRegistry) {
		t.Errorf("resolve says %v, want that no registry is configured", err)
	}
}

func TestRegistryAddresses(t *testing.T) {
	for _, bad := range []string{"registry.example", "ftp://x/", "https://", "https://x/?q=1", "/path", "https://u:hunter2@x/%zz"} {
		u, err := parseRegistry(bad)
		if err == nil {
			t.Errorf("%q is taken for %v", bad, u)
		}
		if contains(err, "hunter2") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
	base, err := parseRegistry("https://user:hunter2@host.example/npm")
	if err != nil {
		t.Fatal(err)
	}
	if got := shown(base); got != "https://host.example/npm/" {
		t.Errorf("shown as %s", got)
	}
	r := registry{base: base}
	pkg := Package{Name: "@openai/codex", Version: "0.171.0-linux-x64"}
	if got := shown(r.tarball(pkg)); got != "https://host.example/npm/@openai/codex/-/codex-0.171.0-linux-x64.tgz" {
		t.Errorf("tarball %s", got)
	}
}

func TestTokens(t *testing.T) {
	none := func(string) string { return "" }
	c := npmConfig{files: []map[string]string{
		parseNpmrc([]byte("//host.example/:_authToken=root\n//host.example/npm/:_authToken=npm\n//port.example:8080/:_authToken=port\n"), none),
		parseNpmrc([]byte("//global.example/:_authToken=global\n"), none),
	}}
	for address, want := range map[string]string{
		"https://host.example/a/-/a.tgz":      "root",
		"https://host.example/npm/@a/b":       "npm",
		"https://host.example/npmx/@a/b":      "root",
		"https://host.example":                "root",
		"https://port.example:8080/a":         "port",
		"https://port.example/a":              "",
		"https://global.example/a/b/c":        "global",
		"https://evil.example/host.example/a": "",
		"https://host.example.evil/a":         "",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.token(u); got != want {
			t.Errorf("%s gets %q, want %q", address, got, want)
		}
	}
}

// FuzzNpmrc checks that no file makes the reader fail or loop.
func FuzzNpmrc(f *testing.F) {
	f.Add([]byte("registry=https://x/\n;c\n@a:registry=${B}\n[x]\n=\n"), "//h/a/b")
	f.Fuzz(func(t *testing.T, data []byte, path string) {
		c := npmConfig{files: []map[string]string{parseNpmrc(data, func(string) string { return "${x}" })}}
		if u, err := url.Parse("https:" + path); err == nil {
			c.token(u)
		}
	})
}
