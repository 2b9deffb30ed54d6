package provision

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a waiting installer looks whether the lock is free.
const lockPoll = 50 * time.Millisecond

// errLocked reports that another process or goroutine holds the lock.
var errLocked = errors.New("another installer holds the lock")

// A fileLock is an exclusive lock between processes and between goroutines. The system drops it when its holder dies, however that happens.
//
// It is flock(2) without blocking, as a poll: the wait for another machine user's 200 MB download must end when its caller gives up, and a
// blocked flock (go-internal/lockedfile) cannot be interrupted. Both see each other's locks.
type fileLock struct{ f *os.File }

// lockFile waits for the lock until ctx ends. onWait is called once if there is a wait.
func lockFile(ctx context.Context, path string, onWait func()) (*fileLock, error) {
	lock, err := tryLockFile(path)
	if !errors.Is(err, errLocked) {
		return lock, err
	}
	onWait()
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-ticker.C:
		}
		if lock, err := tryLockFile(path); !errors.Is(err, errLocked) {
			return lock, err
		}
	}
}

// tryLockFile takes the lock if it is free, else fails with errLocked.
func tryLockFile(path string) (*fileLock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(f); err != nil {
			f.Close()
			return nil, err
		}
		if sameFile(f, path) {
			return &fileLock{f}, nil
		}
		f.Close() // prune removed the file between the open and the lock
	}
}

func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch err {
		case unix.EINTR:
			continue
		case unix.EWOULDBLOCK:
			return errLocked
		}
		return err
	}
}

func sameFile(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(held, named)
}

// unlock releases the lock; the file stays, because removing it would let two holders in.
func (l *fileLock) unlock() { l.f.Close() }
