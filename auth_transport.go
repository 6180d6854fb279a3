package kopf

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// This file turns connection information into HTTP clients: TLS, proxies, and the headers that let a
// request in. What is in files is read again when the files change. It runs on the goroutines of the requests.

// tokenMaxAge is how long the content of a token file is believed.
const tokenMaxAge = time.Minute

// pemOf returns PEM that may be in base64, as kubeconfigs have it.
func pemOf(what string, data []byte) ([]byte, error) {
	if !bytes.Contains(data, []byte("-----BEGIN")) {
		text := strings.Join(strings.Fields(string(data)), "")
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("%s is neither PEM nor base64 of it", what)
		}
		data = decoded
	}
	if block, _ := pem.Decode(data); block == nil {
		return nil, fmt.Errorf("%s has no PEM in it", what)
	}
	return data, nil
}

// dataOf returns the PEM of data or a file, nil if there is neither.
func dataOf(what string, data []byte, file string) ([]byte, error) {
	if len(data) == 0 {
		if file == "" {
			return nil, nil
		}
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		what += " in " + file
	}
	return pemOf(what, data)
}

// authorities returns the PEM that the server's certificate is checked against, nil if that is the system's.
func (i *ConnectionInfo) authorities() ([]byte, error) {
	return dataOf("the certificate authority", i.CAData, i.CAFile)
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
	stamp := fileStamp(s.info.CertificateFile) + fileStamp(s.info.KeyFile)
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

// fileStamp identifies the version of a file.
func fileStamp(path string) string {
	stat, err := os.Stat(path)
	if path == "" || err != nil {
		return "/"
	}
	return fmt.Sprint(stat.ModTime().UnixNano(), "+", stat.Size(), "/")
}

func (i *ConnectionInfo) clientCertificate() (*tls.Certificate, error) {
	cert, err := dataOf("the client certificate", i.CertificateData, i.CertificateFile)
	if err != nil {
		return nil, err
	}
	key, err := dataOf("the client key", i.KeyData, i.KeyFile)
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
		t.Proxy = concealingProxy(http.ProxyFromEnvironment)
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

// concealingProxy is a choice of proxies whose errors do not contain an address that cannot be read, for it can have a password in it.
func concealingProxy(choose func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		proxy, err := choose(r)
		if err != nil {
			err = errors.New("the address of the proxy in the environment is not a URL")
		}
		return proxy, err
	}
}

// newHTTPClient returns a client whose requests are let in. The time to connect is limited if it is positive. For
// streams it speaks HTTP/1.1 only, otherwise HTTP/2 where it is offered.
func (i *ConnectionInfo) newHTTPClient(connectTimeout time.Duration, streams bool, s *session) (*http.Client, error) {
	client := &http.Client{CheckRedirect: sameHost}
	if i.HTTPClient != nil {
		own := *i.HTTPClient
		client = &own
		client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
			if err := sameHost(req, via); err != nil || i.HTTPClient.CheckRedirect == nil {
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

// sameHost refuses to take credentials to another host.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return fmt.Errorf("the server redirects to %s", req.URL.Redacted())
	}
	return nil
}

// session is what the connections of a credential, and of equal ones after it, have in common. It ends in two steps: when other
// credentials replace it, what is being read ends, streams above all, to be read again with those. Requests that change something
// finish, for the server may have carried them out already. When the client is closed, all ends.
type session struct {
	client   context.Context // ends when the client is closed
	reads    context.Context // of what is being read; ends before client, or with it
	replace  context.CancelFunc
	accepted atomic.Bool // the server has let a request in since the last login
}

// newSession returns a session of a client that is closed with a context.
func newSession(client context.Context) *session {
	s := &session{client: client}
	s.reads, s.replace = context.WithCancel(client)
	return s
}

// life returns the context that a request must not outlive.
func (s *session) life(method string) context.Context {
	if method == http.MethodGet || method == http.MethodHead {
		return s.reads
	}
	return s.client
}

// authTransport adds the credentials to requests, and ties their answers to a session.
type authTransport struct {
	next    http.RoundTripper
	info    *ConnectionInfo
	session *session // nil if the requests belong to none

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
	token, err := readToken(t.info.TokenFile)
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
		closeBody(req)
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
	again := copyRequest(req.Context(), req)
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return resp, nil
		}
	}
	drain(resp.Body)
	return t.send(again, fresh)
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // the request has failed anyway
	}
}

// drain reads what is left of a refusal, so that its connection can be used again.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
}

// send sends the request with a token.
func (t *authTransport) send(req *http.Request, token string) (*http.Response, error) {
	if t.session == nil {
		return t.next.RoundTrip(t.authorized(req, req.Context(), token))
	}
	life := t.session.life(req.Method)
	if life.Err() != nil { // AfterFunc would tell of it only while the request is under way
		closeBody(req)
		return nil, errCredentialClosed
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(life, func() { cancel(errCredentialClosed) })
	release := func() {
		stop()
		cancel(nil)
	}
	resp, err := t.next.RoundTrip(t.authorized(req, ctx, token))
	if err != nil {
		err = explainEnd(req.Context(), life, err)
		release()
		return nil, err
	}
	if resp.StatusCode < 500 && resp.StatusCode != http.StatusUnauthorized {
		t.session.accepted.Store(true)
	}
	resp.Body = &sessionBody{ReadCloser: resp.Body, ctx: req.Context(), life: life, release: release}
	return resp, nil
}

// explainEnd tells errors of a request that the end of its session has caused from others.
func explainEnd(ctx, life context.Context, err error) error {
	if life.Err() == nil || ctx.Err() != nil || errors.Is(err, errCredentialClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", errCredentialClosed, err)
}

// sessionBody is the body of an answer that ends with its session.
type sessionBody struct {
	io.ReadCloser
	ctx     context.Context // of the request
	life    context.Context // that the request must not outlive
	release func()
}

// Read reads on until the end of the answer or of the session.
func (b *sessionBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = explainEnd(b.ctx, b.life, err)
	}
	return n, err
}

// Close closes the answer.
func (b *sessionBody) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}

// copyRequest copies a request as far as the copy is changed: without its address, which only is read, and without its forms.
func copyRequest(ctx context.Context, r *http.Request) *http.Request {
	c := r.WithContext(ctx)
	c.Header = r.Header.Clone()
	return c
}

// authorized returns the request with the headers that let it in, but for those that it has already.
func (t *authTransport) authorized(req *http.Request, ctx context.Context, token string) *http.Request {
	req = copyRequest(ctx, req)
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
			h.Add("Impersonate-Extra-"+escapeHeaderKey(key), value)
		}
	}
	return req
}

// escapeHeaderKey writes the key of an extra as a part of a header's name, as API servers read it: what is not
// allowed there, and the percent sign itself, is percent-encoded. Keys are read in lower case.
func escapeHeaderKey(key string) string {
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$&'*+-.^_`|~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
