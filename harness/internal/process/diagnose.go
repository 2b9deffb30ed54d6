package process

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// StartError is a child that could not be started.
type StartError struct {
	Path string
	Dir  string
	Hint string // what is wrong and what to do
	Err  error  // the system's error
}

// Error says what failed, why and what to do. It holds no argument and no environment.
func (e *StartError) Error() string {
	return fmt.Sprintf("process: cannot start %s: %s (%v)", e.Path, e.Hint, e.Err)
}

// Unwrap returns the system's error.
func (e *StartError) Unwrap() error { return e.Err }

// diagnose turns a failed start into advice. The system's error alone misleads: ENOENT stands for a missing program, a missing interpreter of
// it, and a missing working directory.
func diagnose(spec Spec, err error) error {
	return &StartError{Path: spec.Path, Dir: spec.Dir, Hint: startHint(spec, err), Err: err}
}

func startHint(spec Spec, err error) string {
	switch {
	case spec.Path == "":
		return "no executable is configured: set its path"
	case errors.Is(err, unix.E2BIG):
		return "the arguments and environment are too long for the system: pass long texts through stdin or files"
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM):
		return "the system has no process or memory left for it: close some sessions, or raise the limits (ulimit -u, cgroup pids and memory)"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return "no file descriptor is left: raise the limit of open files (ulimit -n), or close some sessions"
	case errors.Is(err, unix.ETXTBSY):
		return "the file is being written: wait until its installation has finished"
	case strings.ContainsRune(spec.Path+spec.Dir+strings.Join(spec.Args, ""), 0):
		return "its path, directory or an argument holds a NUL byte: remove it"
	}
	if hint := dirHint(spec.Dir); hint != "" {
		return hint
	}
	return fileHint(spec, err)
}

func dirHint(dir string) string {
	if dir == "" {
		return ""
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("its working directory %s does not exist: create it or choose another", dir)
	case err != nil:
		return fmt.Sprintf("its working directory %s cannot be used: check its permissions and those of the folders above it", dir)
	case !info.IsDir():
		return fmt.Sprintf("its working directory %s is not a directory: choose another", dir)
	case unix.Access(dir, unix.X_OK) != nil:
		return fmt.Sprintf("its working directory %s may not be entered by this user: change its permissions or choose another", dir)
	}
	return ""
}

func fileHint(spec Spec, err error) string {
	path := spec.Path
	if !strings.Contains(path, "/") {
		found, lookErr := exec.LookPath(path)
		if lookErr != nil {
			return "no such program in PATH: install it, or give its full path"
		}
		path = found
	} else if !filepath.IsAbs(path) {
		path = filepath.Join(spec.Dir, path)
	}
	info, statErr := os.Stat(path)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		if _, e := os.Lstat(path); e == nil {
			return "it is a symbolic link to a file that does not exist: install it again"
		}
		return "there is no such file: install it, or correct the path"
	case statErr != nil:
		return "it cannot be looked at: check the permissions of the folders above it"
	case info.IsDir():
		return "it is a directory: give the path of the program in it"
	case !info.Mode().IsRegular():
		return "it is not a regular file: give the path of a program"
	case info.Mode().Perm()&0o111 == 0:
		return "it is not executable: make it so with chmod +x"
	}
	if hint := formatHint(path, err); hint != "" {
		return hint
	}
	if errors.Is(err, fs.ErrPermission) {
		return "this user may not execute it: check its permissions, and that its file system is not mounted noexec"
	}
	return "the system refused it: run it by hand in the same directory to see more"
}

// formatHint looks into the file: at the interpreter of a script, and at processor and loader of a program.
func formatHint(path string, err error) string {
	f, openErr := os.Open(path)
	if openErr != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.Read(head)
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		return scriptHint(head)
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return elfHint(f)
	case n == 0:
		return "it is empty: install it again"
	case errors.Is(err, unix.ENOEXEC):
		return "it is no program for this system (" + runtime.GOOS + "/" + runtime.GOARCH + "): a script needs a first line such as #!/bin/sh, a program must be built for this machine"
	}
	return ""
}

func scriptHint(head []byte) string {
	line, _, _ := bytes.Cut(head[2:], []byte{'\n'})
	if bytes.HasSuffix(line, []byte{'\r'}) {
		return "its first line ends in a carriage return, which the system takes for a part of the interpreter's name: save it with Unix line endings"
	}
	fields := bytes.Fields(line)
	if len(fields) == 0 {
		return "its first line names no interpreter: write one, such as #!/bin/sh"
	}
	if _, err := os.Stat(string(fields[0])); err != nil {
		return fmt.Sprintf("its interpreter %s cannot be found: install it, or correct the first line of the script", fields[0])
	}
	return ""
}

var elfMachines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "386": elf.EM_386, "arm": elf.EM_ARM,
	"riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "loong64": elf.EM_LOONGARCH,
}

func elfHint(f *os.File) string {
	if runtime.GOOS != "linux" {
		return "it is a program for Linux: install the build for this system"
	}
	file, err := elf.NewFile(f)
	if err != nil {
		return "it is damaged: install it again"
	}
	if want, ok := elfMachines[runtime.GOARCH]; ok && file.Machine != want {
		return fmt.Sprintf("it is built for another processor (%s, this machine is %s): install the build for this machine",
			strings.ToLower(strings.TrimPrefix(file.Machine.String(), "EM_")), runtime.GOARCH)
	}
	for _, prog := range file.Progs {
		if prog.Type != elf.PT_INTERP || prog.Filesz > unix.PathMax {
			continue
		}
		name := make([]byte, prog.Filesz)
		if _, err := prog.ReadAt(name, 0); err != nil {
			return "it is damaged: install it again"
		}
		loader := string(bytes.TrimRight(name, "\x00"))
		if _, err := os.Stat(loader); err != nil {
			return fmt.Sprintf("it needs the loader %s, which this system lacks: install the build for this system's C library (%s)", loader, otherLibc(loader))
		}
	}
	return ""
}

func otherLibc(loader string) string {
	if strings.Contains(loader, "musl") {
		return "glibc, not musl"
	}
	return "probably musl, not glibc"
}
