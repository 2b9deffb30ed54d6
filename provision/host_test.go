package provision

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

func hostFixture(t *testing.T, change func(*Options, map[string]string)) (*fixture, *fakeRegistry) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	return newFixture(t, reg, change), reg
}

// TestHostCandidatesThatAreUnfit puts unfit programs on PATH and expects each to be passed over, with its reason in the log, for the download.
func TestHostCandidatesThatAreUnfit(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		mode os.FileMode
		says string
	}{
		"shell script":   {claudeScript("2.1.400"), 0o755, "a script, and no native program is installed beside it"},
		"node script":    {"#!/usr/bin/env node\nconsole.log(1)", 0o755, "a script"},
		"text":           {"hello", 0o755, "a script"},
		"empty":          {"", 0o755, "a script"},
		"not executable": {claudeScript("2.1.400"), 0o644, "not executable"},
		"damaged ELF":    {"\x7fELF but not really", 0o755, "cannot start: not a program for this machine"},
		"musl program":   {string(elfFor("/lib/ld-no-such-loader.so.1")), 0o755, "its dynamic loader /lib/ld-no-such-loader.so.1 is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := hostFixture(t, nil)
			path := writeProgram(t, filepath.Join(f.home, "bin", "claude"), tc.body)
			if err := os.Chmod(path, tc.mode); err != nil {
				t.Fatal(err)
			}
			f.mustFind(t, FromDownload)
			if log := f.log.text(); !strings.Contains(log, tc.says) || !strings.Contains(log, path) {
				t.Errorf("the log lacks %q:\n%s", tc.says, log)
			}
		})
	}
}

// elfFor makes the smallest ELF file for this machine that asks for a loader.
func elfFor(loader string) []byte {
	machine := map[string]elf.Machine{"x64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[HostPlatform().Arch]
	const headerSize, progSize = 64, 56
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Phoff: headerSize, Ehsize: headerSize, Phentsize: progSize, Phnum: 2}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	const base = 0x400000
	name := loader + "\x00"
	at := uint64(headerSize + 2*progSize)
	interp := elf.Prog64{Type: uint32(elf.PT_INTERP), Flags: 4, Off: at, Vaddr: base + at, Filesz: uint64(len(name)), Memsz: uint64(len(name)), Align: 1}
	load := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Vaddr: base, Filesz: at + uint64(len(name)), Memsz: at + uint64(len(name)), Align: 0x1000}
	var out bytes.Buffer
	for _, part := range []any{h, interp, load, []byte(name)} {
		binary.Write(&out, binary.LittleEndian, part)
	}
	return out.Bytes()
}

// TestVersionProbe judges what programs answer. Overrides may be scripts, which makes them the way to say it.
func TestVersionProbe(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		says string // "" if it is fit
	}{
		"fit":              {claudeScript("2.1.197"), ""},
		"newer":            {claudeScript("3.0.0"), ""},
		"too old":          {claudeScript("2.1.196"), "version 2.1.196 is older than 2.1.197"},
		"pre-release":      {claudeScript("2.1.197-beta.1"), "is older than"},
		"garbage":          {script("\\033[2J%s%n"), "which is not a version of claude"},
		"another program":  {script("codex-cli 0.171.0"), "which is not a version of claude"},
		"version and more": {script("2.1.332 (Claude Code) or so"), "which is not a version of claude"},
		"huge number":      {claudeScript("99999999999999999999.0.0"), "is not a version of the form"},
		"silent":           {"#!/bin/sh\n", `printed ""`},
		"endless":          {"#!/bin/sh\nexec yes", "did not answer within"},
		"hangs":            {"#!/bin/sh\nsleep 60", "did not answer within"},
		"child keeps pipe": {"#!/bin/sh\nsleep 60 &\necho '2.1.332 (Claude Code)'", ""},
		"fails":            {"#!/bin/sh\necho broken >&2\nexit 3", "exit status 3: broken"},
		"no interpreter":   {"#!/no/such/shell\n", "the interpreter that it names is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := writeProgram(t, filepath.Join(t.TempDir(), "claude"), tc.body)
			probe := versionProbe{tool: Claude, oldest: "2.1.197", timeout: probeTimeout}
			if strings.Contains(tc.says, "did not answer") {
				probe.timeout = 300 * time.Millisecond
			}
			version, err := probe.check(t.Context(), path)
			if tc.says == "" && err != nil {
				t.Errorf("%v", err)
			}
			if tc.says != "" && !contains(err, tc.says) {
				t.Errorf("version %q, %v; want %q", version, err, tc.says)
			}
		})
	}
}

