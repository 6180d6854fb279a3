package credtransport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"sync"
	"time"
)

// Authorities are what a server's certificate is checked against.
type Authorities struct {
	Data []byte // PEM, perhaps in base64
	File string // with the same
}

// PEM returns the authorities, nil if there are none.
func (a Authorities) PEM() ([]byte, error) {
	return DataOf("the certificate authority", a.Data, a.File)
}

// poolOf returns the authorities that are in PEM.
func poolOf(pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("the certificate authority has no certificates in it")
	}
	return pool, nil
}

// authoritiesMaxAge is how long the content of a file of authorities is believed, unless the server shows a certificate of others.
const authoritiesMaxAge = time.Minute

// AuthorityTransport sends requests by a transport that is made anew when the file of the authorities has changed. Connections that are
// open stay until their requests have finished.
type AuthorityTransport struct {
	MaxAge time.Duration // how long the content of the file is believed

	base        *http.Transport // that all others are copies of
	authorities Authorities

	mu      sync.Mutex // guards all below
	current *http.Transport
	trusted []byte    // PEM of the authorities of current
	read    time.Time // when the file was last read
}

// NewAuthorityTransport returns a transport that trusts what is in the file of the authorities, and is in all else as another one that was not used
// yet.
func NewAuthorityTransport(base *http.Transport, authorities Authorities) (*AuthorityTransport, error) {
	t := &AuthorityTransport{MaxAge: authoritiesMaxAge, base: base, authorities: authorities}
	return t, t.loadLocked()
}

// loadLocked reads the file, and makes another transport if it has changed. While the file is broken, the last good one stays.
func (t *AuthorityTransport) loadLocked() error {
	t.read = time.Now()
	trusted, err := t.authorities.PEM()
	if err != nil || t.current != nil && bytes.Equal(trusted, t.trusted) {
		return err
	}
	pool, err := poolOf(trusted)
	if err != nil {
		return err
	}
	next := t.base.Clone()
	next.TLSClientConfig.RootCAs = pool
	if t.current != nil {
		t.current.CloseIdleConnections()
	}
	t.current, t.trusted = next, trusted
	return nil
}

// transport returns the transport for a request. If used is given, the server was not trusted with that, and the file is read again.
func (t *AuthorityTransport) transport(used *http.Transport) *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if used != nil && used == t.current || time.Since(t.read) >= t.MaxAge {
		_ = t.loadLocked() // the file may be in the middle of a change
	}
	return t.current
}

// RoundTrip sends a request. If the server is not trusted, it is sent once more with the authorities that are in the file by now: nothing
// was sent without trust.
func (t *AuthorityTransport) RoundTrip(req *http.Request) (*http.Response, error) {
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
	again, bad := Again(req.Context(), req)
	if bad != nil {
		return resp, err
	}
	return fresh.RoundTrip(again)
}

// CloseIdleConnections closes those of the transport that is used now.
func (t *AuthorityTransport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current.CloseIdleConnections()
}
