package provision

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
)

// TestRealLoaders reads the beginning of the real claude builds for both libcs, and of this machine's shell, and checks what they ask for.
func TestRealLoaders(t *testing.T) {
	f, err := New(Options{Mode: Pinned, CacheDir: t.TempDir(), IgnoreOverrides: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for key, pkg := range f.pins.Tools[Claude].Platforms {
		if key[:5] != "linux" {
			continue
		}
		reg, err := f.findRegistry(t.Context(), pkg.scope())
		if errors.Is(err, ErrNoRegistry) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		loader := elfInterpreter(bytes.NewReader(headOfProgram(t, f, reg, pkg)))
		if want := key[len(key)-5:] == "-musl"; loader == "" || isMuslLoader(loader) != want {
			t.Errorf("the build for %s asks for the loader %q", key, loader)
		}
	}
	if runtime.GOOS == "linux" && interpreterOf("/bin/sh") != "" && HostPlatform().Musl != isMuslLoader(interpreterOf("/bin/sh")) {
		t.Errorf("this machine is taken for %v, and its shell asks for %s", HostPlatform(), interpreterOf("/bin/sh"))
	}
}

// headOfProgram downloads just enough of a package for its program's ELF headers, and hides that the rest is missing.
func headOfProgram(t *testing.T, p *Provisioner, reg registry, pkg Package) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, reg.tarball(pkg).String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=0-%d", 256<<10))
	if auth := reg.authorization(req.URL); auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	zip, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	const tarBlock, head = 512, 64 << 10
	data := make([]byte, tarBlock+head)
	if _, err := io.ReadFull(zip, data); err != nil {
		t.Fatal(err)
	}
	data = data[tarBlock:]
	for _, field := range []struct{ at, size int }{{0x28, 8}, {0x3c, 2}, {0x3e, 2}} { // e_shoff, e_shnum, e_shstrndx: the sections are at the end
		clear(data[field.at : field.at+field.size])
	}
	if binary.LittleEndian.Uint16(data[0x3a:]) == 0 {
		t.Fatal("not an ELF header")
	}
	return data
}
