package provision

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// write stores pins for a child process.
func (p *Pins) write(path string) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func TestEmbeddedPinsServeEveryPlatform(t *testing.T) {
	pins := DefaultPins()
	for _, tool := range Tools() {
		for _, os := range []string{"linux", "darwin"} {
			for _, arch := range []string{"x64", "arm64"} {
				for _, musl := range []bool{false, os == "linux"} {
					p := Platform{OS: os, Arch: arch, Musl: musl}
					key, pkg, err := pins.Tools[tool].packageFor(p)
					if err != nil {
						t.Errorf("%s on %v: %v", tool, p, err)
					}
					if pkg.Unpacked == 0 || pkg.Entry == "" {
						t.Errorf("%s on %v: %+v lacks its bound or its entry", tool, p, pkg)
					}
					if tool == Claude && musl != strings.HasSuffix(key, "-musl") {
						t.Errorf("claude on %v takes %s", p, key)
					}
				}
			}
		}
	}
	if _, _, err := pins.Tools[Claude].packageFor(Platform{OS: "windows", Arch: "x64"}); err == nil {
		t.Error("windows has a pin")
	}
}

func TestParsePinsRefuses(t *testing.T) {
	good := `{"tools":{"claude":{"version":"2.1.332","minVersion":"2.1.197","platforms":{"linux-x64":{"package":"@a/b","version":"1.2.3",` +
		`"integrity":"` + integrityOf(make([]byte, 64)) + `","size":1,"entry":"claude"}}}}}`
	if _, err := ParsePins([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"another tool":      {`"claude":`, `"sh":`},
		"package path":      {`@a/b`, `@a/../b`},
		"package URL":       {`@a/b`, `http://x`},
		"version path":      {`1.2.3`, `../1.2.3`},
		"entry climbs":      {`"entry":"claude"`, `"entry":"../claude"`},
		"entry absolute":    {`"entry":"claude"`, `"entry":"/bin/sh"`},
		"no entry":          {`"entry":"claude"`, `"entry":""`},
		"weak hash":         {`sha512-`, `sha1-`},
		"short hash":        {integrityOf(make([]byte, 64)), `sha512-AAAA`},
		"no size":           {`"size":1`, `"size":0`},
		"older than oldest": {`2.1.332`, `2.1.1`},
		"odd platform":      {`linux-x64`, `../linux`},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if text == good {
			t.Fatalf("%s changes nothing", name)
		}
		if _, err := ParsePins([]byte(text)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestVersions(t *testing.T) {
	order := []string{"0.9.9", "1.0.0-alpha", "1.0.0-beta", "1.0.0", "1.0.10", "1.2.0", "2.1.197", "2.1.332", "10.0.0"}
	for i, a := range order {
		for j, b := range order {
			va, errA := parseVersion(a)
			vb, errB := parseVersion(b)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			if got, want := va.compare(vb), max(-1, min(1, i-j)); got != want {
				t.Errorf("%s against %s is %d, want %d", a, b, got, want)
			}
		}
	}
	for _, bad := range []string{"", "1", "1.2", "1.2.3.4", "1.2.x", "-1.2.3", "1.2.3-", "99999999999.0.0"} {
		if _, err := parseVersion(bad); err == nil {
			t.Errorf("%q is a version", bad)
		}
	}
}
