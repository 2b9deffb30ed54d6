package acp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentserver/internal/transport"
	"agentserver/protocol"
)

// maxFile bounds a file that an agent reads through us, in bytes.
const maxFile = 16 << 20

type fileParams struct {
	Path    string  `json:"path"`
	Line    int     `json:"line"`
	Limit   *int    `json:"limit"`
	Content *string `json:"content"`
}

// serveFile answers fs/read_text_file and fs/write_text_file. Symbolic links that lead out of the folders are not followed.
func (s *session) serveFile(_ context.Context, r *transport.Request) (any, error) {
	var p fileParams
	if !lenient(r.Params, &p) || !filepath.IsAbs(p.Path) {
		return nil, &transport.Error{Code: codeInvalidParams, Message: "path must be absolute"}
	}
	s.mu.Lock()
	config := s.spec.Config
	s.mu.Unlock()
	root, rel, err := rootOf(p.Path, append([]string{config.Cwd}, config.AdditionalDirectories...))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if r.Method == "fs/read_text_file" {
		return readFile(root, rel, &p)
	}
	if config.PermissionMode == protocol.ModePlan {
		return nil, &transport.Error{Code: codeInvalidParams, Message: "nothing is written in plan mode"}
	}
	return writeFile(root, rel, &p)
}

// rootOf opens the folder that holds a path.
func rootOf(path string, folders []string) (*os.Root, string, error) {
	path = filepath.Clean(path)
	for _, folder := range folders {
		rel, err := filepath.Rel(folder, path)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		root, err := os.OpenRoot(folder)
		if err != nil {
			return nil, "", fileError(err)
		}
		return root, rel, nil
	}
	return nil, "", &transport.Error{Code: codeInvalidParams, Message: "the path is outside of the workspace: use one within the session's cwd or its additional directories"}
}

func readFile(root *os.Root, rel string, p *fileParams) (any, error) {
	f, err := root.Open(rel)
	if err != nil {
		return nil, fileError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fileError(err)
	}
	if !info.Mode().IsRegular() {
		return nil, &transport.Error{Code: codeInvalidParams, Message: "the path is not a regular file"}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fileError(err)
	}
	if len(data) > maxFile {
		return nil, &transport.Error{Code: codeInvalidParams, Message: "the file is over 16 MiB: read it with a tool of your own"}
	}
	return object{"content": cut(string(data), p.Line, p.Limit)}, nil
}

// cut returns the lines from the given one, which counts from 1, at most limit of them.
func cut(text string, line int, limit *int) string {
	for ; line > 1; line-- {
		_, rest, ok := strings.Cut(text, "\n")
		if !ok {
			return ""
		}
		text = rest
	}
	if limit == nil {
		return text
	}
	end := 0
	for range max(*limit, 0) {
		i := strings.IndexByte(text[end:], '\n')
		if i < 0 {
			return text
		}
		end += i + 1
	}
	return text[:end]
}

func writeFile(root *os.Root, rel string, p *fileParams) (any, error) {
	if p.Content == nil {
		return nil, &transport.Error{Code: codeInvalidParams, Message: "content is missing"}
	}
	if dir := filepath.Dir(rel); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return nil, fileError(err)
		}
	}
	f, err := root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fileError(err)
	}
	_, err = io.Copy(f, bytes.NewReader([]byte(*p.Content)))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fileError(err)
	}
	return object{}, nil
}

func fileError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &transport.Error{Code: codeNotFound, Message: "ENOENT: no such file or directory"}
	}
	return &transport.Error{Code: -32603, Message: err.Error()}
}
