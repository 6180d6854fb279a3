package kopf

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/connshare"
	"github.com/kopf-go/kopf/internal/credtransport"
)

// This file turns connection information into HTTP clients: TLS, proxies, and the headers that let a
// request in. What is in files is read again when the files change. It runs on the goroutines of the requests.

// authorities returns the PEM that the server's certificate is checked against, nil if that is the system's.
func (i *ConnectionInfo) authorities() ([]byte, error) {
	return credtransport.DataOf("the certificate authority", i.CAData, i.CAFile)
}

// tlsConfig returns the settings of TLS. The files of the client's certificate are read again when they change.
func (i *ConnectionInfo) tlsConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: i.TLSServerName, InsecureSkipVerify: i.Insecure}
	ca, err := i.authorities()
	if err != nil {
		return nil, err
	}
	if ca != nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("the certificate authority has no certificates in it")
		}
	}
	if i.hasCertificate() {
		source := &certificateSource{info: i}
		if _, err := source.get(); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return source.get() }
	}
	return c, nil
}

// certificateSource gives the client's certificate to new connections.
type certificateSource struct {
	info *ConnectionInfo

	mu      sync.Mutex // guards all below
	current *tls.Certificate
	stamp   string // of the files that current was read from
}

// get returns the certificate, read anew if its files have changed. While they are broken, the last good one stays.
func (s *certificateSource) get() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stamp := credtransport.FileStamp(s.info.CertificateFile) + credtransport.FileStamp(s.info.KeyFile)
	if s.current != nil && stamp == s.stamp {
		return s.current, nil
	}
	cert, err := s.info.clientCertificate()
	if err != nil {
		if s.current != nil {
			return s.current, nil
		}
		return nil, err
	}
	s.current, s.stamp = cert, stamp
	return cert, nil
}

func (i *ConnectionInfo) clientCertificate() (*tls.Certificate, error) {
	cert, err := credtransport.DataOf("the client certificate", i.CertificateData, i.CertificateFile)
	if err != nil {
		return nil, err
	}
	key, err := credtransport.DataOf("the client key", i.KeyData, i.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("the client certificate: %w", err)
	}
	return &pair, nil
}

// maxStreamBuffer is how many bytes of an answer may come before they are read, with HTTP/2.
const maxStreamBuffer = 1 << 20

// newTransport returns a transport without credentials but the client's certificate. It speaks HTTP/2 where that is offered, so that all requests
// and streams share a few connections: a server allows some hundred on each.
func (i *ConnectionInfo) newTransport(connectTimeout time.Duration) (*http.Transport, error) {
	config, err := i.tlsConfig()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		DialContext:           dialer.DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   connectTimeout,
		MaxIdleConns:          64,
		MaxIdleConnsPerHost:   32,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		Protocols:             new(http.Protocols),
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second, MaxReceiveBufferPerStream: maxStreamBuffer},
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(true)
	if i.TrustEnv {
		t.Proxy = credtransport.ConcealingProxy(http.ProxyFromEnvironment)
	}
	if i.ProxyURL != "" {
		proxy, err := url.Parse(i.ProxyURL)
		if err != nil {
			return nil, errors.New("the address of the proxy is not a URL")
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	return t, nil
}

// newHTTPClient returns a client whose requests are let in. The time to connect is limited if it is positive.
func (i *ConnectionInfo) newHTTPClient(connectTimeout time.Duration, s *credtransport.Session) (*http.Client, error) {
	client := &http.Client{CheckRedirect: credtransport.SameHost}
	if i.HTTPClient != nil {
		own := *i.HTTPClient
		client = &own
		client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
			if err := credtransport.SameHost(req, via); err != nil || i.HTTPClient.CheckRedirect == nil {
				return err
			}
			return i.HTTPClient.CheckRedirect(req, via)
		}
	} else if i.CAFile != "" {
		t, err := newAuthorityTransport(i, connectTimeout)
		if err != nil {
			return nil, err
		}
		client.Transport = connshare.New(t)
	} else {
		t, err := i.newTransport(connectTimeout)
		if err != nil {
			return nil, err
		}
		client.Transport = connshare.New(t)
	}
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	authorizing := &credtransport.Transport{Next: next, Session: s, Credentials: i.credentials()}
	client.Transport = authorizing
	return client, authorizing.Check()
}

// credentials returns what lets requests in.
func (i *ConnectionInfo) credentials() credtransport.Credentials {
	return credtransport.Credentials{
		Token: i.Token, TokenFile: i.TokenFile, Scheme: i.Scheme, Username: i.Username, Password: i.Password,
		ImpersonateUser: i.ImpersonateUser, ImpersonateUID: i.ImpersonateUID, ImpersonateGroups: i.ImpersonateGroups, ImpersonateExtra: i.ImpersonateExtra,
	}
}

// authorityMaxAge is how long the content of a file of authorities is believed, unless the server shows a certificate of others.
const authorityMaxAge = time.Minute

// authorityTransport sends requests by a transport that is made anew when the file of the authorities has changed. Connections that are
// open stay until their requests have finished.
type authorityTransport struct {
	info           *ConnectionInfo
	connectTimeout time.Duration

	mu      sync.Mutex // guards all below
	current *http.Transport
	trusted []byte    // PEM of the authorities of current
	read    time.Time // when the file was last read
}

// newAuthorityTransport returns a transport that trusts what is in the file of the connection.
func newAuthorityTransport(i *ConnectionInfo, connectTimeout time.Duration) (*authorityTransport, error) {
	t := &authorityTransport{info: i, connectTimeout: connectTimeout}
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
	next, err := info.newTransport(t.connectTimeout)
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
	again, bad := credtransport.Again(req.Context(), req)
	if bad != nil {
		return resp, err
	}
	return fresh.RoundTrip(again)
}

// CloseIdleConnections closes those of the transport that is used now.
func (t *authorityTransport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current.CloseIdleConnections()
}
