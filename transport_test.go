package kopf

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/connection"
	"github.com/kopf-go/kopf/internal/connshare"
	"github.com/kopf-go/kopf/internal/credtransport"
)

// authority is a certificate authority of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	raw  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key, a.raw = issue(t, nil, "the authority")
	return a
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.raw})
}

// pair returns the certificate and the key of a name.
func (a *authority) pair(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	_, k, raw := issue(t, a, name)
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func issue(t *testing.T, by *authority, name string) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: by == nil,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, raw
}

// secureServer responds with the protocol of each request, and the name in the client's certificate.
func secureServer(t *testing.T, ca *authority, name string) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			who = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		fmt.Fprint(w, r.Proto, " ", who)
	}))
	cert, key := ca.pair(t, name)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// fetch requests the server of info, and returns the response.
func fetch(t *testing.T, info *ConnectionInfo) (string, error) {
	t.Helper()
	c, err := info.info().NewHTTPClient(t.Context(), 0, nil, connection.Sharing)
	if err != nil {
		return "", err
	}
	defer c.CloseIdleConnections()
	return getText(t, c, info.Server)
}

func getText(t *testing.T, c *http.Client, address string) (string, error) {
	t.Helper()
	resp, err := c.Get(address)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	s := secureServer(t, ca, "server.test")
	cert, key := ca.pair(t, "client")
	encoded := []byte(base64.StdEncoding.EncodeToString(ca.pem()))
	dir := t.TempDir()
	caFile := write(t, filepath.Join(dir, "ca"), string(ca.pem()))
	certFile, keyFile := write(t, filepath.Join(dir, "cert"), string(cert)), write(t, filepath.Join(dir, "key"), string(key))
	for _, c := range []struct {
		name string
		info ConnectionInfo
		want string
		err  string
	}{
		{name: "AC-73 an authority", info: ConnectionInfo{CAData: ca.pem(), TLSServerName: "server.test"}, want: "HTTP/2.0 nobody"},
		{name: "AC-71 an authority in base64", info: ConnectionInfo{CAData: slices.Insert(encoded, 64, '\n'), TLSServerName: "server.test"}, want: "HTTP/2.0 nobody"},
		{name: "AC-73 an authority in a file", info: ConnectionInfo{CAFile: caFile, TLSServerName: "server.test"}, want: "HTTP/2.0 nobody"},
		{name: "AC-73 the authorities of the system", info: ConnectionInfo{TLSServerName: "server.test"}, err: "certificate"},
		{name: "AC-73 another name", info: ConnectionInfo{CAData: ca.pem()}, err: "certificate"},
		{name: "AC-73 insecure", info: ConnectionInfo{InsecureSkipTLSVerify: true}, want: "HTTP/2.0 nobody"},
		{name: "AC-73 a client certificate", info: ConnectionInfo{InsecureSkipTLSVerify: true, CertificateData: cert, KeyData: Secret([]byte(base64.StdEncoding.EncodeToString(key)))}, want: "HTTP/2.0 client"},
		{name: "AC-73 a client certificate in files", info: ConnectionInfo{InsecureSkipTLSVerify: true, CertificateFile: certFile, KeyFile: keyFile}, want: "HTTP/2.0 client"},
		{name: "AC-73 a certificate without its key", info: ConnectionInfo{InsecureSkipTLSVerify: true, CertificateFile: certFile}, want: "HTTP/2.0 nobody"},
		{name: "AC-71 neither PEM nor base64", info: ConnectionInfo{CAData: []byte("@@")}, err: "the certificate authority is neither PEM nor base64 of it"},
		{name: "AC-71 base64 of something", info: ConnectionInfo{CAData: []byte("aGVsbG8=")}, err: "the certificate authority has no PEM in it"},
		{name: "AC-71 a missing file", info: ConnectionInfo{CAFile: dir + "/none"}, err: "the certificate authority: open "},
		{name: "AC-71 a broken file", info: ConnectionInfo{CertificateFile: write(t, filepath.Join(dir, "bad"), "@"), KeyFile: keyFile},
			err: "the client certificate in " + filepath.Join(dir, "bad") + " is neither PEM"},
		{name: "AC-71 the key of another", info: ConnectionInfo{CertificateFile: caFile, KeyFile: keyFile}, err: "the client certificate: tls: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.info.Server = s.URL
			got, err := fetch(t, &c.info)
			if got != c.want || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %q, error %v; want %q, error %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestClientCertificateReload(t *testing.T) {
	ca := newAuthority(t)
	s := secureServer(t, ca, "server.test")
	dir := t.TempDir()
	info := &ConnectionInfo{Server: s.URL, InsecureSkipTLSVerify: true, CertificateFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key")}
	put := func(name string) {
		cert, key := ca.pair(t, name)
		write(t, info.CertificateFile, string(cert))
		write(t, info.KeyFile, string(key))
	}
	put("first")
	c, err := info.info().NewHTTPClient(t.Context(), 0, nil, connection.Sharing)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "HTTP/2.0 first"},
		{func() { put("the second") }, "HTTP/2.0 the second"},
		{func() { write(t, info.KeyFile, "half a fil") }, "HTTP/2.0 the second"},
		{func() { put("the very third") }, "HTTP/2.0 the very third"},
	} {
		step.do()
		c.CloseIdleConnections()
		if got, err := getText(t, c, s.URL); err != nil || got != step.want {
			t.Errorf("got %q, error %v; want %q", got, err, step.want)
		}
	}
	c.CloseIdleConnections()
}

func TestAuthorization(t *testing.T) {
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer s.Close()
	for _, c := range []struct {
		name string
		info ConnectionInfo
		want http.Header
	}{
		{"AC-72 a token", ConnectionInfo{Token: "t"}, http.Header{"Authorization": {"Bearer t"}}},
		{"AC-72 a scheme and a token", ConnectionInfo{Scheme: "Token", Token: "t"}, http.Header{"Authorization": {"Token t"}}},
		{"AC-72 a scheme", ConnectionInfo{Scheme: "Negotiate"}, http.Header{"Authorization": {"Negotiate"}}},
		{"AC-72 basic", ConnectionInfo{Username: "u", Password: "p"}, http.Header{"Authorization": {"Basic dTpw"}}},
		{"AC-72 a name without a password", ConnectionInfo{Username: "u"}, nil},
		{"AC-72 nothing", ConnectionInfo{}, nil},
		{"AC-76 an own client", ConnectionInfo{HTTPClient: &http.Client{}}, nil},
		{"AC-76 an own client with a token", ConnectionInfo{HTTPClient: &http.Client{}, Token: "t"}, http.Header{"Authorization": {"Bearer t"}}},
		{"AC-T21 basic beside impersonation", ConnectionInfo{Username: "u", Password: "p", ImpersonateUser: "boss"},
			http.Header{"Authorization": {"Basic dTpw"}, "Impersonate-User": {"boss"}}},
		{"AC-T21 impersonation", ConnectionInfo{ImpersonateUser: "boss", ImpersonateUID: "7", ImpersonateGroups: []string{"g", "h"},
			ImpersonateExtra: map[string][]string{"example.com/k%": {"v", "w"}}},
			http.Header{"Impersonate-User": {"boss"}, "Impersonate-Uid": {"7"}, "Impersonate-Group": {"g", "h"}, "Impersonate-Extra-Example.com%2fk%25": {"v", "w"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.info.Server = s.URL
			if _, err := fetch(t, &c.info); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"User-Agent", "Accept-Encoding"} {
				got.Del(name)
			}
			if c.want == nil {
				c.want = http.Header{}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAuthorizationOfTheCaller(t *testing.T) {
	credentials := credtransport.Credentials{Token: "t", ImpersonateUser: "boss", ImpersonateGroups: []string{"g"}}
	req := httptest.NewRequest(http.MethodGet, "http://x", nil)
	req.Header.Set("Authorization", "Own t2")
	req.Header.Set("Impersonate-User", "me")
	got := credentials.Authorize(t.Context(), req, "t").Header
	if diff := cmp.Diff(http.Header{"Authorization": {"Own t2"}, "Impersonate-User": {"me"}}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := credentials.Authorize(t.Context(), httptest.NewRequest(http.MethodGet, "http://x", nil), "t"); len(got.Header) != 3 {
		t.Errorf("got %v", got.Header)
	}
}

// TestSession checks that real streams end with their session, and return the reason.
func TestSession(t *testing.T) {
	ca := newAuthority(t)
	s := secureServer(t, ca, "server.test")
	over := make(chan struct{})
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-over // not with the request: a response that ends properly when it is interrupted is no failure
	})
	defer close(over)
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("AC-68 HTTP/2 ", http2), func(t *testing.T) {
			one := credtransport.NewSession(t.Context())
			info := &ConnectionInfo{Server: s.URL, InsecureSkipTLSVerify: true}
			c, err := info.info().NewHTTPClient(t.Context(), 0, one, connection.Sharing)
			if err != nil {
				t.Fatal(err)
			}
			c.Transport.(*credtransport.Transport).Next.(*connshare.Transport).Next.(*http.Transport).Protocols.SetHTTP2(http2)
			defer c.CloseIdleConnections()
			resp, err := c.Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			if !one.Accepted.Load() {
				t.Error("the answer does not count as accepted")
			}
			time.AfterFunc(10*time.Millisecond, one.Replace) // usually during the read
			if _, err := io.ReadAll(resp.Body); !errors.Is(err, credtransport.ErrClosed) {
				t.Errorf("the stream has ended with %v, want %v", err, credtransport.ErrClosed)
			}
			_ = resp.Body.Close()
			if _, err := c.Get(s.URL); !errors.Is(err, credtransport.ErrClosed) {
				t.Errorf("a request after the end has got %v, want %v", err, credtransport.ErrClosed)
			}
		})
	}
}

// TestSessionAccepted checks which responses confirm credentials.
func TestSessionAccepted(t *testing.T) {
	for code, want := range map[int]bool{200: true, 403: true, 404: true, 401: false, 500: false, 503: false} {
		s := credtransport.NewSession(t.Context())
		answer := roundTripper(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: code, Body: http.NoBody, Request: req}, nil
		})
		c, err := (&ConnectionInfo{HTTPClient: &http.Client{Transport: answer}}).info().NewHTTPClient(t.Context(), 0, s, connection.Sharing)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := getText(t, c, "http://x"); err != nil || s.Accepted.Load() != want {
			t.Errorf("HTTP %d: accepted is %v, error %v; want %v", code, s.Accepted.Load(), err, want)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

func TestProxy(t *testing.T) {
	var requested, user atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requested.Store(r.URL.String())
		user.Store(r.Header.Get("Proxy-Authorization"))
		fmt.Fprint(w, "proxied")
	}))
	defer proxy.Close()
	address, _ := url.Parse(proxy.URL)
	address.User = url.UserPassword("u", "p")
	t.Run("AC-74 a proxy with credentials", func(t *testing.T) {
		got, err := fetch(t, &ConnectionInfo{Server: "http://cluster.invalid/x", ProxyURL: address.String()})
		if err != nil || got != "proxied" || requested.Load() != "http://cluster.invalid/x" || user.Load() != "Basic dTpw" {
			t.Errorf("got %q, error %v; the proxy was asked for %v by %v", got, err, requested.Load(), user.Load())
		}
	})
	t.Run("AC-74 the environment is not trusted", func(t *testing.T) {
		for _, trust := range []bool{false, true} {
			c, err := (&ConnectionInfo{Server: "https://x", TrustEnv: trust}).info().NewHTTPClient(t.Context(), 0, nil, connection.Alone)
			if err != nil {
				t.Fatal(err)
			}
			if proxy := c.Transport.(*credtransport.Transport).Next.(*http.Transport).Proxy; (proxy != nil) != trust {
				t.Errorf("trust %v: a proxy is looked for: %v", trust, proxy != nil)
			}
		}
	})
}

func TestRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("another server was given %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer s.Close()
	if _, err := fetch(t, &ConnectionInfo{Server: s.URL, Token: "t"}); err == nil || !strings.Contains(err.Error(), "the server redirects to") {
		t.Errorf("got %v, want an error", err)
	}
}

// tokenServer responds to requests by their tokens; all but the allowed one get 401.
type tokenServer struct {
	allowed string
	seen    []string
}

func (s *tokenServer) RoundTrip(req *http.Request) (*http.Response, error) {
	body := ""
	if req.Body != nil {
		data, _ := io.ReadAll(req.Body)
		body = string(data)
	}
	token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	s.seen = append(s.seen, token+body)
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}
	if s.allowed != "" && token != s.allowed {
		resp.StatusCode = http.StatusUnauthorized
	}
	return resp, nil
}

func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for _, c := range []struct {
		name string
		test func(t *testing.T, s *tokenServer, post func(body io.Reader) int)
		want []string
	}{
		{"AC-T25 read again within a minute", func(t *testing.T, s *tokenServer, post func(io.Reader) int) { // in a bubble
			write(t, file, "two\n")
			post(nil)
			time.Sleep(30 * time.Second)
			post(nil)
			time.Sleep(30 * time.Second)
			post(nil)
		}, []string{"one", "one", "two"}},
		{"AC-T25 read again after a refusal", func(t *testing.T, s *tokenServer, post func(io.Reader) int) {
			write(t, file, "two")
			s.allowed = "two"
			if code := post(strings.NewReader("!")); code != http.StatusOK {
				t.Errorf("got HTTP %d", code)
			}
		}, []string{"one!", "two!"}},
		{"AC-T25 refused for good", func(t *testing.T, s *tokenServer, post func(io.Reader) int) {
			s.allowed = "another"
			if code := post(nil); code != http.StatusUnauthorized {
				t.Errorf("got HTTP %d", code)
			}
		}, []string{"one"}},
		{"AC-T25 a body that can't be sent twice", func(t *testing.T, s *tokenServer, post func(io.Reader) int) {
			write(t, file, "two")
			s.allowed = "two"
			if code := post(io.MultiReader(strings.NewReader("!"))); code != http.StatusUnauthorized {
				t.Errorf("got HTTP %d", code)
			}
		}, []string{"one!"}},
		{"AC-T25 a file in the middle of a change", func(t *testing.T, s *tokenServer, post func(io.Reader) int) { // in a bubble
			write(t, file, "")
			time.Sleep(time.Hour)
			post(nil)
		}, []string{"one"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				write(t, file, " one\n")
				s := &tokenServer{}
				info := &ConnectionInfo{Server: "http://x", TokenFile: file, HTTPClient: &http.Client{Transport: s}}
				client, err := info.info().NewHTTPClient(t.Context(), 0, nil, connection.Sharing)
				if err != nil {
					t.Fatal(err)
				}
				c.test(t, s, func(body io.Reader) int {
					resp, err := client.Post("http://x", "text/plain", body)
					if err != nil {
						t.Fatal(err)
					}
					_ = resp.Body.Close()
					return resp.StatusCode
				})
				if diff := cmp.Diff(c.want, s.seen); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		})
	}
	t.Run("AC-T25 a missing file", func(t *testing.T) {
		info := &ConnectionInfo{Server: "http://x", TokenFile: file + "none"}
		if _, err := info.info().NewHTTPClient(t.Context(), 0, nil, connection.Sharing); err == nil || !strings.Contains(err.Error(), "the token: open ") {
			t.Errorf("got %v, want an error", err)
		}
	})
}

