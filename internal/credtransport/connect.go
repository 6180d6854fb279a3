package credtransport

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// maxStreamBuffer is how many bytes of an answer may come before they are read, with HTTP/2.
const maxStreamBuffer = 1 << 20

const (
	// maxIdle is how many connections are kept, as many as there are requests under way by default: a new one costs more than a request.
	maxIdle = 64
	// idleTimeout is for how long they are kept: not until kube-apiserver closes them, after 90 s, when a write could be on its way already.
	idleTimeout = time.Minute
)

// Connecting is how connections to a server are made.
type Connecting struct {
	Timeout            time.Duration      // zero means none
	HTTP2              bool               // if the server offers it
	ServerName         string             // in the server's certificate; empty for the host
	InsecureSkipVerify bool               // whether the server's certificate is not checked
	Authorities        Authorities        // which that is checked against; without any PEM, those of the system
	Certificate        *CertificateSource // of the client, nil for none
	ProxyFromEnv       bool               // whether the proxy is that of the environment
	ProxyURL           string             // of the proxy, rather than that of the environment; may be empty
}

// NewTransport returns a transport without credentials but the client's certificate.
func (c *Connecting) NewTransport() (*http.Transport, error) {
	config, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: c.Timeout, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		DialContext:           dialer.DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   c.Timeout,
		MaxIdleConns:          maxIdle,
		MaxIdleConnsPerHost:   maxIdle,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: time.Second,
		Protocols:             new(http.Protocols),
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second, MaxReceiveBufferPerStream: maxStreamBuffer},
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(c.HTTP2)
	if c.ProxyFromEnv {
		t.Proxy = ConcealingProxy(http.ProxyFromEnvironment)
	}
	if c.ProxyURL != "" {
		proxy, err := url.Parse(c.ProxyURL)
		if err != nil {
			return nil, errors.New("the address of the proxy is not a URL")
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	return t, nil
}

// tlsConfig returns the settings of TLS. The files of the client's certificate are read again when they change.
func (c *Connecting) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName, InsecureSkipVerify: c.InsecureSkipVerify}
	ca, err := c.Authorities.PEM()
	if err != nil {
		return nil, err
	}
	if ca != nil {
		if config.RootCAs, err = poolOf(ca); err != nil {
			return nil, err
		}
	}
	if source := c.Certificate; source != nil {
		if _, err := source.Get(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return source.Get() }
	}
	return config, nil
}
