package credtransport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/errtype"
)

// Authorities is the CA bundle for a server's certificate.
type Authorities struct {
	Data []byte // PEM, optionally in base64
	File string // file in the same format
}

// PEM returns the CA bundle, or nil without one.
func (a Authorities) PEM() ([]byte, error) {
	return DataOf("the certificate authority", a.Data, a.File)
}

// poolOf returns the CA certificates in PEM.
func poolOf(pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("the certificate authority has no certificates in it")
	}
	return pool, nil
}

// authoritiesMaxAge is how long the content of a CA file is cached, unless the server's certificate does not match it.
const authoritiesMaxAge = time.Minute

// AuthorityTransport sends requests through a transport, and replaces the transport after a change of the CA file. Open connections stay until their requests
// have finished.
type AuthorityTransport struct {
	MaxAge time.Duration // how long the content of the file is cached

	connections context.Context // lifetime of the connections
	connecting  Connecting      // with the file of the CA bundle

	mu      sync.Mutex // guards all below
	current *http.Transport
	trusted []byte    // PEM of the CA bundle of current
	read    time.Time // last time the file was read
}

// NewAuthorityTransport returns a transport that trusts the CA bundle. When ctx ends, its connections are closed, even those in use.
func NewAuthorityTransport(ctx context.Context, c *Connecting) (*AuthorityTransport, error) {
	t := &AuthorityTransport{MaxAge: authoritiesMaxAge, connections: ctx, connecting: *c}
	return t, t.loadLocked()
}

// loadLocked reads the file, and creates a new transport after a change. While the file is invalid, the last one stays in use.
func (t *AuthorityTransport) loadLocked() error {
	t.read = time.Now()
	trusted, err := t.connecting.Authorities.PEM()
	if err != nil || t.current != nil && bytes.Equal(trusted, t.trusted) {
		return err
	}
	c := t.connecting
	c.Authorities = Authorities{Data: trusted} // not the file, which may have changed since
	next, err := c.NewTransport(t.connections)
	if err != nil {
		return err
	}
	if t.current != nil {
		t.current.CloseIdleConnections()
	}
	t.current, t.trusted = next, trusted
	return nil
}

// transport returns the transport for a request. If used is not nil, it did not trust the server, so the file is read again.
func (t *AuthorityTransport) transport(used *http.Transport) *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if used != nil && used == t.current || time.Since(t.read) >= t.MaxAge {
		_ = t.loadLocked() // the file may be incomplete during a change
	}
	return t.current
}

// RoundTrip sends a request. If the transport does not trust the server, RoundTrip repeats the request with the present CA bundle: nothing was sent to an
// untrusted server.
func (t *AuthorityTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	used := t.transport(nil)
	resp, err := used.RoundTrip(req)
	var untrusted *tls.CertificateVerificationError
	if !errtype.As(err, &untrusted) || req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
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

// CloseIdleConnections closes the idle connections of the present transport.
func (t *AuthorityTransport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current.CloseIdleConnections()
}