// TestNpmInstalls finds the native program behind npm's scripts, in each layout that npm and pnpm make.
func TestNpmInstalls(t *testing.T) {
	const native = "vendor/x86_64-unknown-linux-musl/bin/codex"
	for name, tc := range map[string]struct{ script, program string }{
		"nested":       {"lib/node_modules/@openai/codex/bin/codex.js", "lib/node_modules/@openai/codex/node_modules/@openai/codex-linux-x64/" + native},
		"hoisted":      {"lib/node_modules/@openai/codex/bin/codex.js", "lib/node_modules/@openai/codex-linux-x64/" + native},
		"pnpm":         {".pnpm/c@1/node_modules/@openai/codex/bin/codex.js", ".pnpm/c@1/node_modules/@openai/codex-linux-x64/" + native},
		"one package":  {"lib/node_modules/@openai/codex/bin/codex.js", "lib/node_modules/@openai/codex/" + native},
		"older layout": {"lib/node_modules/@openai/codex/bin/codex.js", "lib/node_modules/@openai/codex/vendor/x86_64-unknown-linux-musl/codex/codex"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			js := writeProgram(t, filepath.Join(dir, tc.script), "#!/usr/bin/env node\n")
			want := writeProgram(t, filepath.Join(dir, tc.program), "\x7fELF")
			link := filepath.Join(dir, "codex")
			if err := os.Symlink(js, link); err != nil {
				t.Fatal(err)
			}
			if got, err := nativeExecutable(Codex, link, testPlatform); got != want || err != nil {
				t.Errorf("%s, %v; want %s", got, err, want)
			}
		})
	}
	t.Run("a script that npm did not install", func(t *testing.T) {
		dir := t.TempDir()
		js := writeProgram(t, filepath.Join(dir, "tools", "codex"), "#!/bin/sh\n")
		writeProgram(t, filepath.Join(dir, "node_modules/@openai/codex-linux-x64", native), "\x7fELF")
		if got, err := nativeExecutable(Codex, js, testPlatform); err == nil {
			t.Errorf("it runs %s from a checkout", got)
		}
	})
}

func TestHostPlaces(t *testing.T) {
	env := map[string]string{"HOME": "/home/u", "PATH": "/src/node_modules/.bin:.:bin:/a:/src/sub/node_modules/.bin:/other/node_modules/.bin:/a:/b", "NPM_CONFIG_PREFIX": "/npm"}
	got := hostCandidates(Claude, func(k string) string { return env[k] }, "/src/sub")
	want := []string{
		"/a/claude", "/other/node_modules/.bin/claude", "/b/claude", "/home/u/.local/bin/claude", "/home/u/.claude/local/claude",
		"/home/u/.claude/local/node_modules/.bin/claude", "/npm/bin/claude",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestDetectMusl(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string // path: loader, "" for a file that is not ELF
		musl  bool
	}{
		"glibc":                     {map[string]string{"bin/sh": "/lib64/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2": ""}, false},
		"musl":                      {map[string]string{"bin/sh": "/lib/ld-musl-x86_64.so.1", "lib/ld-musl-x86_64.so.1": ""}, true},
		"musl with glibc's loader":  {map[string]string{"bin/sh": "/lib/ld-musl-x86_64.so.1", "lib/ld-musl-x86_64.so.1": "", "lib/ld-linux-x86-64.so.2": ""}, true},
		"glibc with musl's loader":  {map[string]string{"bin/sh": "/lib64/ld-linux-x86-64.so.2", "lib/ld-musl-x86_64.so.1": "", "lib64/ld-linux-x86-64.so.2": ""}, false},
		"no shell, musl's loader":   {map[string]string{"lib/ld-musl-aarch64.so.1": ""}, true},
		"static shell, both":        {map[string]string{"bin/sh": "", "lib/ld-musl-x86_64.so.1": "", "lib64/ld-linux-x86-64.so.2": ""}, false},
		"nothing":                   {nil, false},
		"static shell, dynamic env": {map[string]string{"bin/sh": "", "usr/bin/env": "/lib/ld-musl-x86_64.so.1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, loader := range tc.files {
				body := ""
				if loader != "" {
					body = string(elfFor(loader))
				}
				writeProgram(t, filepath.Join(root, path), body)
			}
			if got := detectMusl(root); got != tc.musl {
				t.Errorf("musl is %v, want %v", got, tc.musl)
			}
		})
	}
}
