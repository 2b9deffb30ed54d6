package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// An installation brings one pinned package into the cache.
type installation struct {
	p       *Provisioner
	tool    Tool
	version string
	oldest  string
	key     string
	pkg     Package
	force   bool
	meter   *meter
	name    string // of the version folder
}

// newInstallation picks the package for this machine.
func (p *Provisioner) newInstallation(tool Tool, force bool, m *meter) (*installation, error) {
	pins, ok := p.pins.Tools[tool]
	if !ok {
		return nil, fmt.Errorf("no version of %s is pinned", tool)
	}
	key, pkg, err := pins.packageFor(p.platform)
	if err != nil {
		return nil, err
	}
	m.set(Progress{Tool: tool, Version: pins.Version})
	return &installation{
		p: p, tool: tool, version: pins.Version, oldest: pins.MinVersion, key: key, pkg: pkg, force: force, meter: m,
		name: folderName(pins.Version, key),
	}, nil
}

// run returns the complete copy in the cache, from this process or from another one that was faster.
func (in *installation) run(ctx context.Context) (Executable, error) {
	c := in.p.cache
	if err := createRoot(c.root); err != nil {
		return Executable{}, err
	}
	if err := os.Mkdir(c.tool(in.tool), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return Executable{}, cacheWriteError(c.root, err)
	}
	lock, err := lockFile(ctx, c.lockPath(in.tool, in.name), func() { in.meter.stage(Waiting) })
	if ctx.Err() != nil && err != nil {
		return Executable{}, err
	}
	if err != nil {
		return Executable{}, cacheWriteError(c.root, err)
	}
	defer lock.unlock()
	c.sweep(in.tool, in.name)
	if !in.force {
		if found, err := c.lookup(in.tool, in.version, in.key, in.pkg); err == nil {
			return found, nil
		}
	}
	return in.replace(ctx)
}

// replace builds a new copy beside the cache's folder and renames it into place.
func (in *installation) replace(ctx context.Context) (Executable, error) {
	c := in.p.cache
	if err := in.checkSpace(); err != nil {
		return Executable{}, err
	}
	temp, err := os.MkdirTemp(c.tool(in.tool), tempPrefix+in.name+"-*")
	if err != nil {
		return Executable{}, cacheWriteError(c.root, err)
	}
	defer os.RemoveAll(temp)
	in.p.hooks.reach("temp")
	files, err := in.unpack(ctx, temp)
	if err != nil {
		return Executable{}, err
	}
	in.p.hooks.reach("unpacked")
	if err := in.verify(ctx, temp, files); err != nil {
		return Executable{}, err
	}
	in.p.hooks.reach("verified")
	if err := in.publish(temp); err != nil {
		return Executable{}, cacheWriteError(c.root, err)
	}
	in.p.hooks.reach("published")
	dir := c.folder(in.tool, in.version, in.key)
	return Executable{Path: filepath.Join(dir, filepath.FromSlash(in.pkg.Entry)), Version: in.version, Source: FromDownload, Dir: dir}, nil
}

// checkSpace fails early when the disk cannot hold the package.
func (in *installation) checkSpace() error {
	var st unix.Statfs_t
	if in.pkg.Unpacked == 0 || unix.Statfs(in.p.cache.root, &st) != nil {
		return nil
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < in.pkg.Unpacked {
		return cacheWriteError(in.p.cache.root, fmt.Errorf("%d MB are needed and %d are free: %w", in.pkg.Unpacked/1e6, free/1e6, syscall.ENOSPC))
	}
	return nil
}

// unpack downloads into dir and compares the hash. It returns the files that it wrote.
func (in *installation) unpack(ctx context.Context, dir string) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, in.p.policy.total, fmt.Errorf("the download took longer than %v", in.p.policy.total))
	defer cancel()
	reg, err := in.p.findRegistry(ctx, in.pkg.scope())
	if err != nil {
		return nil, err
	}
	files, err := in.unpackFrom(ctx, dir, in.source(ctx, reg))
	if status, ok := errors.AsType[*statusError](err); ok && (status.code == 404 || status.code == 410) {
		tarball, metaErr := in.p.tarballFromMetadata(ctx, reg, in.pkg)
		if metaErr != nil {
			return nil, fmt.Errorf("download %s %s: %w; its metadata: %w", in.tool, in.version, err, metaErr)
		}
		d := in.source(ctx, reg)
		d.url, d.auth = tarball, reg.authorization(tarball)
		files, err = in.unpackFrom(ctx, dir, d)
	}
	if err != nil {
		return nil, fmt.Errorf("download %s %s from %s (%s): %w", in.tool, in.version, shown(reg.base), reg.source, err)
	}
	return files, nil
}

