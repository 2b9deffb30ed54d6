package transport

import (
	"errors"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a JSON text, as encoding/json does.
const maxDepth = 10000

var errSyntax = errors.New("not valid JSON")

// A scanner validates JSON (RFC 8259) and finds the ends of values, in one pass and without allocating.
type scanner struct {
	data  []byte
	depth int
}

// members validates the object that starts at data[i] and calls visit for each of its members, with the raw key (quotes included) and the
// raw value. It returns the index past the object.
func (s *scanner) members(i int, visit func(key, value []byte)) (int, error) {
	if i >= len(s.data) || s.data[i] != '{' {
		return i, errSyntax
	}
	if s.depth++; s.depth > maxDepth {
		return i, errSyntax
	}
	i = s.space(i + 1)
	if i < len(s.data) && s.data[i] == '}' {
		s.depth--
		return i + 1, nil
	}
	for {
		end, err := s.str(i)
		if err != nil {
			return end, err
		}
		key := s.data[i:end]
		i = s.space(end)
		if i >= len(s.data) || s.data[i] != ':' {
			return i, errSyntax
		}
		start := s.space(i + 1)
		if end, err = s.value(start); err != nil {
			return end, err
		}
		if visit != nil {
			visit(key, s.data[start:end])
		}
		i = s.space(end)
		if i >= len(s.data) {
			return i, errSyntax
		}
		switch s.data[i] {
		case ',':
			i = s.space(i + 1)
		case '}':
			s.depth--
			return i + 1, nil
		default:
			return i, errSyntax
		}
	}
}

func (s *scanner) array(i int) (int, error) {
	if s.depth++; s.depth > maxDepth {
		return i, errSyntax
	}
	i = s.space(i + 1)
	if i < len(s.data) && s.data[i] == ']' {
		s.depth--
		return i + 1, nil
	}
	for {
		end, err := s.value(i)
		if err != nil {
			return end, err
		}
		i = s.space(end)
		if i >= len(s.data) {
			return i, errSyntax
		}
		switch s.data[i] {
		case ',':
			i = s.space(i + 1)
		case ']':
			s.depth--
			return i + 1, nil
		default:
			return i, errSyntax
		}
	}
}

// value validates the value that starts at data[i] and returns the index past it.
func (s *scanner) value(i int) (int, error) {
	if i >= len(s.data) {
		return i, errSyntax
	}
	switch c := s.data[i]; {
	case c == '"':
		return s.str(i)
	case c == '{':
		return s.members(i, nil)
	case c == '[':
		return s.array(i)
	case c == 't':
		return s.literal(i, "true")
	case c == 'f':
		return s.literal(i, "false")
	case c == 'n':
		return s.literal(i, "null")
	case c == '-' || isDigit(c):
		return s.number(i)
	}
	return i, errSyntax
}

func (s *scanner) literal(i int, word string) (int, error) {
	if len(s.data)-i < len(word) || string(s.data[i:i+len(word)]) != word {
		return i, errSyntax
	}
	return i + len(word), nil
}

func (s *scanner) str(i int) (int, error) {
	if i >= len(s.data) || s.data[i] != '"' {
		return i, errSyntax
	}
	for i++; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			n, err := s.escape(i + 1)
			if err != nil {
				return i, err
			}
			i += n
		case c < 0x20:
			return i, errSyntax
		}
	}
	return i, errSyntax
}

// escape returns the length of the escape after the backslash.
func (s *scanner) escape(i int) (int, error) {
	if i >= len(s.data) {
		return 0, errSyntax
	}
	switch s.data[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1, nil
	case 'u':
		if len(s.data)-i < 5 {
			return 0, errSyntax
		}
		for _, c := range s.data[i+1 : i+5] {
			if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
				return 0, errSyntax
			}
		}
		return 5, nil
	}
	return 0, errSyntax
}

func (s *scanner) number(i int) (int, error) {
	if s.data[i] == '-' {
		i++
	}
	switch {
	case i >= len(s.data) || !isDigit(s.data[i]):
		return i, errSyntax
	case s.data[i] == '0':
		i++
	default:
		i = s.digits(i)
	}
	if i < len(s.data) && s.data[i] == '.' {
		j := s.digits(i + 1)
		if j == i+1 {
			return i, errSyntax
		}
		i = j
	}
	if i < len(s.data) && s.data[i]|0x20 == 'e' {
		i++
		if i < len(s.data) && (s.data[i] == '+' || s.data[i] == '-') {
			i++
		}
		j := s.digits(i)
		if j == i {
			return i, errSyntax
		}
		i = j
	}
	return i, nil
}

func (s *scanner) digits(i int) int {
	for i < len(s.data) && isDigit(s.data[i]) {
		i++
	}
	return i
}

func (s *scanner) space(i int) int {
	for i < len(s.data) && isSpace(s.data[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// trim drops white space around text and a byte order mark before it.
func trim(text []byte) []byte {
	for len(text) > 0 && isSpace(text[0]) {
		text = text[1:]
	}
	if len(text) >= 3 && string(text[:3]) == "\xef\xbb\xbf" {
		return trim(text[3:])
	}
	for len(text) > 0 && isSpace(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text
}

// validObject validates that data is one JSON object in UTF-8 and nothing else, and visits its members.
func validObject(data []byte, visit func(key, value []byte)) error {
	s := scanner{data: data}
	end, err := s.members(0, visit)
	switch {
	case err != nil:
		return err
	case end != len(data):
		return errSyntax
	case !utf8.Valid(data):
		return errors.New("not valid UTF-8")
	}
	return nil
}

// firstObject returns the first part of text that is one valid JSON object in UTF-8, and what stands before and after it; object is nil when
// there is none. Some agents let a log line run into a frame. Only a few starts are tried, so that hostile text costs linear time.
func firstObject(text []byte) (before, object, after []byte) {
	tries := 0
	for i, c := range text {
		if c != '{' {
			continue
		}
		if tries++; tries > 8 {
			break
		}
		s := scanner{data: text}
		if end, err := s.members(i, nil); err == nil && utf8.Valid(text[i:end]) {
			return text[:i], text[i:end], text[end:]
		}
	}
	return text, nil, nil
}
