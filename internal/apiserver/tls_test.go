package apiserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// secureClient returns a client that trusts an authority.
func secureClient(t *testing.T, ca []byte) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatalf("the authority cannot be read: %q", ca)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func listenTLS(t *testing.T) *Listener {
	t.Helper()
	served, err := New(Options{TLS: true, Logger: slog.New(slog.DiscardHandler)}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = served.Close() })
	return served
}

func TestListenTLS(t *testing.T) {
	served, other := listenTLS(t), listenTLS(t)
	client := secureClient(t, served.CA)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(served.URL, "https://"))
	for _, tt := range []struct {
		name, url, host, origin string
		code                    int
	}{
		{name: "by its address", url: served.URL, code: 200},
		{name: "by the name of this machine", url: "https://localhost:" + port, code: 200},
		{name: "by the name of another machine", url: served.URL, host: "example.com", code: 403},
		{name: "its own page", url: served.URL, origin: served.URL, code: 200},
		{name: "a page without TLS", url: served.URL, origin: "http://127.0.0.1:" + port, code: 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tt.url+"/version", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = tt.host
			if tt.origin != "" {
				req.Header.Set("Origin", tt.origin)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != tt.code || resp.ProtoMajor != 2 {
				t.Errorf("got %d by %s, want %d by HTTP/2.0", resp.StatusCode, resp.Proto, tt.code)
			}
		})
	}
	t.Run("without HTTP/2", func(t *testing.T) {
		roots := client.Transport.(*http.Transport).TLSClientConfig.RootCAs
		old := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}}}}
		resp, err := old.Get(served.URL + "/version")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 200 || resp.ProtoMajor != 1 {
			t.Errorf("got %d by %s, want 200 by HTTP/1.1", resp.StatusCode, resp.Proto)
		}
	})
	t.Run("the authority of another server", func(t *testing.T) {
		unknown := x509.UnknownAuthorityError{}
		if _, err := secureClient(t, other.CA).Get(served.URL + "/version"); !errors.As(err, &unknown) {
			t.Errorf("got %v, want an unknown authority", err)
		}
	})
	t.Run("without TLS", func(t *testing.T) {
		resp, err := http.Get("http://127.0.0.1:" + port + "/version")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Errorf("got %d, want 400", resp.StatusCode)
		}
	})
	t.Run("the kubeconfig", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "kopf.kubeconfig")
		if err := served.WriteKubeconfig(path); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := RunningServer(data); got != served.URL {
			t.Errorf("the running server is %q, want %q", got, served.URL)
		}
		_ = served.Close()
		if got := RunningServer(data); got != "" {
			t.Errorf("after its end, the running server is %q", got)
		}
	})
}

func TestCertificateNames(t *testing.T) {
	address := func(text string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(text), Port: 1} }
	for _, tt := range []struct {
		host  string
		ip    string
		valid string
	}{
		{"127.0.0.1", "127.0.0.1", "localhost 127.0.0.1 ::1"},
		{"api.localhost", "127.0.0.1", "localhost 127.0.0.1 api.localhost"},
		{"", "::", "localhost ::1 ::"},
		{"192.0.2.1", "192.0.2.1", "192.0.2.1 localhost"},
	} {
		a, err := newAuthority(tt.host, address(tt.ip))
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(a.leaf.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(a.pem)
		for _, name := range strings.Fields(tt.valid) {
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
				t.Errorf("of a server at %q: %v", tt.host, err)
			}
		}
		if err := leaf.VerifyHostname("example.com"); err == nil || leaf.IsCA {
			t.Errorf("the certificate is for %v, and that of an authority: %t", leaf.DNSNames, leaf.IsCA)
		}
	}
}

// pipeListener is a listener without a network, for tests with synctest.
type pipeListener struct {
	conns  chan net.Conn // from dialing clients
	closed chan struct{}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	close(p.closed)
	return nil
}

func (p *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// TestMultiplexedWatches keeps many watches on one connection for a day. When the server ends, they end, and no goroutine remains.
func TestMultiplexedWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const watches = 100
		l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		authority, err := newAuthority("", l.Addr())
		if err != nil {
			t.Fatal(err)
		}
		server := New(Options{BookmarkInterval: 10 * time.Minute, Logger: slog.New(slog.DiscardHandler)})
		served := server.Serve(l, authority)
		client := secureClient(t, served.CA)
		var dials atomic.Int32
		client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			here, there := net.Pipe()
			l.conns <- there
			return here, nil
		}
		ends := make(chan error, watches)
		seen := make(chan string, watches)
		for range watches {
			resp, err := client.Get(served.URL + "/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dlate&allowWatchBookmarks=true")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				lines := bufio.NewScanner(resp.Body)
				for lines.Scan() {
					if strings.Contains(lines.Text(), `"ADDED"`) {
						seen <- lines.Text()
					}
				}
				ends <- lines.Err()
				_ = resp.Body.Close()
			}()
		}
		time.Sleep(24 * time.Hour)
		if err := server.Apply([]byte("{apiVersion: v1, kind: Namespace, metadata: {name: late}}")); err != nil {
			t.Fatal(err)
		}
		for i := range watches {
			if text := <-seen; !strings.Contains(text, `"late"`) {
				t.Errorf("watch %d shows %s", i, text)
			}
		}
		if n := dials.Load(); n != 1 {
			t.Errorf("there are %d connections, want 1", n)
		}
		if err := served.Close(); err != nil {
			t.Error(err)
		}
		for range watches {
			if err := <-ends; err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(fmt.Sprint(err), "http2") {
				t.Errorf("a watch ends with %v", err)
			}
		}
		client.CloseIdleConnections()
	})
}
