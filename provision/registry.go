package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"
)

// DefaultRegistry is the npm registry of last resort. The build sets it by -ldflags "-X agentserver/provision.DefaultRegistry=URL" from
// the building machine's own npm configuration; the source never holds an address.
var DefaultRegistry string

// ErrNoRegistry reports that nothing on the machine says where npm packages come from.
var ErrNoRegistry = errors.New("no npm registry is configured: give --npm-registry URL, set $AGENT_SERVER_NPM_REGISTRY, " +
	"or add a line registry=URL to ~/.npmrc")

// npmAnswerTimeout bounds `npm config get registry`; npm needs most of a second on a slow machine.
const npmAnswerTimeout = 10 * time.Second

// A registry is where packages come from, and who said so.
type registry struct {
	base   *url.URL // ends in a slash
	source string   // for reports, such as "$AGENT_SERVER_NPM_REGISTRY"
	config npmConfig
}

// findRegistry walks the chain of the package documentation for a package scope ("@openai"). A configured address that is not a URL is an
// error and not passed over: the next in the chain is not what the operator meant.
func (p *Provisioner) findRegistry(ctx context.Context, scope string) (registry, error) {
	env := p.opts.Env
	config := readNpmConfig(env)
	chain := []struct {
		source string
		value  func() string
	}{
		{"--npm-registry", func() string { return p.opts.Registry }},
		{"$AGENT_SERVER_NPM_REGISTRY", func() string { return env("AGENT_SERVER_NPM_REGISTRY") }},
		{"$npm_config_registry", func() string { return env("npm_config_registry") }},
		{"$NPM_CONFIG_REGISTRY", func() string { return env("NPM_CONFIG_REGISTRY") }},
		{".npmrc for " + scope, func() string { return scopeRegistry(config, scope) }},
		{".npmrc", func() string { return config.get("registry") }},
		{"npm config get registry", func() string { return p.registryOfNpm(ctx) }},
		{"the build's default", func() string { return DefaultRegistry }},
	}
	for _, link := range chain {
		value := link.value()
		if value == "" {
			continue
		}
		base, err := parseRegistry(value)
		if err != nil {
			return registry{}, fmt.Errorf("the npm registry from %s: %w", link.source, err)
		}
		return registry{base: base, source: link.source, config: config}, nil
	}
	return registry{}, ErrNoRegistry
}

func scopeRegistry(config npmConfig, scope string) string {
	if scope == "" {
		return ""
	}
	return config.get(scope + ":registry")
}

func (p *Provisioner) registryOfNpm(ctx context.Context) string {
	npm := npmProgram(p.opts.Env)
	if npm == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, npmAnswerTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "config", "get", "registry")
	cmd.WaitDelay = time.Second
	return askNpm(cmd)
}

// parseRegistry accepts an absolute http or https URL and gives it a trailing slash. Its error never repeats the value, which may hold a
// password.
func parseRegistry(value string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(value))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("is not an address of the form https://HOST/PATH/: correct it")
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
		u.RawPath = ""
	}
	return u, nil
}

// tarball returns where registries keep pkg's packed file by convention. A registry that keeps it elsewhere says so in its metadata.
func (r registry) tarball(pkg Package) *url.URL {
	base := pkg.Name[strings.LastIndexByte(pkg.Name, '/')+1:]
	return r.base.JoinPath(pkg.Name, "-", base+"-"+pkg.Version+".tgz")
}

// metadata returns the address of pkg's metadata of one version.
func (r registry) metadata(pkg Package) *url.URL {
	return r.base.JoinPath(pkg.Name, pkg.Version)
}

// authorization returns the header for u, "" for none. A token is sent to the host it is configured for and to no other.
func (r registry) authorization(u *url.URL) string {
	if token := r.config.token(u); token != "" {
		return "Bearer " + token
	}
	return ""
}

// tarballFromMetadata asks the registry where it keeps pkg, for registries that do not follow the convention. Nothing else of the answer
// is used.
func (p *Provisioner) tarballFromMetadata(ctx context.Context, r registry, pkg Package) (*url.URL, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.policy.idle, errStalled)
	defer cancel()
	at := r.metadata(pkg)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	if auth := r.authorization(at); auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, connectError(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{code: resp.StatusCode, url: at}
	}
	var answer struct {
		Dist struct {
			Tarball string `json:"tarball"`
		} `json:"dist"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxMetadata)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("%s: the metadata is not JSON: %w", shown(at), err)
	}
	u, err := at.Parse(answer.Dist.Tarball)
	if err != nil || answer.Dist.Tarball == "" || u.Host == "" || u.Scheme != "https" && u.Scheme != r.base.Scheme {
		return nil, fmt.Errorf("%s: the metadata names no usable tarball address", shown(at))
	}
	return u, nil
}

// shown returns u for people: without the user and the password that it may carry.
func shown(u *url.URL) string {
	bare := *u
	bare.User = nil
	return bare.String()
}
