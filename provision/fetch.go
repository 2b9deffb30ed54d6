package provision

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// retryPolicy bounds a download in time. Tests shorten it.
type retryPolicy struct {
	attempts int           // failures in a row, without a byte between them, before giving up
	backoff  time.Duration // after the first failure; doubles with each further one
	maxWait  time.Duration // the longest wait between attempts, also when the registry asks for more
	idle     time.Duration // the longest silence of a registry before an attempt counts as failed
	total    time.Duration // the whole download
}

var defaultPolicy = retryPolicy{
	attempts: 5,
	backoff:  250 * time.Millisecond,
	maxWait:  10 * time.Second,
	idle:     30 * time.Second,
	total:    30 * time.Minute,
}

// maxMetadata bounds a registry's answer about one version, in bytes.
const maxMetadata = 4 << 20

var errStalled = errors.New("the registry sent nothing for too long")

// permanentError marks a failure that another attempt cannot cure.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// A statusError is an HTTP answer that is not the file.
type statusError struct {
	code int
	url  *url.URL
	wait time.Duration // Retry-After
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered %d %s%s", shown(e.url), e.code, http.StatusText(e.code), statusAdvice(e.code, e.url.Host))
}

func statusAdvice(code int, host string) string {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ": add a line //" + host + "/:_authToken=TOKEN to ~/.npmrc, or use another registry"
	case http.StatusNotFound, http.StatusGone:
		return ": the registry does not hold this version, use another one or wait until its mirror has it"
	case http.StatusProxyAuthRequired:
		return ": put the proxy's user and password into $HTTPS_PROXY"
	}
	return ""
}

func (e *statusError) temporary() bool {
	switch e.code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.code >= 500
}

// A download reads one file of a known length through as many requests as it takes: an attempt that breaks or falls silent is resumed where it
// stopped. It is an io.Reader for one goroutine; Close ends it.
type download struct {
	ctx    context.Context
	client *http.Client
	url    *url.URL
	auth   string
	size   int64
	policy retryPolicy

	off      int64 // bytes handed out
	skip     int64 // bytes of the current body to drop first, when the registry ignored Range
	failures int
	body     io.ReadCloser
	silence  *time.Timer
	cancel   context.CancelCauseFunc // ends the current attempt
}

// Read returns the file's next bytes. It ends with io.EOF at exactly size bytes, or with an error that says what to do.
func (d *download) Read(p []byte) (int, error) {
	for {
		n, err := d.readOnce(p)
		if n > 0 || err == nil || err == io.EOF {
			return n, err
		}
		if err := d.wait(err); err != nil {
			return 0, err
		}
	}
}

// readOnce reads from the current attempt, which it starts if there is none. An error other than io.EOF ends the attempt.
func (d *download) readOnce(p []byte) (int, error) {
	if d.body == nil {
		if err := d.connect(); err != nil {
			d.Close()
			return 0, err
		}
	}
	d.silence.Reset(d.policy.idle)
	if d.skip > 0 {
		n, err := io.CopyN(io.Discard, d.body, min(d.skip, int64(len(p))))
		d.skip -= n
		return d.settle(0, err)
	}
	n, err := d.body.Read(p)
	return d.settle(n, err)
}

// settle counts what arrived and turns the end of a body into the end of the file, a failure or nothing.
func (d *download) settle(n int, err error) (int, error) {
	d.silence.Stop()
	if n > 0 {
		d.off += int64(n)
		d.failures = 0
	}
	if d.off > d.size {
		d.Close()
		return 0, &permanentError{fmt.Errorf("the registry sends more than the pinned %d bytes: it holds another file", d.size)}
	}
	if err == nil {
		return n, nil
	}
	cause := context.Cause(d.ctx)
	if err == io.EOF && d.off == d.size {
		return n, io.EOF
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	d.Close()
	if cause != nil {
		err = cause
	}
	if n > 0 {
		return n, nil // the next Read connects again
	}
	return 0, err
}

// connect starts an attempt at the current offset.
func (d *download) connect() error {
	ctx, cancel := context.WithCancelCause(d.ctx)
	d.cancel = cancel
	d.silence = time.AfterFunc(d.policy.idle, func() { cancel(errStalled) })
	req, err := d.request(ctx)
	if err != nil {
		return &permanentError{err}
	}
	resp, err := d.client.Do(req)
	d.silence.Stop()
	if err != nil {
		return connectError(ctx, err)
	}
	d.body = &causeBody{ReadCloser: resp.Body, ctx: ctx}
	return d.accept(resp)
}

func (d *download) request(ctx context.Context) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url.String(), nil)
	if err != nil {
		return nil, err
	}
	if d.auth != "" {
		req.Header.Set("Authorization", d.auth)
	}
	if d.off > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.off))
	}
	return req, nil
}

