package process

import (
	"slices"
	"testing"
)

func TestEnv(t *testing.T) {
	base := []string{"A=1", "B=2", "CLAUDE_X=3", "CLAUDECODE=1", "A=4", "novalue", "=C:=x", "E=", "F=a=b", "N=\x00"}
	got := Env(base, Names("CLAUDE*", "B"), map[string]string{"F": "new", "Z": "1", "Y": "", "bad=name": "x", "": "x", "NUL": "\x00"})
	if want := []string{"A=4", "E=", "F=new", "Y=", "Z=1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Env(nil, nil, nil); got == nil || len(got) != 0 {
		t.Errorf("got %#v", got)
	}
}
