//go:build linux

package process

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestStartErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nothing"), dangling); err != nil {
		t.Fatal(err)
	}
	plain := write("plain", "x", 0o644)
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{}, "no executable is configured"},
		{Spec{Path: filepath.Join(dir, "nothing")}, "there is no such file"},
		{Spec{Path: "no-such-program-anywhere"}, "no such program in PATH"},
		{Spec{Path: dangling}, "symbolic link"},
		{Spec{Path: dir}, "is a directory"},
		{Spec{Path: plain}, "chmod +x"},
		{Spec{Path: plain + "/x"}, "it cannot be looked at"},
		{Spec{Path: write("text", "hello", 0o755)}, "no program for this system"},
		{Spec{Path: write("empty", "", 0o755)}, "it is empty"},
		{Spec{Path: write("script", "#!/no/such/node\n", 0o755)}, "interpreter /no/such/node cannot be found"},
		{Spec{Path: write("dos", "#!/bin/sh\r\n", 0o755)}, "carriage return"},
		{Spec{Path: write("foreign", elfFile(t, elf.EM_SPARCV9, ""), 0o755)}, "another processor (sparcv9"},
		{Spec{Path: write("musl", elfFile(t, elfMachines[runtime.GOARCH], "/lib/ld-musl-none.so.1"), 0o755)}, "needs the loader /lib/ld-musl-none.so.1"},
		{Spec{Path: "/bin/sh", Dir: filepath.Join(dir, "gone")}, "working directory " + filepath.Join(dir, "gone") + " does not exist"},
		{Spec{Path: "/bin/sh", Dir: plain}, "is not a directory"},
		{Spec{Path: "/bin/sh", Args: []string{"a\x00b"}}, "NUL"},
		{Spec{Path: "/bin/sh", Args: []string{strings.Repeat("x", 4<<20)}}, "too long"},
	} {
		p, err := Start(context.Background(), c.spec)
		if err == nil {
			_ = p.Close(t.Context(), nil)
			t.Errorf("%s: it has started", c.want)
			continue
		}
		if e, ok := errors.AsType[*StartError](err); !ok || !strings.Contains(e.Error(), c.want) || e.Unwrap() == nil {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// elfFile makes the head of a 64-bit program for a machine that asks for a loader.
func elfFile(t *testing.T, machine elf.Machine, loader string) string {
	t.Helper()
	h := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	}
	ph := elf.Prog64{Type: uint32(elf.PT_INTERP), Flags: 4, Off: 120, Filesz: uint64(len(loader) + 1), Memsz: uint64(len(loader) + 1)}
	var b strings.Builder
	if err := errors.Join(binary.Write(&b, binary.LittleEndian, h), binary.Write(&b, binary.LittleEndian, ph)); err != nil {
		t.Fatal(err)
	}
	return b.String() + loader + "\x00"
}
