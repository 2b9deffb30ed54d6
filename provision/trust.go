package provision

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// An untrustedError says why the cache folder could be under somebody else's control.
type untrustedError struct{ path, reason string }

func (e *untrustedError) Error() string {
	return fmt.Sprintf("the cache folder cannot be trusted: %s %s; correct that, or name another folder by $AGENT_SERVER_CACHE_DIR", e.path, e.reason)
}

// checkRoot accepts root as a cache folder if nobody but root and this process's user can change what is in it or swap it for another. A
// missing root gives an error that is fs.ErrNotExist.
func checkRoot(root string) error {
	info, err := os.Lstat(root)
	if err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return &untrustedError{root, "is a symbolic link"}
	case !info.IsDir():
		return &untrustedError{root, "is not a folder"}
	case !trustedOwner(info):
		return &untrustedError{root, fmt.Sprintf("belongs to user %d", owner(info))}
	case info.Mode().Perm()&0o022 != 0:
		return &untrustedError{root, fmt.Sprintf("is writable by others (mode %04o)", info.Mode().Perm())}
	}
	return checkAncestors(root)
}

// checkAncestors walks from path's parent to the top, and follows each link on the way, because who can rename any of these can swap path.
func checkAncestors(path string) error {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if err := checkAncestor(dir); err != nil {
			return err
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	parent := filepath.Dir(path)
	real, err := filepath.EvalSymlinks(parent)
	if err != nil {
		return err
	}
	if real != parent {
		// The links themselves were checked above; now the folders that they lead to.
		return checkAncestors(filepath.Join(real, filepath.Base(path)))
	}
	return nil
}

// checkAncestor accepts a folder that only root and we can rename entries of. A sticky folder (/tmp) counts: others can add entries there but
// not move ours.
func checkAncestor(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !trustedOwner(info) {
		return &untrustedError{dir, fmt.Sprintf("belongs to user %d, who could swap it", owner(info))}
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil // a link has no mode of its own; its folder's is checked
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return &untrustedError{dir, fmt.Sprintf("is writable by others (mode %04o), who could swap what is below", info.Mode().Perm())}
	}
	return nil
}

func owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// trustedOwner accepts ourselves and root: root could change anything anyway, and bakes read-only caches into images.
func trustedOwner(info fs.FileInfo) bool {
	uid := owner(info)
	return uid == 0 || uid == os.Geteuid()
}

// createRoot makes root with mode 0700, and what is missing above it, and checks the result.
func createRoot(root string) error {
	err := checkRoot(root)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return cacheWriteError(root, err)
	}
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return cacheWriteError(root, err)
	}
	return checkRoot(root)
}

// cacheWriteError says what to do about a cache that cannot be written.
func cacheWriteError(root string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk that holds the cache %s is full: free some space or name another folder by $AGENT_SERVER_CACHE_DIR: %w", root, err)
	case errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the cache %s is read-only: run `agent-server install` where it is writable, or name another folder by $AGENT_SERVER_CACHE_DIR: %w", root, err)
	}
	return fmt.Errorf("the cache %s cannot be written: %w: name another folder by $AGENT_SERVER_CACHE_DIR", root, err)
}
