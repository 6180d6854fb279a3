package kopf

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/credtransport"
)

// This file turns connection information into HTTP clients: TLS, proxies, and the headers that let a
// request in. What is in files is read again when the files change. It runs on the goroutines of the requests.

// tokenMaxAge is how long the content of a token file is believed.
const tokenMaxAge = time.Minute

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

// newTransport returns a transport without credentials but the client's certificate. For streams, HTTP/1.1 is spoken: a
// connection each costs less than sharing one.
func (i *ConnectionInfo) newTransport(connectTimeout time.Duration, streams bool) (*http.Transport, error) {
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
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(!streams)
	if streams {
		t.MaxIdleConnsPerHost = 4
	}
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

// newHTTPClient returns a client whose requests are let in. The time to connect is limited if it is positive. For
// streams it speaks HTTP/1.1 only, otherwise HTTP/2 where it is offered.
func (i *ConnectionInfo) newHTTPClient(connectTimeout time.Duration, streams bool, s *credtransport.Session) (*http.Client, error) {
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
		t, err := newAuthorityTransport(i, connectTimeout, streams)
		if err != nil {
			return nil, err
		}
		client.Transport = t
	} else {
		t, err := i.newTransport(connectTimeout, streams)
		if err != nil {
			return nil, err
		}
		client.Transport = t
	}
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	auth := &authTransport{next: next, info: i, session: s}
	if i.TokenFile != "" {
		if _, err := auth.token(false); err != nil {
			return nil, err
		}
	}
	client.Transport = auth
	return client, nil
}

// authTransport adds the credentials to requests, and ties their answers to a session.
type authTransport struct {
	next    http.RoundTripper
	info    *ConnectionInfo
	session *credtransport.Session // nil if the requests belong to none

	mu   sync.Mutex // guards all below
	last string     // the content of the token file
	read time.Time  // when it was read; zero if never
}

// CloseIdleConnections closes those of the transport below.
func (t *authTransport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// token returns the token, which is read again if it was rotated or is old.
func (t *authTransport) token(rotated bool) (string, error) {
	if t.info.TokenFile == "" {
		return t.info.Token, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !rotated && !t.read.IsZero() && time.Since(t.read) < tokenMaxAge {
		return t.last, nil
	}
	token, err := credtransport.ReadToken(t.info.TokenFile)
	if err != nil {
		if t.last == "" {
			t.last = t.info.Token
		}
		if t.last == "" {
			return "", err
		}
		token = t.last // the file may be in the middle of a change
	}
	t.last, t.read = token, time.Now()
	return token, nil
}

// RoundTrip sends the request with the credentials. If the server refuses a token from a file, and the file has
// another one by now, the request is repeated with that.
func (t *authTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := t.token(false)
	if err != nil {
		credtransport.CloseBody(req)
		return nil, err
	}
	resp, err := t.send(req, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	if t.info.TokenFile == "" || req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return resp, nil
	}
	fresh, err := t.token(true)
	if err != nil || fresh == token {
		return resp, nil
	}
	again := credtransport.CopyRequest(req.Context(), req)
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return resp, nil
		}
	}
	credtransport.Drain(resp.Body)
	return t.send(again, fresh)
}

// send sends the request with a token.
func (t *authTransport) send(req *http.Request, token string) (*http.Response, error) {
	if t.session == nil {
		return t.next.RoundTrip(t.authorized(req, req.Context(), token))
	}
	life := t.session.Life(req.Method)
	if life.Err() != nil { // AfterFunc would tell of it only while the request is under way
		credtransport.CloseBody(req)
		return nil, credtransport.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(life, func() { cancel(credtransport.ErrClosed) })
	release := func() {
		stop()
		cancel(nil)
	}
	resp, err := t.next.RoundTrip(t.authorized(req, ctx, token))
	if err != nil {
		err = credtransport.ExplainEnd(req.Context(), life, err)
		release()
		return nil, err
	}
	if resp.StatusCode < 500 && resp.StatusCode != http.StatusUnauthorized {
		t.session.Accepted.Store(true)
	}
	resp.Body = &credtransport.SessionBody{ReadCloser: resp.Body, Ctx: req.Context(), Life: life, Release: release}
	return resp, nil
}

// authorized returns the request with the headers that let it in, but for those that it has already.
func (t *authTransport) authorized(req *http.Request, ctx context.Context, token string) *http.Request {
	req = credtransport.CopyRequest(ctx, req)
	i, h := t.info, req.Header
	if h.Get("Authorization") == "" {
		switch {
		case token != "" && i.Scheme == "":
			h.Set("Authorization", "Bearer "+token)
		case i.Scheme != "":
			h.Set("Authorization", strings.TrimSpace(i.Scheme+" "+token))
		case i.Username != "" && i.Password != "":
			req.SetBasicAuth(i.Username, i.Password)
		}
	}
	if i.ImpersonateUser == "" || h.Get("Impersonate-User") != "" {
		return req
	}
	h.Set("Impersonate-User", i.ImpersonateUser)
	if i.ImpersonateUID != "" {
		h.Set("Impersonate-Uid", i.ImpersonateUID)
	}
	for _, group := range i.ImpersonateGroups {
		h.Add("Impersonate-Group", group)
	}
	for key, values := range i.ImpersonateExtra {
		for _, value := range values {
			h.Add("Impersonate-Extra-"+credtransport.EscapeHeaderKey(key), value)
		}
	}
	return req
}

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
