package provision

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestWrongBytesAreNeverRun(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	f := newFixture(t, reg, nil)
	proof := filepath.Join(f.home, "ran")
	evil := pack(t, file{name: "package/claude", body: "#!/bin/sh\ntouch " + proof + "\necho '2.1.332 (Claude Code)'\n", mode: 0o755})
	reg.tarball = func(w http.ResponseWriter, r *http.Request) { w.Write(evil) }
	f.pins = pinsFor(append(bytes.Clone(evil[:len(evil)-1]), evil[len(evil)-1]^1), "2.1.332") // the same length, another hash
	f.mustFail(t, "the bytes are not the pinned ones", f.pins.Tools[Claude].Platforms["linux-x64"].Integrity)
	if _, err := os.Stat(proof); err == nil {
		t.Fatal("an unverified program was run")
	}
}

// TestLyingMetadata serves other bytes together with metadata that vouches for them: the registry's own integrity counts for nothing.
func TestLyingMetadata(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	f := newFixture(t, reg, nil)
	evil := bytes.Repeat([]byte{1}, len(reg.packed))
	reg.tarball = func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "elsewhere") {
			w.Write(evil)
			return
		}
		http.NotFound(w, r)
	}
	reg.metadata = func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"dist":{"integrity":%q,"tarball":%q}}`, pinsFor(evil, "2.1.332").Tools[Claude].Platforms["linux-x64"].Integrity, reg.URL+"/elsewhere/x.tgz")
	}
	f.mustFail(t, "the bytes are not the pinned ones")
}

// TestMetadataNamesAnotherPlace is the honest form: a registry with another layout.
func TestMetadataNamesAnotherPlace(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	f := newFixture(t, reg, nil)
	reg.tarball = func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/download/") {
			http.NotFound(w, r)
			return
		}
		w.Write(reg.packed)
	}
	reg.metadata = func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"dist":{"tarball":"/download/x.tgz"}}`)
	}
	f.mustFind(t, FromDownload)
}

func TestBadMetadata(t *testing.T) {
	for name, body := range map[string]string{
		"not JSON":   "<html>",
		"file URL":   `{"dist":{"tarball":"file:///etc/passwd"}}`,
		"no tarball": `{"dist":{}}`,
		"endless":    strings.Repeat(" ", maxMetadata+1) + "{}",
	} {
		t.Run(name, func(t *testing.T) {
			reg := newRegistry(t, claudePackage(t, "2.1.332"))
			reg.tarball = http.NotFound
			reg.metadata = func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) }
			newFixture(t, reg, nil).mustFail(t, "metadata")
		})
	}
}

func TestTruncated(t *testing.T) {
	for name, serve := range map[string]func(http.ResponseWriter, *http.Request, []byte){
		"broken connection": func(w http.ResponseWriter, r *http.Request, b []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			w.Write(b[:len(b)/2])
			panic(http.ErrAbortHandler)
		},
		"short file": func(w http.ResponseWriter, r *http.Request, b []byte) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b[:len(b)/2]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			reg := newRegistry(t, claudePackage(t, "2.1.332"))
			reg.tarball = func(w http.ResponseWriter, r *http.Request) { serve(w, r, reg.packed) }
			f := newFixture(t, reg, nil)
			pkg := f.pins.Tools[Claude].Platforms["linux-x64"]
			f.mustFail(t, fmt.Sprintf("%d of %d bytes", pkg.Size/2, pkg.Size), "the pin says "+pkg.Integrity)
		})
	}
}

func TestTooLong(t *testing.T) {
	for _, announced := range []bool{true, false} {
		reg := newRegistry(t, claudePackage(t, "2.1.332"))
		reg.tarball = func(w http.ResponseWriter, r *http.Request) {
			if announced {
				w.Header().Set("Content-Length", fmt.Sprint(len(reg.packed)+1))
			}
			w.Write(reg.packed)
			w.(http.Flusher).Flush()
			w.Write([]byte{0})
		}
		newFixture(t, reg, nil).mustFail(t, "it holds another file")
		if reg.requests.Load() != 1 {
			t.Errorf("%d requests for a file that cannot become right", reg.requests.Load())
		}
	}
}

