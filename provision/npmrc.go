package provision

import (
	"bufio"
	"bytes"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// maxNpmrc bounds one .npmrc file in bytes; real ones are a few lines.
const maxNpmrc = 1 << 20

// npmConfig is the part of npm's configuration files that finds and opens a registry: the user's file, then the global one.
type npmConfig struct {
	files []map[string]string
}

// readNpmConfig reads the user's and the global .npmrc. A file that is absent or unreadable counts as empty: npm does the same, and the
// project's .npmrc is left out because a checkout must not choose where an executable comes from.
func readNpmConfig(env func(string) string) npmConfig {
	var c npmConfig
	home := env("HOME")
	user := firstOf(env("NPM_CONFIG_USERCONFIG"), env("npm_config_userconfig"))
	if user == "" && home != "" {
		user = filepath.Join(home, ".npmrc")
	}
	userValues := readNpmrc(user, env)
	c.files = append(c.files, userValues)
	if global := firstOf(env("NPM_CONFIG_GLOBALCONFIG"), env("npm_config_globalconfig")); global != "" {
		c.files = append(c.files, readNpmrc(global, env))
	} else if prefix := npmPrefix(env, userValues["prefix"]); prefix != "" {
		c.files = append(c.files, readNpmrc(filepath.Join(prefix, "etc", "npmrc"), env))
	}
	return c
}

// npmPrefix returns npm's global prefix as npm computes it: configured, or two levels above the node executable. "" if there is none.
func npmPrefix(env func(string) string, configured string) string {
	if prefix := firstOf(env("NPM_CONFIG_PREFIX"), env("npm_config_prefix"), configured, env("PREFIX")); prefix != "" {
		if filepath.IsAbs(prefix) {
			return filepath.Clean(prefix)
		}
		return ""
	}
	for _, dir := range filepath.SplitList(env("PATH")) {
		node := filepath.Join(dir, "node")
		if !filepath.IsAbs(dir) || !isExecutableFile(node) {
			continue
		}
		if real, err := filepath.EvalSymlinks(node); err == nil {
			return filepath.Dir(filepath.Dir(real))
		}
	}
	return ""
}

// isExecutableFile reports whether path is a regular file, perhaps through links, that somebody may execute.
func isExecutableFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

func (c npmConfig) get(key string) string {
	for _, file := range c.files {
		if value := file[key]; value != "" {
			return value
		}
	}
	return ""
}

// token returns the _authToken that applies to u: npm keys it by //host/path/, and the longest such prefix of u wins.
func (c npmConfig) token(u *url.URL) string {
	path := u.EscapedPath()
	for {
		path = path[:strings.LastIndexByte("/"+path, '/')] // drops what follows the last slash
		if token := c.get("//" + u.Host + strings.TrimSuffix(path, "/") + "/:_authToken"); token != "" {
			return token
		}
		if path = strings.TrimSuffix(path, "/"); path == "" {
			return ""
		}
	}
}

// readNpmrc reads one file: key = value lines, ; and # comments, ${VARIABLE} in values. Sections and arrays are not for us.
func readNpmrc(path string, env func(string) string) map[string]string {
	values := map[string]string{}
	if path == "" {
		return values
	}
	f, err := os.Open(path)
	if err != nil {
		return values
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxNpmrc))
	if err != nil {
		return values
	}
	return parseNpmrc(data, env)
}

var npmrcVariable = regexp.MustCompile(`\$\{([^}]+)\}`)

func parseNpmrc(data []byte, env func(string) string) map[string]string {
	values := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxNpmrc+1)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == ';' || line[0] == '#' || line[0] == '[' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		value = npmrcVariable.ReplaceAllStringFunc(value, func(ref string) string {
			if v := env(ref[2 : len(ref)-1]); v != "" {
				return v
			}
			return ref
		})
		values[strings.TrimSpace(key)] = value
	}
	return values
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// npmProgram returns npm's path on PATH, "" if it has none.
func npmProgram(env func(string) string) string {
	for _, dir := range filepath.SplitList(env("PATH")) {
		if npm := filepath.Join(dir, "npm"); filepath.IsAbs(dir) && isExecutableFile(npm) {
			return npm
		}
	}
	return ""
}

// askNpm runs `npm config get registry` in the root folder, where no project can answer.
func askNpm(cmd *exec.Cmd) string {
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	answer := strings.TrimSpace(string(out))
	if answer == "undefined" || answer == "null" {
		return ""
	}
	return answer
}
