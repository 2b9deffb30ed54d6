package provision

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A CacheEntry is one version folder of the cache.
type CacheEntry struct {
	Tool Tool
	// Name is the folder's name, "2.1.332-linux-x64".
	Name string
	Path string
	// Bytes is the sum of its files' lengths.
	Bytes int64
	// Pinned says that some platform's pin names this folder. Prune keeps it.
	Pinned bool
	// Damage says why the folder would be replaced at the next need; nil means that it is complete.
	Damage error
}

// CacheRoot returns the cache folder, which need not exist.
func (p *Provisioner) CacheRoot() string { return p.cache.root }

// CacheList returns the cache's version folders, by tool and name. A cache that does not exist is empty; one that cannot be trusted is an
// error.
func (p *Provisioner) CacheList() ([]CacheEntry, error) {
	if err := checkRoot(p.cache.root); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	var list []CacheEntry
	for _, tool := range Tools() {
		found, err := os.ReadDir(p.cache.tool(tool))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the cache cannot be read: %w", err)
		}
		for _, e := range found {
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				list = append(list, p.cacheEntry(tool, e.Name()))
			}
		}
	}
	return list, nil
}

func (p *Provisioner) cacheEntry(tool Tool, name string) CacheEntry {
	e := CacheEntry{Tool: tool, Name: name, Path: filepath.Join(p.cache.tool(tool), name)}
	e.Bytes = treeSize(e.Path)
	pins := p.pins.Tools[tool]
	for key, pkg := range pins.Platforms {
		if name == folderName(pins.Version, key) {
			e.Pinned = true
			_, e.Damage = p.cache.lookup(tool, pins.Version, key, pkg)
			return e
		}
	}
	_, e.Damage = readStamp(e.Path)
	return e
}

func treeSize(dir string) int64 {
	var bytes int64
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read is not counted
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// Prune removes the version folders that are not pinned, and what crashed installations left. It returns what it removed. A version that is
// being installed at this moment is left alone. Programs that run from a removed folder keep running.
func (p *Provisioner) Prune(ctx context.Context) ([]CacheEntry, error) {
	list, err := p.CacheList()
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(e CacheEntry) bool { return e.Pinned })
	var removed []CacheEntry
	for _, e := range list {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		switch err := p.cache.remove(e); {
		case errors.Is(err, errLocked):
		case err != nil:
			return removed, cacheWriteError(p.cache.root, err)
		default:
			removed = append(removed, e)
		}
	}
	for _, tool := range Tools() {
		p.cache.sweep(tool, "")
	}
	return removed, nil
}

// remove takes a version folder out of sight by a rename and then deletes it, so that a crash leaves no half of it under its name.
func (c cache) remove(e CacheEntry) error {
	lock, err := tryLockFile(c.lockPath(e.Tool, e.Name))
	if err != nil {
		return err
	}
	defer lock.unlock()
	aside, err := os.MkdirTemp(c.tool(e.Tool), tempPrefix+e.Name+"-*")
	if err != nil {
		return err
	}
	if err := os.Rename(e.Path, filepath.Join(aside, "old")); err != nil {
		os.Remove(aside)
		return err
	}
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	return os.Remove(lock.f.Name())
}