// TestHostileArchives pins archives whose hash is right: even then nothing leaves the folder.
func TestHostileArchives(t *testing.T) {
	program := file{name: "package/claude", body: claudeScript("2.1.332"), mode: 0o755}
	outside := filepath.Join(t.TempDir(), "outside")
	for name, tc := range map[string]struct {
		files []file
		says  string
	}{
		"climbs":              {[]file{program, {name: "package/../../../outside", body: "x"}}, "climbs out"},
		"climbs inside":       {[]file{program, {name: "package/a/../b", body: "x"}}, "climbs out"},
		"climbs at once":      {[]file{program, {name: "../outside", body: "x"}}, "climbs out"},
		"absolute":            {[]file{program, {name: outside, body: "x"}}, "absolute path"},
		"backslash":           {[]file{program, {name: `package\..\outside`, body: "x"}}, "character"},
		"symbolic link":       {[]file{program, {name: "package/l", kind: tar.TypeSymlink, link: outside}}, "is a link"},
		"write through link":  {[]file{program, {name: "package/l", kind: tar.TypeSymlink, link: filepath.Dir(outside)}, {name: "package/l/outside", body: "x"}}, "is a link"},
		"hard link":           {[]file{program, {name: "package/l", kind: tar.TypeLink, link: "/etc/passwd"}}, "is a link"},
		"character device":    {[]file{program, {name: "package/d", kind: tar.TypeChar}}, "neither a file nor a folder"},
		"block device":        {[]file{program, {name: "package/d", kind: tar.TypeBlock}}, "neither a file nor a folder"},
		"pipe":                {[]file{program, {name: "package/p", kind: tar.TypeFifo}}, "neither a file nor a folder"},
		"twice":               {[]file{program, program}, "already exists"},
		"file below a file":   {[]file{program, {name: "package/claude/x", body: "x"}}, "cannot be made"},
		"file over a folder":  {[]file{program, {name: "package/d/x", body: "x"}, {name: "package/d", body: "x"}}, "already exists"},
		"the folder itself":   {[]file{program, {name: "package", body: "x"}}, "outside the package"},
		"long name":           {[]file{program, {name: "package/" + strings.Repeat("x/", 600) + "y", body: "x"}}, "a path of"},
		"long component":      {[]file{program, {name: "package/" + strings.Repeat("x", 300), body: "x"}}, "cannot be made"},
		"no program":          {[]file{{name: "package/README", body: "x"}}, "does not run here"},
		"program not allowed": {[]file{{name: "package/claude", body: "x", mode: 0o644}}, "not executable"},
		"another version":     {[]file{{name: "package/claude", body: claudeScript("2.1.331"), mode: 0o755}}, "says that it is version 2.1.331"},
		"set-user-id is lost": {[]file{{name: "package/claude", body: claudeScript("2.1.332"), mode: 0o4755}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			reg := newRegistry(t, pack(t, tc.files...))
			f := newFixture(t, reg, nil)
			if tc.says == "" {
				info, err := os.Stat(f.mustFind(t, FromDownload).Path)
				if err != nil || info.Mode() != 0o755 {
					t.Errorf("mode %v, %v", info.Mode(), err)
				}
				return
			}
			f.mustFail(t, tc.says)
			if _, err := os.Lstat(outside); err == nil {
				t.Error("it wrote outside")
			}
		})
	}
}

