package provision

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// writebackStep is how many bytes are written between two hints.
const writebackStep = 16 << 20

// A writeback asks the system to send a file's pages to the disk while it grows, so that the fsync at its end has little left to do. It is a
// hint: its errors change nothing, fsync reports them.
type writeback struct {
	f             *os.File
	begun, length int64
}

func newWriteback(f io.Writer) *writeback {
	file, _ := f.(*os.File)
	return &writeback{f: file}
}

func (w *writeback) wrote(n int) {
	w.length += int64(n)
	if w.f == nil || w.length-w.begun < writebackStep {
		return
	}
	unix.SyncFileRange(int(w.f.Fd()), w.begun, w.length-w.begun, unix.SYNC_FILE_RANGE_WRITE)
	w.begun = w.length
}
