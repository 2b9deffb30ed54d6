package provision

import (
	"crypto/sha512"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed pins.json
var embeddedPins []byte

// Pins says which build of each tool is installed, and how its bytes are known. The integrity here is what is checked, whatever a
// registry says. A Pins is not changed after it was made.
type Pins struct {
	// Tools holds a tool's pins by its name.
	Tools map[Tool]ToolPins `json:"tools"`
}

// ToolPins is one tool's pinned version.
type ToolPins struct {
	// Version is what the pinned build answers to --version, such as "2.1.332".
	Version string `json:"version"`
	// MinVersion is the oldest version that the harness driver was verified with; an older candidate is passed over.
	MinVersion string `json:"minVersion"`
	// Platforms holds a package for each platform, by [Platform.String].
	Platforms map[string]Package `json:"platforms"`
}

// A Package is one npm package that holds one build.
type Package struct {
	// Name and Version find the package in a registry. Version may carry the platform, as codex's do.
	Name    string `json:"package"`
	Version string `json:"version"`
	// Integrity is "sha512-" and the base64 of the packed file's SHA-512.
	Integrity string `json:"integrity"`
	// Size is the packed file's length in bytes.
	Size int64 `json:"size"`
	// Unpacked bounds the sum of the files' lengths in bytes; 0 means the package's default of 1 GiB.
	Unpacked int64 `json:"unpacked,omitempty"`
	// Entry is the executable's slash-separated path inside the package.
	Entry string `json:"entry"`
}

// DefaultPins returns the compiled-in pins.
func DefaultPins() *Pins {
	pins, err := ParsePins(embeddedPins)
	if err != nil {
		panic("provision: the embedded pins.json is damaged: " + err.Error()) // a test reads the same bytes
	}
	return pins
}

// Version returns tool's pinned version, "" if it has none.
func (p *Pins) Version(tool Tool) string { return p.Tools[tool].Version }

// ParsePins reads pins from JSON and checks them. The error names the first field that is wrong.
func ParsePins(data []byte) (*Pins, error) {
	var pins Pins
	if err := json.Unmarshal(data, &pins); err != nil {
		return nil, fmt.Errorf("pins: %w: write the file again with `go generate ./provision`", err)
	}
	for tool, t := range pins.Tools {
		if err := t.check(tool); err != nil {
			return nil, fmt.Errorf("pins: %s: %w", tool, err)
		}
	}
	return &pins, nil
}

// over returns pins whose tools are those of p, and those of base where p has none.
func (p *Pins) over(base *Pins) *Pins {
	if p == nil {
		return base
	}
	merged := Pins{Tools: maps.Clone(base.Tools)}
	maps.Copy(merged.Tools, p.Tools)
	return &merged
}

func (t ToolPins) check(tool Tool) error {
	if _, err := traitsOf(tool); err != nil {
		return err
	}
	pinned, err := parseVersion(t.Version)
	if err != nil {
		return fmt.Errorf("version: %w", err)
	}
	oldest, err := parseVersion(t.MinVersion)
	if err != nil {
		return fmt.Errorf("minVersion: %w", err)
	}
	if pinned.compare(oldest) < 0 {
		return fmt.Errorf("version %s is older than minVersion %s", t.Version, t.MinVersion)
	}
	for key, pkg := range t.Platforms {
		if err := pkg.check(); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if !platformKey.MatchString(key) {
			return fmt.Errorf("%q is not a platform such as linux-x64", key)
		}
	}
	return nil
}

// packageFor returns the package for p and its key, which also names the folder in the cache.
func (t ToolPins) packageFor(p Platform) (key string, pkg Package, err error) {
	for _, key := range p.keys() {
		if pkg, ok := t.Platforms[key]; ok {
			return key, pkg, nil
		}
	}
	return "", Package{}, fmt.Errorf("no build is pinned for %s: name an executable of your own by the override variable", p)
}

// The forms that go into URLs and file names; anything else in a pins file is refused.
var (
	platformKey    = regexp.MustCompile(`^[a-z0-9]+-[a-z0-9]+(-musl)?$`)
	packageName    = regexp.MustCompile(`^(@[a-z0-9._-]+/)?[a-z0-9][a-z0-9._-]*$`)
	packageVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)
)

func (p Package) check() error {
	switch {
	case !packageName.MatchString(p.Name):
		return fmt.Errorf("package %q is not an npm package name", p.Name)
	case !packageVersion.MatchString(p.Version):
		return fmt.Errorf("version %q is not a package version", p.Version)
	case p.Size <= 0 || p.Unpacked < 0:
		return fmt.Errorf("size %d, unpacked %d: they must be positive", p.Size, p.Unpacked)
	case !filepath.IsLocal(p.Entry) || strings.Contains(p.Entry, `\`):
		return fmt.Errorf("entry %q leaves the package", p.Entry)
	}
	_, err := p.sum()
	return err
}

// sum decodes the integrity.
func (p Package) sum() (sum [sha512.Size]byte, err error) {
	text, ok := strings.CutPrefix(p.Integrity, "sha512-")
	raw, decodeErr := base64.StdEncoding.DecodeString(text)
	if !ok || decodeErr != nil || len(raw) != len(sum) {
		return sum, fmt.Errorf("integrity %q is not sha512- and the base64 of 64 bytes", p.Integrity)
	}
	copy(sum[:], raw)
	return sum, nil
}

// integrityOf is the inverse of [Package.sum].
func integrityOf(sum []byte) string {
	return "sha512-" + base64.StdEncoding.EncodeToString(sum)
}

// scope returns the package's npm scope with its @, "" if it has none.
func (p Package) scope() string {
	if scope, _, ok := strings.Cut(p.Name, "/"); ok {
		return scope
	}
	return ""
}

// LoadPins reads a pins file.
func LoadPins(path string) (*Pins, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("pins: %w", err)
	}
	return ParsePins(data)
}
