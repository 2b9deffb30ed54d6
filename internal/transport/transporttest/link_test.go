package transporttest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBufferAndDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.Buffer(ToServer, 4)
		l.Delay(ToServer, time.Second)
		start := time.Now()
		go func() {
			l.client.Write([]byte("ab"))
			l.client.Write([]byte("cdefghij"))
			l.client.Close()
		}()
		got, err := io.ReadAll(l.server)
		if string(got) != "abcdefghij" || err != nil || time.Since(start) != 2*time.Second || l.Passed(ToServer) != 10 {
			t.Errorf("got %q, %v after %v", got, err, time.Since(start))
		}
	})
}

func TestCutAfter(t *testing.T) {
	l := newLink()
	l.CutAfter(ToClient, 3)
	if n, err := l.server.Write([]byte("abcdef")); n != 3 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("wrote %d, %v", n, err)
	}
	if got, err := io.ReadAll(l.client); string(got) != "abc" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.Buffer(ToClient, 8)
		l.Stall(ToClient)
		var read, written bool
		go func() { l.server.Write(bytes.Repeat([]byte("x"), 9)); written = true }()
		go func() { io.ReadFull(l.client, make([]byte, 9)); read = true }()
		time.Sleep(time.Hour)
		if read || written {
			t.Error("bytes passed")
		}
		l.Resume(ToClient)
		synctest.Wait()
		if !read || !written {
			t.Error("bytes did not pass")
		}
		// Of an end that closes while its way is stalled, the other end hears nothing.
		l.Stall(ToClient)
		l.server.Close()
		gone := false
		go func() { l.client.Read(make([]byte, 1)); gone = true }()
		time.Sleep(time.Hour)
		if gone {
			t.Error("the other end was told")
		}
		l.Cut()
	})
}

func TestPlainHTTPAndRefusal(t *testing.T) {
	n := New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X", r.Header.Get("X"))
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, r.Host+r.URL.Path)
	}))
	req, _ := http.NewRequest("GET", "http://h/p", nil)
	req.Header.Set("X", "y")
	resp, err := n.HTTPClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusTeapot || string(body) != "h/p" || resp.Header.Get("X") != "y" {
		t.Errorf("got %d %q %v", resp.StatusCode, body, resp.Header)
	}
	n.OnDial(func(*Link) error { return io.ErrUnexpectedEOF })
	if _, err := n.HTTPClient().Do(req); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}