func TestBombs(t *testing.T) {
	program := file{name: "package/claude", body: claudeScript("2.1.332"), mode: 0o755}
	t.Run("over the pin's bound", func(t *testing.T) {
		reg := newRegistry(t, pack(t, program, file{name: "package/zeros", body: strings.Repeat("\x00", 8<<20)}))
		f := newFixture(t, reg, nil)
		pkg := f.pins.Tools[Claude].Platforms["linux-x64"]
		pkg.Unpacked = 1 << 20
		f.pins.Tools[Claude].Platforms["linux-x64"] = pkg
		f.mustFail(t, "more than its bound")
	})
	t.Run("over the default bound", func(t *testing.T) {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		tar.NewWriter(zip).WriteHeader(&tar.Header{Name: "package/zeros", Size: defaultUnpacked + 1, Mode: 0o644, Typeflag: tar.TypeReg})
		zip.Write(make([]byte, 1<<20))
		zip.Close()
		newFixture(t, newRegistry(t, out.Bytes()), nil).mustFail(t, "more than its bound")
	})
	t.Run("many files", func(t *testing.T) {
		files := []file{program}
		for range maxEntries {
			files = append(files, file{name: "package/d", kind: tar.TypeDir, mode: 0o755})
		}
		newFixture(t, newRegistry(t, pack(t, files...)), nil).mustFail(t, "more than 20000 files")
	})
	t.Run("behind the end of the archive", func(t *testing.T) {
		packed := pack(t, program)
		zip, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		archive, err := io.ReadAll(zip)
		if err != nil {
			t.Fatal(err)
		}
		newFixture(t, newRegistry(t, compress(append(archive, make([]byte, maxPadding/2)...))), nil).mustFind(t, FromDownload)
		newFixture(t, newRegistry(t, compress(append(archive, make([]byte, 32<<20)...))), nil).mustFail(t, "bytes follow its end")
	})
	t.Run("behind the end of the stream", func(t *testing.T) {
		packed := append(pack(t, program), compress(make([]byte, 32<<20))...)
		newFixture(t, newRegistry(t, packed), nil).mustFind(t, FromDownload)
	})
	t.Run("wrong checksum", func(t *testing.T) {
		packed := pack(t, program)
		packed[len(packed)-8] ^= 1
		newFixture(t, newRegistry(t, packed), nil).mustFail(t, "the archive is refused")
	})
}

func compress(data []byte) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	zip.Write(data)
	zip.Close()
	return out.Bytes()
}

func TestRegistryAnswers(t *testing.T) {
	for _, tc := range []struct {
		code     int
		says     string
		requests int64
	}{
		{401, "_authToken", 1},
		{403, "_authToken", 1},
		{404, "does not hold this version", 1},
		{407, "$HTTPS_PROXY", 1},
		{400, "400 Bad Request", 1},
		{429, "gave up after 3 attempts", 3},
		{500, "gave up after 3 attempts", 3},
		{503, "gave up after 3 attempts", 3},
	} {
		t.Run(fmt.Sprint(tc.code), func(t *testing.T) {
			reg := newRegistry(t, claudePackage(t, "2.1.332"))
			reg.tarball = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(tc.code) }
			newFixture(t, reg, nil).mustFail(t, tc.says, "agent-server install")
			if got := reg.requests.Load(); got != tc.requests {
				t.Errorf("%d requests, want %d", got, tc.requests)
			}
		})
	}
}

func TestRegistryDown(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	reg.Close()
	newFixture(t, reg, nil).mustFail(t, "gave up after 3 attempts", "connection refused")
}

// TestRegistrySilent covers a registry that accepts and says nothing, before the headers and in the middle of the file.
func TestRegistrySilent(t *testing.T) {
	for _, after := range []int{-1, 1000} {
		reg := newRegistry(t, claudePackage(t, "2.1.332"))
		reg.tarball = func(w http.ResponseWriter, r *http.Request) {
			if after > 0 && r.Header.Get("Range") == "" {
				w.Write(reg.packed[:after])
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		}
		f := newFixture(t, reg, nil)
		f.policy.idle = 100 * time.Millisecond
		start := time.Now()
		f.mustFail(t, errStalled.Error(), "gave up after")
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("it took %v to notice", took)
		}
	}
}

