package credtransport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// maxStreamBuffer is the number of unread bytes of a response over HTTP/2.
const maxStreamBuffer = 1 << 20

const (
	// maxIdle is the number of idle connections, equal to the default number of concurrent requests: a new connection costs more than a request.
	maxIdle = 64
	// idleTimeout is shorter than the 90 s of kube-apiserver, which could otherwise close a connection while a write is on its way.
	idleTimeout = time.Minute
)

// Connecting has the settings of connections to a server.
type Connecting struct {
	Timeout            time.Duration      // zero for no limit
	HTTP2              bool               // if the server offers it
	ServerName         string             // in the server's certificate; "" for the host
	InsecureSkipVerify bool               // do not verify the server's certificate
	Authorities        Authorities        // CA bundle; the system's bundle if empty
	Certificate        *CertificateSource // client certificate; nil for none
	ProxyFromEnv       bool               // use the proxy of the environment
	ProxyURL           string             // proxy instead of that of the environment; may be ""
}

// NewTransport returns a transport with the client certificate as the only credentials. When ctx ends, its connections are closed, even those in use.
func (c *Connecting) NewTransport(ctx context.Context) (*http.Transport, error) {
	config, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		DialContext:           dialUntil(ctx, &net.Dialer{Timeout: c.Timeout, KeepAlive: 30 * time.Second}),
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

// tlsConfig returns the TLS configuration. Changed files of the client certificate are read again.
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

// dialUntil dials connections that are closed when ctx ends. Closing the idle ones is not enough: a transport closes an HTTP/2 connection only if it is idle at
// that moment, and a canceled request is removed from its connection later than its body returns the error.
func dialUntil(ctx context.Context, d *net.Dialer) func(_ context.Context, network, address string) (net.Conn, error) {
	return func(dialing context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(dialing, network, address)
		if err != nil {
			return nil, err
		}
		limited := &limitedConn{conn, context.AfterFunc(ctx, func() { _ = conn.Close() })}
		if ctx.Err() != nil { // otherwise a request could be faster than the goroutine of AfterFunc
			_ = limited.Close()
			return nil, fmt.Errorf("connecting to %s: %w", address, context.Cause(ctx))
		}
		return limited, nil
	}
}

// limitedConn is a connection with a lifetime.
type limitedConn struct {
	net.Conn
	stop func() bool // ends waiting for the end of the lifetime
}

func (c *limitedConn) Close() error {
	c.stop()
	return c.Conn.Close()
}
