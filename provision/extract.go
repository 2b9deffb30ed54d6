package provision

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// Bounds on an archive, whatever it says about itself.
const (
	defaultUnpacked = 1 << 30 // bytes, where the pin gives no bound
	maxEntries      = 20_000  // files and folders
	maxEntryName    = 1024    // bytes of one path
	maxPadding      = 1 << 20 // bytes behind the end-of-archive mark
)

// An archiveError is about what an archive holds, as opposed to a failure to write it.
type archiveError struct{ reason string }

func (e *archiveError) Error() string { return "the archive is refused: " + e.reason }

func refusef(format string, args ...any) error {
	return &archiveError{reason: fmt.Sprintf(format, args...)}
}

// An extractor writes an npm package, a gzipped tar whose paths begin with one folder that is dropped, below a root that no path can leave.
type extractor struct {
	root  *os.Root
	limit int64 // bytes of file content still allowed
	count int   // entries seen
	files []string
	open  fileCreator
}

// A fileCreator makes a new file below root.
type fileCreator func(root *os.Root, name string, mode fs.FileMode) (io.WriteCloser, error)

// hooks let tests fail and stop an installation where a disk or a crash would. The zero value does nothing.
type hooks struct {
	createFile fileCreator
	at         func(point string)
}

func (h hooks) reach(point string) {
	if h.at != nil {
		h.at(point)
	}
}

func newExtractor(root *os.Root, limit int64) *extractor {
	if limit == 0 {
		limit = defaultUnpacked
	}
	return &extractor{root: root, limit: limit, open: createFile}
}

func createFile(root *os.Root, name string, mode fs.FileMode) (io.WriteCloser, error) {
	return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

// extract reads the archive to its end-of-archive mark, and the padding behind it for the sake of the checksum that follows.
func (x *extractor) extract(packed io.Reader) error {
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return readError(err)
	}
	defer unpacked.Close()
	unpacked.Multistream(false) // the first member is the archive
	archive := tar.NewReader(unpacked)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return readPadding(unpacked)
		}
		if err != nil {
			return readError(err)
		}
		if err := x.entry(header, archive); err != nil {
			return err
		}
	}
}

func readPadding(unpacked io.Reader) error {
	n, err := io.CopyN(io.Discard, unpacked, maxPadding+1)
	switch {
	case n > maxPadding:
		return refusef("more than %d bytes follow its end", maxPadding)
	case err == io.EOF:
		return nil
	}
	return readError(err)
}

// isCorrupt reports whether an error is about the bytes of a gzip stream.
func isCorrupt(err error) bool {
	var damaged flate.CorruptInputError
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &damaged)
}

// readError tells an archive that is not one from a source that failed.
func readError(err error) error {
	if err == nil {
		return nil
	}
	if isCorrupt(err) || errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrInsecurePath) {
		return refusef("%v", err)
	}
	return err
}

func (x *extractor) entry(header *tar.Header, content io.Reader) error {
	if x.count++; x.count > maxEntries {
		return refusef("it holds more than %d files", maxEntries)
	}
	switch header.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeReg, tar.TypeDir:
	case tar.TypeSymlink, tar.TypeLink:
		return refusef("%q is a link to %q, and npm packages hold none", header.Name, header.Linkname)
	default:
		return refusef("%q is neither a file nor a folder (type %q)", header.Name, header.Typeflag)
	}
	name, err := entryName(header.Name)
	if err != nil {
		return err
	}
	if header.Typeflag == tar.TypeDir {
		return createError(header, x.root.MkdirAll(name, 0o755))
	}
	if name == "." {
		return refusef("%q is a file outside the package's folder", header.Name)
	}
	return x.file(name, header, content)
}

// entryName drops the package's own folder from an archive path and returns the rest as a local path.
func entryName(raw string) (string, error) {
	switch {
	case raw == "" || len(raw) > maxEntryName:
		return "", refusef("a path of %d bytes", len(raw))
	case path.IsAbs(raw):
		return "", refusef("%q is an absolute path", raw)
	case strings.ContainsAny(raw, "\\\x00"):
		return "", refusef("%q holds a character that no package path holds", raw)
	}
	for part := range strings.SplitSeq(raw, "/") {
		if part == ".." {
			return "", refusef("%q climbs out of the package", raw)
		}
	}
	_, rest, _ := strings.Cut(path.Clean(raw), "/")
	if rest == "" {
		rest = "."
	}
	if !filepath.IsLocal(rest) {
		return "", refusef("%q leaves the package", raw)
	}
	return filepath.FromSlash(rest), nil
}

func (x *extractor) file(name string, header *tar.Header, content io.Reader) error {
	if header.Size > x.limit {
		return refusef("it unpacks to more than its bound: %q has %d bytes, %d are left", header.Name, header.Size, x.limit)
	}
	x.limit -= header.Size
	mode := fs.FileMode(0o644)
	if header.FileInfo().Mode().Perm()&0o111 != 0 {
		mode = 0o755
	}
	if err := x.root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return createError(header, err)
	}
	f, err := x.open(x.root, name, mode)
	if err != nil {
		return createError(header, err)
	}
	x.files = append(x.files, name)
	w := newAheadWriter(f)
	_, err = w.ReadFrom(content)
	if closeErr := w.Close(); closeErr != nil {
		return closeErr // the disk's failure, which also ends the reading
	}
	return readError(err)
}

// createError tells a path that no file system takes, or that is there already, from a disk that fails.
func createError(header *tar.Header, err error) error {
	for _, cause := range []error{fs.ErrExist, syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.EILSEQ, syscall.EINVAL} {
		if errors.Is(err, cause) {
			return refusef("%q cannot be made: %v", header.Name, cause)
		}
	}
	return err
}
