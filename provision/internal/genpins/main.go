// Command genpins writes a pins file: it downloads the packages of each tool's version from the npm registry that this machine is configured
// for, hashes them itself, and compares the result with what the registry says. The file never names the registry.
//
//	go run ./provision/internal/genpins -out provision/pins.json
//	go run ./provision/internal/genpins -tool claude -version 2.1.197 -out pins.json
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"agentserver/provision"
)

// builds is what is pinned today. To move a pin, change the version here (or give -version), run `go generate ./provision`, and let the
// end-to-end tests judge the new build. min is the oldest version that the driver was verified with.
var builds = map[provision.Tool]struct {
	version, min string
	platforms    []string
	pkg          func(version, platform string) (name, packageVersion string)
}{
	provision.Claude: {
		version: "2.1.332", min: "2.1.197",
		platforms: []string{"linux-x64", "linux-x64-musl", "linux-arm64", "linux-arm64-musl", "darwin-x64", "darwin-arm64"},
		pkg: func(version, platform string) (string, string) {
			return "@anthropic-ai/claude-code-" + platform, version
		},
	},
	provision.Codex: {
		version: "0.171.0", min: "0.146.0",
		platforms: []string{"linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"},
		pkg: func(version, platform string) (string, string) {
			return "@openai/codex", version + "-" + platform
		},
	},
}

func main() {
	out := flag.String("out", "pins.json", "the `file` to write")
	only := flag.String("tool", "", "pin one `tool`, claude or codex, instead of all")
	version := flag.String("version", "", "with -tool, the `version` to pin instead of the current one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out, provision.Tool(*only), *version); err != nil {
		fmt.Fprintln(os.Stderr, "genpins:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string, only provision.Tool, version string) error {
	if _, known := builds[only]; only != "" && !known || version != "" && only == "" {
		return fmt.Errorf("-version needs -tool claude or -tool codex")
	}
	p, err := provision.New(provision.Options{Mode: provision.Pinned})
	if err != nil {
		return err
	}
	defer p.Close()
	pins := provision.Pins{Tools: map[provision.Tool]provision.ToolPins{}}
	for _, tool := range provision.Tools() {
		if only != "" && only != tool {
			continue
		}
		if pins.Tools[tool], err = pin(ctx, p, tool, version); err != nil {
			return err
		}
	}
	return write(out, pins)
}

func pin(ctx context.Context, p *provision.Provisioner, tool provision.Tool, version string) (provision.ToolPins, error) {
	build := builds[tool]
	if version == "" {
		version = build.version
	}
	pins := provision.ToolPins{Version: version, MinVersion: build.min, Platforms: map[string]provision.Package{}}
	for _, platform := range build.platforms {
		name, packageVersion := build.pkg(version, platform)
		pkg, err := p.Pin(ctx, tool, name, packageVersion)
		if err != nil {
			return pins, err
		}
		fmt.Fprintf(os.Stderr, "%s %s %s: %d bytes\n", tool, version, platform, pkg.Size)
		pins.Platforms[platform] = pkg
	}
	return pins, nil
}

// write replaces the file only with pins that can be read back.
func write(out string, pins provision.Pins) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(pins); err != nil {
		return err
	}
	if _, err := provision.ParsePins(text.Bytes()); err != nil {
		return err
	}
	return os.WriteFile(out, text.Bytes(), 0o644)
}
