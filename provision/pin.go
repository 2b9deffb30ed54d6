package provision

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Pin downloads one npm package from the configured registry and returns its pin: what the bytes are, not what the registry says of them. It
// fails when the two differ, or when the package holds no executable of tool. It is for the program behind `go generate ./provision`.
func (p *Provisioner) Pin(ctx context.Context, tool Tool, name, version string) (Package, error) {
	pkg := Package{Name: name, Version: version}
	reg, err := p.findRegistry(ctx, pkg.scope())
	if err != nil {
		return pkg, err
	}
	claimed, err := p.claimedIntegrity(ctx, reg, pkg)
	if err != nil {
		return pkg, err
	}
	tarball := reg.tarball(pkg)
	body, err := p.get(ctx, reg, tarball.String())
	if err != nil {
		return pkg, err
	}
	defer body.Close()
	hash := sha512.New()
	counted := &countingReader{r: io.TeeReader(body, hash)}
	if err := pkg.measure(tool, counted); err != nil {
		return pkg, fmt.Errorf("%s@%s: %w", name, version, err)
	}
	if _, err := io.Copy(io.Discard, counted); err != nil {
		return pkg, fmt.Errorf("%s@%s: %w", name, version, err)
	}
	pkg.Size, pkg.Integrity = counted.n, integrityOf(hash.Sum(nil))
	if pkg.Integrity != claimed {
		return pkg, fmt.Errorf("%s@%s: the bytes' hash is %s, the registry says %s: do not pin it before you know why", name, version, pkg.Integrity, claimed)
	}
	return pkg, pkg.check()
}

// measure reads the archive for its unpacked size and the entry.
func (p *Package) measure(tool Tool, packed io.Reader) error {
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return err
	}
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		p.Unpacked += header.Size
		_, name, _ := strings.Cut(header.Name, "/")
		if isEntry(tool, name) && header.Typeflag == tar.TypeReg && header.Mode&0o111 != 0 {
			p.Entry = name
		}
	}
	if p.Entry == "" {
		return fmt.Errorf("it holds no executable of %s where one is expected", tool)
	}
	return nil
}

// isEntry reports whether a path in tool's package is the CLI itself.
func isEntry(tool Tool, name string) bool {
	if tool == Claude {
		return name == "claude"
	}
	return strings.HasPrefix(name, "vendor/") && (strings.HasSuffix(name, "/bin/codex") || strings.HasSuffix(name, "/codex/codex"))
}

func (p *Provisioner) claimedIntegrity(ctx context.Context, reg registry, pkg Package) (string, error) {
	body, err := p.get(ctx, reg, reg.metadata(pkg).String())
	if err != nil {
		return "", err
	}
	defer body.Close()
	var answer struct {
		Dist struct {
			Integrity string `json:"integrity"`
		} `json:"dist"`
	}
	if err := json.NewDecoder(io.LimitReader(body, maxMetadata)).Decode(&answer); err != nil {
		return "", fmt.Errorf("the registry's metadata of %s@%s: %w", pkg.Name, pkg.Version, err)
	}
	return answer.Dist.Integrity, nil
}

func (p *Provisioner) get(ctx context.Context, reg registry, address string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if auth := reg.authorization(req.URL); auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, connectError(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, &statusError{code: resp.StatusCode, url: req.URL}
	}
	return resp.Body, nil
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