func (in *installation) source(ctx context.Context, reg registry) *download {
	tarball := reg.tarball(in.pkg)
	return &download{
		ctx: ctx, client: in.p.client, url: tarball, auth: reg.authorization(tarball), size: in.pkg.Size, policy: in.p.policy,
	}
}

// unpackFrom streams d through the hash and the extractor.
func (in *installation) unpackFrom(ctx context.Context, dir string, d *download) ([]string, error) {
	defer d.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, cacheWriteError(in.p.cache.root, err)
	}
	defer root.Close()
	in.meter.set(Progress{Tool: in.tool, Version: in.version, Stage: Downloading, Total: in.pkg.Size})
	x := newExtractor(root, in.pkg.Unpacked)
	if in.p.hooks.createFile != nil {
		x.open = in.p.hooks.createFile
	}
	s := startStream(d, in.meter)
	extractErr := x.extract(s)
	fetched := s.finish(diskError(extractErr))
	if err := in.judge(fetched, extractErr); err != nil {
		return nil, err
	}
	return x.files, nil
}

// diskError returns err if it is about writing, so that reading on has no purpose.
func diskError(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	return nil
}

// judge decides what an attempt came to: the hash is the first thing to report, because it explains every other oddity of the archive.
func (in *installation) judge(got fetched, extractErr error) error {
	if err := diskError(extractErr); err != nil {
		return cacheWriteError(in.p.cache.root, err)
	}
	if got.err != nil {
		if got.n > 0 {
			return fmt.Errorf("%w (the sha512 of the first %d of %d bytes is %s, the pin says %s)", got.err, got.n, in.pkg.Size, got.integrity, in.pkg.Integrity)
		}
		return got.err
	}
	if got.integrity != in.pkg.Integrity {
		err := fmt.Errorf("the bytes are not the pinned ones: their hash is %s, the pin says %s; use a registry that serves the original package",
			got.integrity, in.pkg.Integrity)
		if extractErr != nil {
			return fmt.Errorf("%w (%v)", err, extractErr)
		}
		return err
	}
	return extractErr
}

// verify runs the new copy's `--version` while its files reach the disk, and writes the stamp.
func (in *installation) verify(ctx context.Context, dir string, files []string) error {
	in.meter.stage(Verifying)
	var synced error
	var wg sync.WaitGroup
	wg.Go(func() { synced = syncFiles(dir, files) })
	err := in.checkVersion(ctx, dir)
	wg.Wait()
	if err != nil {
		return err
	}
	if synced == nil {
		synced = in.writeStamp(dir, files)
	}
	if synced != nil {
		return cacheWriteError(in.p.cache.root, synced)
	}
	return nil
}

func (in *installation) checkVersion(ctx context.Context, dir string) error {
	entry := filepath.Join(dir, filepath.FromSlash(in.pkg.Entry))
	got, err := in.p.probe(in.tool, in.oldest).check(ctx, entry)
	if err != nil {
		return fmt.Errorf("the downloaded %s %s does not run here: %w", in.tool, in.version, err)
	}
	if got != in.version {
		return fmt.Errorf("the downloaded %s says that it is version %s, the pin says %s: correct the pins", in.tool, got, in.version)
	}
	return nil
}

func (in *installation) writeStamp(dir string, files []string) error {
	st := stamp{Package: in.pkg.Name + "@" + in.pkg.Version, Version: in.version, Integrity: in.pkg.Integrity, Entry: in.pkg.Entry}
	for _, name := range files {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		st.Bytes += info.Size()
		if name == filepath.FromSlash(in.pkg.Entry) {
			st.EntrySize = info.Size()
		}
	}
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, stampName), append(data, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the temporary folder was private
		return err
	}
	return syncFiles(dir, []string{stampName})
}

// syncFiles makes the files and the folders that hold them durable, so that a rename never survives a power cut that its files did not.
func syncFiles(dir string, files []string) error {
	dirs := map[string]bool{dir: true}
	for _, name := range files {
		path := filepath.Join(dir, name)
		for d := filepath.Dir(path); len(d) > len(dir); d = filepath.Dir(d) {
			dirs[d] = true
		}
		if err := syncPath(path); err != nil {
			return err
		}
	}
	for d := range dirs {
		if err := syncPath(d); err != nil {
			return err
		}
	}
	return nil
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// publish gives the finished folder its name. A damaged or replaced folder is moved aside first; what runs from it keeps its open files.
func (in *installation) publish(temp string) error {
	c := in.p.cache
	dir := c.folder(in.tool, in.version, in.key)
	if _, err := os.Lstat(dir); err == nil {
		old, err := os.MkdirTemp(c.tool(in.tool), tempPrefix+in.name+"-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(old)
		if err := os.Rename(dir, filepath.Join(old, "old")); err != nil {
			return err
		}
		in.p.hooks.reach("moved")
	}
	if err := os.Rename(temp, dir); err != nil {
		return err
	}
	return syncPath(c.tool(in.tool))
}
