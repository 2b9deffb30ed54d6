package process

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// markerVar is the environment variable that every process of a tree carries. Its value is a list separated by colons, outermost first: a
// server that runs inside another server's agent adds its own element, so that both recognise what it starts.
const markerVar = "AGENT_SERVER_PROCESS"

// maxInheritedMarker bounds, in bytes, what is taken over from an outer server.
const maxInheritedMarker = 1024

// instanceID names this program's run. Every marker element it makes is instanceID, "-", a number.
var instanceID = sync.OnceValue(func() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
})

var markerCount atomic.Uint64

// newMarker returns a fresh value for markerVar.
func newMarker(label string) string {
	m := instanceID() + "-" + strconv.FormatUint(markerCount.Add(1), 10)
	if label = cleanLabel(label); label != "" {
		m += "-" + label
	}
	if outer := os.Getenv(markerVar); outer != "" && len(outer) <= maxInheritedMarker {
		return outer + ":" + m
	}
	return m
}

func cleanLabel(label string) string {
	const limit = 64
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, label[:min(len(label), limit)])
}

// ownMarker returns the last element of a markerVar value, the one that its process was given.
func ownMarker(value string) string { return value[strings.LastIndexByte(value, ':')+1:] }

// environHas reports whether environ, NUL-separated entries as in /proc/*/environ, holds a markerVar with an element that match accepts.
func environHas(environ []byte, match func(element []byte) bool) bool {
	key := []byte(markerVar + "=")
	for rest := environ; ; {
		i := bytes.Index(rest, key)
		if i < 0 {
			return false
		}
		atStart := i == 0 && len(rest) == len(environ) || i > 0 && rest[i-1] == 0
		rest = rest[i+len(key):]
		if !atStart {
			continue
		}
		value, _, _ := bytes.Cut(rest, []byte{0})
		for element := range bytes.SplitSeq(value, []byte{':'}) {
			if match(element) {
				return true
			}
		}
	}
}
