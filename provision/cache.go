package provision

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// stampName is the file in a version folder that says which package it holds. It is written last, so its presence is part of completeness.
const stampName = ".agent-server.json"

// tempPrefix and lockPrefix begin the names of what is not a version folder.
const (
	tempPrefix = ".tmp-"
	lockPrefix = ".lock-"
)

// A stamp is the record of an installation: the bytes it came from, and proof that `--version` answered before the folder got its name.
type stamp struct {
	Package   string `json:"package"`
	Version   string `json:"version"` // of the tool
	Integrity string `json:"integrity"`
	Entry     string `json:"entry"`
	EntrySize int64  `json:"entrySize"`
	Bytes     int64  `json:"bytes"` // of all files
}

// A cache is the managed folder. Its methods trust nothing until check has passed.
type cache struct{ root string }

// cacheRoot returns the folder of the documentation's chain.
func cacheRoot(configured string, env func(string) string) (string, error) {
	root := firstOf(configured, env("AGENT_SERVER_CACHE_DIR"))
	if root != "" {
		return filepath.Abs(root)
	}
	if xdg := env("XDG_CACHE_HOME"); filepath.IsAbs(xdg) {
		return filepath.Join(xdg, "agent-server"), nil
	}
	home := env("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("there is no place for a cache: set $AGENT_SERVER_CACHE_DIR or $HOME")
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Caches", "agent-server"), nil
	}
	return filepath.Join(home, ".cache", "agent-server"), nil
}

func (c cache) tool(tool Tool) string { return filepath.Join(c.root, string(tool)) }

// folderName is a version folder's name: the version and the pins' key of its platform.
func folderName(version, key string) string { return version + "-" + key }

func (c cache) folder(tool Tool, version, key string) string {
	return filepath.Join(c.tool(tool), folderName(version, key))
}

// lookup returns the complete installation of pkg. An error that is fs.ErrNotExist means that there is none; any other says what is damaged.
func (c cache) lookup(tool Tool, version, key string, pkg Package) (Executable, error) {
	if err := checkRoot(c.root); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Executable{}, fmt.Errorf("%s: nothing is installed: %w", c.root, fs.ErrNotExist)
		}
		return Executable{}, err
	}
	dir := c.folder(tool, version, key)
	if _, err := os.Lstat(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Executable{}, fmt.Errorf("%s %s is not installed in %s: %w", tool, version, c.root, fs.ErrNotExist)
		}
		return Executable{}, err
	}
	st, err := readStamp(dir)
	if err != nil {
		return Executable{}, fmt.Errorf("%s is damaged: %w", dir, err)
	}
	if st.Integrity != pkg.Integrity || st.Entry != pkg.Entry || st.Version != version {
		return Executable{}, fmt.Errorf("%s is damaged: it was made from another package", dir)
	}
	entry := filepath.Join(dir, filepath.FromSlash(pkg.Entry))
	if err := checkEntry(entry, st.EntrySize); err != nil {
		return Executable{}, fmt.Errorf("%s is damaged: %w", dir, err)
	}
	return Executable{Path: entry, Version: version, Source: FromCache, Dir: dir}, nil
}

// checkEntry accepts an executable file of ours or root's with the length it was installed with.
func checkEntry(entry string, size int64) error {
	info, err := os.Lstat(entry)
	switch {
	case err != nil:
		// Not wrapped: a folder without its entry is damaged, not absent.
		return fmt.Errorf("its executable is missing: %v", err)
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not an executable file (mode %v)", entry, info.Mode())
	case info.Size() != size:
		return fmt.Errorf("%s has %d of %d bytes", entry, info.Size(), size)
	case !trustedOwner(info) || info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s could be changed by others", entry)
	}
	return nil
}

func readStamp(dir string) (stamp, error) {
	f, err := os.Open(filepath.Join(dir, stampName))
	if err != nil {
		return stamp{}, fmt.Errorf("its record is missing: %v", err)
	}
	defer f.Close()
	const longest = 64 << 10
	data, err := io.ReadAll(io.LimitReader(f, longest))
	if err != nil {
		return stamp{}, err
	}
	var st stamp
	if err := json.Unmarshal(data, &st); err != nil {
		return stamp{}, fmt.Errorf("its record is not JSON: %v", err)
	}
	return st, nil
}

// sweep removes the temporary folders that crashed installers of tool left. A folder whose version is locked belongs to a living one; heldKey
// is the version folder whose lock the caller holds.
func (c cache) sweep(tool Tool, held string) {
	entries, err := os.ReadDir(c.tool(tool))
	if err != nil {
		return
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), tempPrefix)
		if !ok {
			continue
		}
		name = name[:max(strings.LastIndexByte(name, '-'), 0)]
		if name == held {
			os.RemoveAll(filepath.Join(c.tool(tool), e.Name()))
			continue
		}
		lock, err := tryLockFile(c.lockPath(tool, name))
		if err != nil {
			continue
		}
		os.RemoveAll(filepath.Join(c.tool(tool), e.Name()))
		lock.unlock()
	}
}

func (c cache) lockPath(tool Tool, folder string) string {
	return filepath.Join(c.tool(tool), lockPrefix+folder)
}