// TestConnectTimeout checks that a silent server is abandoned in time.
func TestConnectTimeout(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	info := &ConnectionInfo{Server: "https://" + silent.Addr().String(), InsecureSkipTLSVerify: true}
	c, err := info.info().NewHTTPClient(t.Context(), 50*time.Millisecond, nil, connection.Sharing)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := getText(t, c, info.Server); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("got %v, want a timeout", err)
	}
	for name, set := range map[string]func(*Settings){
		"DF-6 Networking.ConnectTimeout, requests": func(s *Settings) { s.Networking.ConnectTimeout = 50 * time.Millisecond },
		"DF-6 Networking.ConnectTimeout, watches":  func(s *Settings) { s.Networking.ConnectTimeout = 50 * time.Millisecond },
		"DF-6 Watching.ConnectTimeout, watches": func(s *Settings) {
			s.Networking.ConnectTimeout, s.Watching.ConnectTimeout = time.Minute, 50*time.Millisecond
		},
	} {
		t.Run(name, func(t *testing.T) {
			settings := NewSettings()
			settings.Networking.ErrorBackoffs = nil
			set(settings)
			client := newLoginClient(info.login, settings, slog.New(slog.DiscardHandler))
			defer client.close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var err error
			if strings.HasSuffix(name, "watches") {
				err = client.watch(ctx, namespacesResource, "", url.Values{}, func(RawEvent) error { return nil })
			} else {
				_, err = client.Resources(ctx)
			}
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "timeout") {
				t.Errorf("got %v, want that the connecting is given up", err)
			}
		})
	}
}
