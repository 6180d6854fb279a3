package kopf

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/kopf-go/kopf/internal/connshare"
	"github.com/kopf-go/kopf/internal/credtransport"
)

// This file turns connection information into HTTP clients: TLS, proxies, and the headers that let a
// request in. What is in files is read again when the files change. It runs on the goroutines of the requests.

// tlsConfig returns the settings of TLS. The files of the client's certificate are read again when they change.
func (i *ConnectionInfo) tlsConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: i.TLSServerName, InsecureSkipVerify: i.InsecureSkipTLSVerify}
	ca, err := i.authorities().PEM()
	if err != nil {
		return nil, err
	}
	if ca != nil {
		if c.RootCAs, err = credtransport.PoolOf(ca); err != nil {
			return nil, err
		}
	}
	if i.hasCertificate() {
		source := i.clientCertificate()
		if _, err := source.Get(); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return source.Get() }
	}
	return c, nil
}

// maxStreamBuffer is how many bytes of an answer may come before they are read, with HTTP/2.
const maxStreamBuffer = 1 << 20

const (
	// maxIdle is how many connections are kept, as many as there are requests under way by default: a new one costs more than a request.
	maxIdle = 64
	// idleTimeout is for how long they are kept: not until kube-apiserver closes them, after 90 s, when a write could be on its way already.
	idleTimeout = time.Minute
)

// connections is how requests get theirs.
type connections bool

const (
	// alone gives each request that is under way one of its own, by HTTP/1.1.
	alone connections = false
	// sharing has requests share a few by HTTP/2, where that is offered: a server allows some hundred on each.
	sharing connections = true
)

// newTransport returns a transport without credentials but the client's certificate.
func (i *ConnectionInfo) newTransport(connectTimeout time.Duration, c connections) (*http.Transport, error) {
	config, err := i.tlsConfig()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		DialContext:           dialer.DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   connectTimeout,
		MaxIdleConns:          maxIdle,
		MaxIdleConnsPerHost:   maxIdle,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: time.Second,
		Protocols:             new(http.Protocols),
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second, MaxReceiveBufferPerStream: maxStreamBuffer},
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(c == sharing)
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
func (i *ConnectionInfo) newHTTPClient(connectTimeout time.Duration, s *credtransport.Session, c connections) (*http.Client, error) {
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
	} else {
		t, err := i.newTransport(connectTimeout, c)
		if err != nil {
			return nil, err
		}
		if client.Transport = t; i.CAFile != "" {
			if client.Transport, err = credtransport.NewAuthorityTransport(t, i.authorities()); err != nil {
				return nil, err
			}
		}
		if c == sharing {
			client.Transport = connshare.New(client.Transport)
		}
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
		Token: string(i.Token), TokenFile: i.TokenFile, Scheme: i.Scheme, Username: i.Username, Password: string(i.Password),
		ImpersonateUser: i.ImpersonateUser, ImpersonateUID: i.ImpersonateUID, ImpersonateGroups: i.ImpersonateGroups, ImpersonateExtra: i.ImpersonateExtra,
	}
}

// authorities returns what the server's certificate is checked against; without any PEM, that is the system's.
func (i *ConnectionInfo) authorities() credtransport.Authorities {
	return credtransport.Authorities{Data: i.CAData, File: i.CAFile}
}

// clientCertificate returns where the client's certificate comes from.
func (i *ConnectionInfo) clientCertificate() *credtransport.CertificateSource {
	return &credtransport.CertificateSource{CertificateData: i.CertificateData, CertificateFile: i.CertificateFile, KeyData: []byte(i.KeyData), KeyFile: i.KeyFile}
}
