package provision

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// A version is MAJOR.MINOR.PATCH with an optional pre-release, which sorts before the release it precedes.
type version struct {
	numbers [3]uint64
	pre     string
}

func parseVersion(s string) (version, error) {
	core, pre, hasPre := strings.Cut(s, "-")
	parts := strings.Split(core, ".")
	if len(parts) != 3 || hasPre && pre == "" {
		return version{}, fmt.Errorf("%q is not a version of the form 1.2.3", s)
	}
	v := version{pre: pre}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return version{}, fmt.Errorf("%q is not a version of the form 1.2.3", s)
		}
		v.numbers[i] = n
	}
	return v, nil
}

// compare orders versions; two pre-releases of one release are ordered by their text, which is enough to be total.
func (v version) compare(w version) int {
	for i := range v.numbers {
		if c := cmp.Compare(v.numbers[i], w.numbers[i]); c != 0 {
			return c
		}
	}
	switch {
	case v.pre == w.pre:
		return 0
	case v.pre == "":
		return 1
	case w.pre == "":
		return -1
	}
	return cmp.Compare(v.pre, w.pre)
}
