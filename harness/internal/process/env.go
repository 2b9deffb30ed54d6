package process

import (
	"maps"
	"slices"
	"strings"
)

// Env builds a child's environment: the entries of base without those whose name drop accepts, then set, which wins over both. The
// last entry of a name in base wins, as in a shell; entries without a name or with a NUL are left out. drop may be nil. base and set are not changed.
func Env(base []string, drop func(name string) bool, set map[string]string) []string {
	env := make([]string, 0, len(base)+len(set))
	at := make(map[string]int, len(base))
	for _, entry := range base {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || strings.ContainsRune(entry, 0) || (drop != nil && drop(name)) {
			continue
		}
		if _, overridden := set[name]; overridden {
			continue
		}
		if i, seen := at[name]; seen {
			env[i] = entry
			continue
		}
		at[name] = len(env)
		env = append(env, entry)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(set[name], 0) {
			continue // cannot be expressed: exec would refuse the whole environment
		}
		env = append(env, name+"="+set[name])
	}
	return env
}

// Names returns a filter for [Env] that accepts the given names. One that ends in "*" stands for all names with that prefix.
func Names(patterns ...string) func(name string) bool {
	return func(name string) bool {
		for _, p := range patterns {
			if prefix, ok := strings.CutSuffix(p, "*"); ok && strings.HasPrefix(name, prefix) || p == name {
				return true
			}
		}
		return false
	}
}