func TestDownloadDeadline(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	reg.tarball = func(w http.ResponseWriter, r *http.Request) { // a byte now and then: never silent, never done
		w.Header().Set("Content-Length", fmt.Sprint(len(reg.packed)))
		for i := range reg.packed {
			w.Write(reg.packed[i : i+1])
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	f := newFixture(t, reg, nil)
	f.policy.total = 300 * time.Millisecond
	f.mustFail(t, "took longer than 300ms")
}

// TestResume breaks the connection again and again; with a registry that serves ranges no byte comes twice.
func TestResume(t *testing.T) {
	for _, ranges := range []bool{true, false} {
		reg := newRegistry(t, claudePackage(t, "2.1.332"))
		var mu sync.Mutex
		sent := 0
		reg.tarball = func(w http.ResponseWriter, r *http.Request) {
			off := 0
			if ranges && r.Header.Get("Range") != "" {
				fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &off)
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", off, len(reg.packed)-1, len(reg.packed)))
				w.Header().Set("Content-Length", fmt.Sprint(len(reg.packed)-off))
				w.WriteHeader(http.StatusPartialContent)
			} else {
				w.Header().Set("Content-Length", fmt.Sprint(len(reg.packed)))
			}
			mu.Lock()
			part := len(reg.packed) / 4
			if !ranges {
				part = int(reg.requests.Load()) * len(reg.packed) / 4
			}
			end := min(off+part+1, len(reg.packed))
			sent += end - off
			mu.Unlock()
			w.Write(reg.packed[off:end])
			if end < len(reg.packed) {
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
		}
		newFixture(t, reg, nil).mustFind(t, FromDownload)
		if reg.requests.Load() < 4 {
			t.Errorf("only %d requests", reg.requests.Load())
		}
		if ranges && sent != len(reg.packed) {
			t.Errorf("%d bytes were sent for a file of %d", sent, len(reg.packed))
		}
	}
}

func TestWrongRange(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	reg.tarball = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(reg.packed)-1, len(reg.packed)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(reg.packed)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(reg.packed)))
		w.Write(reg.packed[:1000])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	newFixture(t, reg, nil).mustFail(t, "does not serve ranges correctly")
}

// TestTokenStaysHome checks that a token goes to its own host and to no other, by redirect or by metadata.
func TestTokenStaysHome(t *testing.T) {
	packed := claudePackage(t, "2.1.332")
	var foreign []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		foreign = append(foreign, r.Header.Get("Authorization"))
		w.Write(packed)
	}))
	defer other.Close()
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1) // the standard library goes by host names, not ports
	reg := newRegistry(t, packed)
	reg.tarball = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, elsewhere+"/x.tgz", http.StatusFound)
	}
	f := newFixture(t, reg, nil)
	f.mustFail(t, "401")
	host := strings.TrimPrefix(reg.URL, "http:")
	os.WriteFile(filepath.Join(f.home, ".npmrc"), []byte(host+"/:_authToken=${TOKEN}\n"), 0o600)
	f.env["TOKEN"] = "s3cret"
	f.mustFind(t, FromDownload)
	if len(foreign) != 1 || foreign[0] != "" {
		t.Errorf("the other host got %q", foreign)
	}
	if strings.Contains(f.log.text(), "s3cret") {
		t.Errorf("the token is in the log: %s", f.log.text())
	}
}

func TestRedirectDowngrade(t *testing.T) {
	secure := &http.Request{URL: &url.URL{Scheme: "https"}}
	if err := checkRedirect(&http.Request{URL: &url.URL{Scheme: "http"}}, []*http.Request{secure}); err == nil {
		t.Error("a redirect from https to http is followed")
	}
	if err := checkRedirect(secure, []*http.Request{secure}); err != nil {
		t.Error(err)
	}
}

// failingFile accepts some bytes and then fails as a full disk does.
type failingFile struct {
	io.WriteCloser
	room int
}

func (f *failingFile) Write(p []byte) (int, error) {
	if len(p) > f.room {
		return 0, &fs.PathError{Op: "write", Path: "claude", Err: syscall.ENOSPC}
	}
	f.room -= len(p)
	return f.WriteCloser.Write(p)
}

func TestDiskFull(t *testing.T) {
	reg := newRegistry(t, claudePackage(t, "2.1.332"))
	t.Run("injected", func(t *testing.T) {
		f := newFixture(t, reg, nil)
		f.hooks.createFile = func(root *os.Root, name string, mode fs.FileMode) (io.WriteCloser, error) {
			file, err := createFile(root, name, mode)
			return &failingFile{WriteCloser: file, room: 1000}, err
		}
		if err := f.mustFail(t, "is full", "free some space"); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v hides its cause", err)
		}
	})
}
