package provision

import (
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A Platform names a build in npm's words: OS "linux" or "darwin", Arch "x64" or "arm64", and Musl for linux on musl libc.
type Platform struct {
	OS, Arch string
	Musl     bool
}

// HostPlatform returns the platform that this process runs on. Other systems get their Go names, for which there are no pins.
func HostPlatform() Platform {
	p := Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	if p.Arch == "amd64" {
		p.Arch = "x64"
	}
	p.Musl = p.OS == "linux" && detectMusl("/")
	return p
}

// String returns the platform's key in the pins, such as "linux-x64-musl".
func (p Platform) String() string { return p.keys()[0] }

// keys lists the pins' keys that serve p, best first: a static linux build is pinned without a libc and serves musl too.
func (p Platform) keys() []string {
	base := p.OS + "-" + p.Arch
	if p.Musl {
		return []string{base + "-musl", base}
	}
	return []string{base}
}

// detectMusl reports whether the system below root uses musl libc. The dynamic loader that the system's own programs ask for decides: an
// Alpine with glibc compatibility, or a Debian with musl tools, has the loaders of both. Where no such program is dynamic, the loaders that
// exist decide.
func detectMusl(root string) bool {
	for _, program := range []string{"bin/sh", "usr/bin/env", "bin/ls", "bin/busybox"} {
		if loader := interpreterOf(filepath.Join(root, program)); loader != "" {
			return isMuslLoader(loader)
		}
	}
	return hasLoader(root, "ld-musl-*") && !hasLoader(root, "ld-linux*")
}

// interpreterOf returns the dynamic loader that the ELF file at path asks for, "" if it is static or not ELF.
func interpreterOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	return elfInterpreter(f)
}

func elfInterpreter(r io.ReaderAt) string {
	f, err := elf.NewFile(r)
	if err != nil {
		return ""
	}
	for _, prog := range f.Progs {
		if prog.Type != elf.PT_INTERP {
			continue
		}
		const longest = 4096 // a path
		name, err := io.ReadAll(io.LimitReader(prog.Open(), longest))
		if err != nil {
			return ""
		}
		return strings.TrimRight(string(name), "\x00")
	}
	return ""
}

func isMuslLoader(loader string) bool {
	return strings.HasPrefix(filepath.Base(loader), "ld-musl-")
}

func hasLoader(root, pattern string) bool {
	for _, dir := range []string{"lib", "lib64", "usr/lib", "usr/lib64"} {
		if found, _ := filepath.Glob(filepath.Join(root, dir, pattern)); len(found) > 0 {
			return true
		}
	}
	return false
}
