package kopf

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/credtransport"
)

// This file makes connections with the authorities that are in their file at the moment. It runs on the goroutines of the requests.

// authorityMaxAge is how long the content of a file of authorities is believed, unless the server shows a certificate of others.
const authorityMaxAge = time.Minute

// authorityTransport sends requests by a transport that is made anew when the file of the authorities has changed. Connections that are
// open stay until their requests have finished.
type authorityTransport struct {
	info           *ConnectionInfo
	connectTimeout time.Duration
	streams        bool

	mu      sync.Mutex // guards all below
	current *http.Transport
	trusted []byte    // PEM of the authorities of current
	read    time.Time // when the file was last read
}

// newAuthorityTransport returns a transport that trusts what is in the file of the connection.
func newAuthorityTransport(i *ConnectionInfo, connectTimeout time.Duration, streams bool) (*authorityTransport, error) {
	t := &authorityTransport{info: i, connectTimeout: connectTimeout, streams: streams}
	return t, t.loadLocked()
}

// loadLocked reads the file, and makes another transport if it has changed. While the file is broken, the last good one stays.
func (t *authorityTransport) loadLocked() error {
	t.read = time.Now()
	trusted, err := t.info.authorities()
	if err != nil || t.current != nil && bytes.Equal(trusted, t.trusted) {
		return err
	}
	info := *t.info
	info.CAFile, info.CAData = "", trusted
	next, err := info.newTransport(t.connectTimeout, t.streams)
	if err != nil {
		return err
	}
	if t.current != nil {
		t.current.CloseIdleConnections()
	}
	t.current, t.trusted = next, trusted
	return nil
}

// transport returns the transport for a request. If used is given, the server was not trusted with that, and the file is read again.
func (t *authorityTransport) transport(used *http.Transport) *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if used != nil && used == t.current || time.Since(t.read) >= authorityMaxAge {
		_ = t.loadLocked() // the file may be in the middle of a change
	}
	return t.current
}

// RoundTrip sends a request. If the server is not trusted, it is sent once more with the authorities that are in the file by now: nothing
// was sent without trust.
func (t *authorityTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	used := t.transport(nil)
	resp, err := used.RoundTrip(req)
	var untrusted *tls.CertificateVerificationError
	if !errors.As(err, &untrusted) || req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return resp, err
	}
	fresh := t.transport(used)
	if fresh == used {
		return resp, err
	}
	again := credtransport.CopyRequest(req.Context(), req)
	if req.GetBody != nil {
		body, bad := req.GetBody()
		if bad != nil {
			return resp, err
		}
		again.Body = body
	}
	return fresh.RoundTrip(again)
}

// CloseIdleConnections closes those of the transport that is used now.
func (t *authorityTransport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current.CloseIdleConnections()
}
