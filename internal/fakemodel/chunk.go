package fakemodel

import (
	"iter"
	"unicode/utf8"
)

// chunks cuts text into pieces of about size bytes (0: defaultChunk) that never split a rune.
func chunks(text string, size int) iter.Seq[string] {
	if size <= 0 {
		size = defaultChunk
	}
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n := min(size, len(text))
			for n < len(text) && !utf8.RuneStart(text[n]) {
				n++
			}
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}
