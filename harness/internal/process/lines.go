package process

import (
	"bytes"
	"fmt"
	"io"
)

const (
	// lineBuffer holds ordinary lines. Longer ones cost an allocation each.
	lineBuffer = 32 << 10
	// Long lines are collected in chunks, so that nothing is copied while they grow; the chunks double from the first size to the second.
	firstChunk = 128 << 10
	lastChunk  = 4 << 20
	// lineHead is how much of a line that is too long is kept to recognise it by.
	lineHead = 1024
	// endingRoom is what a line may be over the limit before its carriage return and byte order mark are taken off.
	endingRoom = 4
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// LineTooLongError reports a line of output that was skipped because it is over the limit. Reading goes on after it.
type LineTooLongError struct {
	Size  int64  // bytes, without the line ending
	Limit int    // the limit, in bytes
	Head  []byte // the first bytes, at most 1024
}

// Error names both sizes.
func (e *LineTooLongError) Error() string {
	return fmt.Sprintf("process: a line of output of %d bytes was skipped, the limit is %d: raise the limit, or make the agent print less at once", e.Size, e.Limit)
}

// A lineReader cuts a stream into lines. Unlike bufio.Scanner it has no length at which it stops.
type lineReader struct {
	src   io.Reader
	max   int
	buf   []byte
	r, w  int // buf[r:w] is unread
	begun bool
	err   error
}

func newLineReader(src io.Reader, max int) *lineReader { return &lineReader{src: src, max: max} }

// next returns the next line; see [Process.ReadLine].
func (l *lineReader) next() ([]byte, error) {
	if l.buf == nil {
		l.buf = make([]byte, lineBuffer)
	}
	for seen := 0; ; {
		if i := bytes.IndexByte(l.buf[l.r+seen:l.w], '\n'); i >= 0 {
			line := l.buf[l.r : l.r+seen+i]
			l.r += seen + i + 1
			return l.finish(line)
		}
		seen = l.w - l.r
		if l.err != nil {
			return l.last()
		}
		if seen == len(l.buf) {
			return l.long()
		}
		l.fill()
	}
}

// fill reads once, after making room behind the unread bytes.
func (l *lineReader) fill() {
	if l.r > 0 {
		copy(l.buf, l.buf[l.r:l.w])
		l.r, l.w = 0, l.w-l.r
	}
	n, err := l.src.Read(l.buf[l.w:])
	l.w += n
	if err != nil {
		l.err = err
	}
}

// last returns an unfinished last line, then the error. After anything but io.EOF the rest is a torn line and worth nothing.
func (l *lineReader) last() ([]byte, error) {
	line := l.buf[l.r:l.w]
	l.r, l.w = 0, 0
	if len(line) == 0 || l.err != io.EOF || !l.begun && bytes.Equal(line, byteOrderMark) {
		return nil, l.err
	}
	return l.finish(line)
}

// finish drops the line ending and, once, the byte order mark, and checks the limit.
func (l *lineReader) finish(line []byte) ([]byte, error) {
	if !l.begun {
		l.begun = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if len(line) > l.max {
		return nil, &LineTooLongError{Size: int64(len(line)), Limit: l.max, Head: bytes.Clone(line[:min(len(line), lineHead)])}
	}
	return line, nil
}

// long reads the rest of a line that fills the buffer. Its memory is the line twice, once in chunks and once whole, and nothing of it is kept.
func (l *lineReader) long() ([]byte, error) {
	chunks := [][]byte{bytes.Clone(l.buf[l.r:l.w])}
	size := int64(l.w - l.r)
	l.r, l.w = 0, 0
	chunk := firstChunk
	for ended := false; !ended; {
		l.fill()
		var part, rest []byte
		part, rest, ended = bytes.Cut(l.buf[:l.w], []byte{'\n'})
		l.r = l.w - len(rest)
		size += int64(len(part))
		if size <= int64(l.max)+endingRoom {
			chunks, chunk = appendChunk(chunks, part, chunk)
		} else if len(chunks) > 1 || len(chunks[0]) > lineHead {
			chunks = [][]byte{bytes.Clone(chunks[0][:min(len(chunks[0]), lineHead)])}
		}
		if ended {
			break
		}
		l.r, l.w = 0, 0
		if l.err == io.EOF {
			break
		}
		if l.err != nil {
			return nil, l.err // a torn line
		}
	}
	if size > int64(l.max)+endingRoom {
		l.begun = true
		return nil, &LineTooLongError{Size: size, Limit: l.max, Head: chunks[0]}
	}
	line := make([]byte, 0, size)
	for _, c := range chunks {
		line = append(line, c...)
	}
	return l.finish(line)
}

func appendChunk(chunks [][]byte, part []byte, size int) ([][]byte, int) {
	for len(part) > 0 {
		last := &chunks[len(chunks)-1]
		if len(*last) == cap(*last) || len(chunks) == 1 {
			chunks = append(chunks, make([]byte, 0, size))
			size = min(2*size, lastChunk)
			continue
		}
		n := min(len(part), cap(*last)-len(*last))
		*last = append(*last, part[:n]...)
		part = part[n:]
	}
	return chunks, size
}
