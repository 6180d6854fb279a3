package kopf

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf/internal/connection"
	"github.com/kopf-go/kopf/internal/discovery"
)

// verifyingServer is an API server that verifies the certificates of its clients in the TLS handshake. It knows one pod.
func verifyingServer(t *testing.T, ca *authority) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			fmt.Fprintln(w, `{"type":"ADDED","object":`+podText+`}`)
			return
		}
		fmt.Fprint(w, podText)
	}))
	cert, key := ca.pair(t, "server.test")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestRefusedCertificates(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	s := verifyingServer(t, ca)
	ways := map[string]func(*Client) error{
		"a request": func(c *Client) error { return c.Get(t.Context(), podRef, &Body{}, nil) },
		"a creation": func(c *Client) error {
			var pod map[string]any
			if err := json.Unmarshal([]byte(podText), &pod); err != nil {
				return err
			}
			return c.Create(t.Context(), pod, nil)
		},
		"a watch": func(c *Client) error {
			for _, err := range c.Watch(t.Context(), ObjectReference{APIVersion: "v1", Kind: "Pod"}, &ListOptions{Namespace: "ns"}) {
				return err
			}
			return errors.New("nothing came")
		},
		"a request of another library": func(c *Client) error {
			resp, err := c.HTTPClient().Post(s.URL+"/api/v1/namespaces/ns/pods", "application/json", strings.NewReader(podText))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.ReadAll(resp.Body)
			return err
		},
	}
	for way, ask := range ways {
		t.Run("a certificate that the TLS handshake refuses is replaced by another login: "+way, func(t *testing.T) {
			var logins atomic.Int64
			login := func(context.Context) (map[string]*connection.Info, error) {
				signer := other
				if logins.Add(1) > 1 {
					signer = ca
				}
				cert, key := signer.pair(t, "operator")
				return map[string]*connection.Info{"login": {
					Server: s.URL, CAData: ca.pem(), TLSServerName: "server.test", CertificateData: cert, KeyData: string(key),
				}}, nil
			}
			settings := NewSettings()
			settings.Networking.ErrorBackoffs = []time.Duration{time.Millisecond, time.Millisecond}
			c := newLoginClient(login, settings, slog.New(slog.DiscardHandler))
			defer c.close()
			c.kinds.Set([]discovery.Resource{discovery.Resource(testPods)})
			if err := ask(c); err != nil {
				t.Error(err)
			}
			if n := logins.Load(); n != 2 {
				t.Errorf("there were %d logins, want 2", n)
			}
		})
	}
}
