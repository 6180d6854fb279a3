package kopf

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kopf-go/kopf/internal/connection"
	"github.com/kopf-go/kopf/internal/connshare"
	"github.com/kopf-go/kopf/internal/credtransport"
	"github.com/kopf-go/kopf/internal/discovery"
)

// rotatingAuthority is a server whose certificate is replaced by one of another authority, at the same address.
type rotatingAuthority struct {
	url        string
	old, fresh *authority
	file       string // of the authorities that clients trust, at first the old one
	rotate     func() // the server shows the other certificate, on new connections
	bodies     atomic.Pointer[[]string]
}

func newRotatingAuthority(t *testing.T) *rotatingAuthority {
	t.Helper()
	r := &rotatingAuthority{old: newAuthority(t), fresh: newAuthority(t)}
	s := secureServer(t, r.old, "server.test")
	cert, key := r.fresh.pair(t, "server.test")
	second, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	var shown atomic.Pointer[tls.Certificate]
	shown.Store(&s.TLS.Certificates[0])
	s.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*shown.Load()}, NextProtos: []string{"h2", "http/1.1"}}, nil
	}
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.bodies.Store(&[]string{req.Method, string(body)})
		fmt.Fprint(w, podText)
	})
	r.url, r.file = s.URL, write(t, filepath.Join(t.TempDir(), "ca.crt"), string(r.old.pem()))
	r.rotate = func() { shown.Store(&second) }
	return r
}

func TestRotatedAuthority(t *testing.T) {
	get := func(c *Client) error { return c.Get(t.Context(), podRef, &Body{}, nil) }
	create := func(c *Client) error {
		return c.Create(t.Context(), map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"generateName": "p-", "namespace": "ns"}}, nil)
	}
	logins := map[string]func(t *testing.T, r *rotatingAuthority) *ConnectionInfo{
		"a connection with a file": func(t *testing.T, r *rotatingAuthority) *ConnectionInfo {
			return &ConnectionInfo{Server: r.url, CAFile: r.file, TLSServerName: "server.test"}
		},
		"a kubeconfig with a file": func(t *testing.T, r *rotatingAuthority) *ConnectionInfo {
			config := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, certificate-authority: ca.crt, tls-server-name: server.test}}], users: [{name: u, user: {token: t}}]}`, r.url)
			path := write(t, filepath.Join(filepath.Dir(r.file), "config"), config)
			info, err := LoginWithKubeconfig(t.Context(), &Login{Kubeconfig: path})
			if err != nil {
				t.Fatal(err)
			}
			return info
		},
		"a service account": func(t *testing.T, r *rotatingAuthority) *ConnectionInfo {
			write(t, filepath.Join(filepath.Dir(r.file), "token"), "t")
			info, err := LoginWithServiceAccount(t.Context(), &Login{serviceAccountDir: filepath.Dir(r.file)})
			if err != nil {
				t.Fatal(err)
			}
			info.Server, info.TLSServerName = r.url, "server.test"
			return info
		},
	}
	for what, login := range logins {
		for method, call := range map[string]func(*Client) error{"a read": get, "a creation": create} {
			t.Run(fmt.Sprintf("DF-21 %s: %s", what, method), func(t *testing.T) {
				r := newRotatingAuthority(t)
				c, err := NewClient(login(t, r), &NetworkingSettings{})
				if err != nil {
					t.Fatal(err)
				}
				defer c.close()
				c.kinds.Set([]discovery.Resource{discovery.Resource(testPods)})
				if err := call(c); err != nil {
					t.Fatal(err)
				}
				r.rotate()
				cred, err := c.credentials.Pick(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				cred.CloseIdle()
				var untrusted x509.UnknownAuthorityError
				if err := call(c); !errors.As(err, &untrusted) {
					t.Errorf("got %v from a server of an unknown authority", err)
				}
				write(t, r.file, string(r.old.pem())+string(r.fresh.pem()))
				if err := call(c); err != nil {
					t.Errorf("the authority that is in the file is not trusted: %v", err)
				}
				if sent := *r.bodies.Load(); method == "a creation" && (sent[0] != http.MethodPost || !json.Valid([]byte(sent[1])) || !strings.Contains(sent[1], "p-")) {
					t.Errorf("the server has got %q", sent)
				}
			})
		}
	}
}

func TestAuthorityFile(t *testing.T) {
	t.Run("DF-21", func(t *testing.T) {
		r := newRotatingAuthority(t)
		c, err := (&ConnectionInfo{Server: r.url, CAFile: r.file, TLSServerName: "server.test"}).info().NewHTTPClient(t.Context(), 0, credtransport.NewSession(context.Background()), connection.Sharing)
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseIdleConnections()
		trust := c.Transport.(*credtransport.Transport).Next.(*connshare.Transport).Next.(*credtransport.AuthorityTransport)
		maxAge := trust.MaxAge
		age := func() { trust.MaxAge = 0 } // until the next request
		wantTrust := func(what string, want bool) {
			t.Helper()
			c.CloseIdleConnections()
			if _, err := getText(t, c, r.url); (err == nil) != want {
				t.Errorf("%s: got %v, want trust: %t", what, err, want)
			}
			trust.MaxAge = maxAge
		}
		wantTrust("at first", true)
		write(t, r.file, "-----BEGIN") // it is being written
		age()
		wantTrust("with a broken file", true)
		write(t, r.file, string(r.fresh.pem()))
		wantTrust("before the file is read again", true)
		age()
		wantTrust("without the authority in the file", false)
		r.rotate()
		wantTrust("with the other authority in the file", true)
		write(t, r.file, string(r.old.pem()))
		wantTrust("with the file as it was before it is read again", true)
	})
}