// accept checks that an answer is the file, from the current offset on.
func (d *download) accept(resp *http.Response) error {
	switch {
	case resp.StatusCode == http.StatusOK:
		d.skip = d.off
		if resp.ContentLength > d.size {
			return &permanentError{fmt.Errorf("the registry offers %d bytes and the pin says %d: it holds another file", resp.ContentLength, d.size)}
		}
		return nil
	case resp.StatusCode == http.StatusPartialContent && d.off > 0:
		if start := rangeStart(resp.Header.Get("Content-Range")); start != d.off {
			return &permanentError{fmt.Errorf("the registry resumed at byte %d instead of %d: it does not serve ranges correctly", start, d.off)}
		}
		return nil
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return &permanentError{fmt.Errorf("the registry's file ends after %d of %d bytes: it is truncated there", d.off, d.size)}
	}
	failed := &statusError{code: resp.StatusCode, url: d.url, wait: retryAfter(resp.Header.Get("Retry-After"))}
	if failed.temporary() {
		return failed
	}
	return &permanentError{failed}
}

// wait sleeps before the next attempt, or returns the error that ends the download.
func (d *download) wait(failure error) error {
	if _, ok := errors.AsType[*permanentError](failure); ok {
		return failure
	}
	if cause := context.Cause(d.ctx); cause != nil {
		return cause
	}
	d.failures++
	if d.failures >= d.policy.attempts {
		return fmt.Errorf("gave up after %d attempts at %d of %d bytes: %w", d.failures, d.off, d.size, failure)
	}
	pause := d.policy.backoff << (d.failures - 1)
	pause = pause/2 + rand.N(pause/2+1) // so that many machines do not come back at once
	if status, ok := errors.AsType[*statusError](failure); ok {
		pause = max(pause, status.wait)
	}
	timer := time.NewTimer(min(pause, d.policy.maxWait))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-d.ctx.Done():
		return context.Cause(d.ctx)
	}
}

// Close ends the current attempt. It is idempotent.
func (d *download) Close() {
	if d.cancel != nil {
		d.silence.Stop()
		d.cancel(context.Canceled)
		d.cancel = nil
	}
	if d.body != nil {
		d.body.Close()
		d.body = nil
	}
}

// causeBody reports why its request was cancelled instead of that it was.
type causeBody struct {
	io.ReadCloser
	ctx context.Context
}

func (b *causeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

func connectError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // the URL is the caller's to show, without its password
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &permanentError{fmt.Errorf("%w: name the authority's certificate by $SSL_CERT_FILE", err)}
	}
	return err
}

// rangeStart returns the first byte of a Content-Range header, -1 if it has none.
func rangeStart(header string) int64 {
	rest, ok := strings.CutPrefix(header, "bytes ")
	first, _, found := strings.Cut(rest, "-")
	start, err := strconv.ParseInt(first, 10, 64)
	if !ok || !found || err != nil {
		return -1
	}
	return start
}

func retryAfter(header string) time.Duration {
	seconds, err := strconv.Atoi(header)
	if err != nil || seconds < 0 || seconds > 3600 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// newClient returns an HTTP client that takes proxies and certificates from the environment and never follows a redirect from https to
// http, which would show a token to the network.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // the hash is over the bytes as they are stored
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return &permanentError{errors.New("the registry redirects in a circle")}
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return &permanentError{errors.New("the registry redirects from https to http")}
	}
	return nil
}
