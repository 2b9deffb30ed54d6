package provision

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hostCandidates lists where the host may have tool, best first: PATH, then the CLIs' own install places. Paths need not exist.
func hostCandidates(tool Tool, env func(string) string, workDir string) []string {
	var paths []string
	for _, dir := range filepath.SplitList(env("PATH")) {
		if filepath.IsAbs(dir) && !isProjectBin(dir, workDir) {
			paths = append(paths, filepath.Join(dir, string(tool)))
		}
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		paths = append(paths, filepath.Join(home, ".local", "bin", string(tool)))
		if tool == Claude {
			local := filepath.Join(home, ".claude", "local")
			paths = append(paths, filepath.Join(local, "claude"), filepath.Join(local, "node_modules", ".bin", "claude"))
		}
	}
	config := readNpmConfig(env)
	if prefix := npmPrefix(env, config.get("prefix")); prefix != "" {
		paths = append(paths, filepath.Join(prefix, "bin", string(tool)))
	}
	return unique(paths)
}

// isProjectBin reports whether dir is the node_modules/.bin of workDir or of a folder above it. `npm run` and `npx` put it on PATH, and a
// checkout must not choose what the server runs.
func isProjectBin(dir, workDir string) bool {
	project, ok := strings.CutSuffix(filepath.Clean(dir), filepath.Join("/node_modules", ".bin"))
	if !ok || workDir == "" {
		return false
	}
	rel, err := filepath.Rel(firstOf(project, "/"), workDir)
	return err == nil && filepath.IsLocal(rel)
}

func unique(paths []string) []string {
	var kept []string
	for _, p := range paths {
		if !slices.Contains(kept, p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// nativeExecutable returns the native program behind a host candidate: the candidate itself, or, when that is a script as npm installs them,
// the binary of the platform package that npm put beside it. So no Node is needed and the process tree is one deep.
func nativeExecutable(tool Tool, candidate string, platform Platform) (string, error) {
	real, err := filepath.EvalSymlinks(candidate)
	if err != nil {
		return "", err
	}
	script, err := isScript(real)
	if err != nil {
		return "", err
	}
	if !script {
		return candidate, nil // with its links: an update of the CLI moves them
	}
	for dir := real; insideModules(dir); {
		dir = filepath.Dir(dir)
		for _, rel := range traits[tool].native(platform) {
			if native := filepath.Join(dir, "node_modules", rel); isExecutableFile(native) {
				return native, nil
			}
		}
	}
	return "", errors.New("a script, and no native program is installed beside it; to run it anyway, name it by $" + OverrideVariable(tool))
}

// insideModules reports whether path is a node_modules folder or below one. Only a script that npm installed has a native program beside it.
func insideModules(path string) bool {
	return strings.Contains(path+"/", "/node_modules/")
}

// isScript reports whether the file begins with #! or is not a program of any kind known here.
func isScript(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := f.Read(head)
	head = head[:n]
	for _, magic := range []string{"\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe"} { // ELF, Mach-O, universal Mach-O
		if string(head) == magic {
			return false, nil
		}
	}
	return true, nil
}
