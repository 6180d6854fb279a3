package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// Webhook servers as kube-apiserver calls them, with configurations by the test.

// hooked is a namespace whose config maps a server reviews.
type hooked struct {
	t         *testing.T
	c         *cluster.Cluster
	client    *kopf.Client
	namespace string
}

const (
	validating = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	mutating   = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
)

// serveHooks runs a server, and keeps a configuration up to date for the config maps of a new namespace.
func serveHooks(t *testing.T, name string, server kopf.AdmissionServer, review kopf.ReviewFunc) *hooked {
	t.Helper()
	h := &hooked{t: t, c: theCluster(t), namespace: name}
	var err error
	if h.client, err = kopf.NewClient(h.c.ConnectionInfo(), nil); err != nil {
		t.Fatal(err)
	}
	h.c.Create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}})
	created := make(chan struct{})
	var once sync.Once
	runner := kopf.NewRunner(t, kopf.RunFunc(func(ctx context.Context) error {
		return server.Serve(ctx, review, func(config kopf.WebhookClientConfig) {
			h.configure(config)
			once.Do(func() { close(created) })
		})
	}), nil)
	t.Cleanup(func() {
		if _, err := h.c.Request(context.WithoutCancel(t.Context()), http.MethodDelete, validating+"/"+name, nil); err != nil {
			t.Error(err)
		}
		if err := runner.Stop(); err != nil {
			t.Error(err)
		}
	})
	<-created
	return h
}

// configure creates the configuration, or changes it.
func (h *hooked) configure(config kopf.WebhookClientConfig) {
	hook := map[string]any{
		"name": "maps.kopf.dev", "sideEffects": "None", "failurePolicy": "Fail", "admissionReviewVersions": []any{"v1"}, "timeoutSeconds": 5,
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": h.namespace}},
		"rules":             []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"configmaps"}, "operations": []any{"CREATE"}}},
		"clientConfig":      map[string]any{"url": config.URL + "/fn", "caBundle": config.CABundle},
	}
	err := h.client.Apply(h.t.Context(), map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
		"metadata": map[string]any{"name": h.namespace}, "webhooks": []any{hook},
	}, &kopf.WriteOptions{FieldManager: "test"})
	if err != nil {
		h.t.Error(err)
	}
}

// try creates a config map, which triggers a review.
func (h *hooked) try() error {
	_, err := h.c.Request(h.t.Context(), http.MethodPost, "/api/v1/namespaces/"+h.namespace+"/configmaps?dryRun=All",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"a-"}}`))
	return err
}

// allowing allows all requests, and counts them.
func allowing(n *atomic.Int64) kopf.ReviewFunc {
	return func(_ context.Context, r *kopf.ReviewRequest) ([]byte, error) {
		var review struct {
			Request struct{ UID string }
		}
		if err := json.Unmarshal(r.Body, &review); err != nil {
			return nil, err
		}
		n.Add(1)
		return fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, review.Request.UID), nil
	}
}

func TestWebhookServer(t *testing.T) {
	t.Run("AC-51 no review fails while certificates and their authorities are replaced", func(t *testing.T) {
		server, renew := rotating(t)
		renew()
		var reviews atomic.Int64
		h := serveHooks(t, "rotation", server, allowing(&reviews))
		eventually(t, "the first review", func() bool { return h.try() == nil && reviews.Load() > 0 })

		rotate(t, h.try, renew, &reviews)
	})
	t.Run("AC-51 no review of an operator with managed configurations fails meanwhile", func(t *testing.T) {
		server, renew := rotating(t)
		renew()
		var reviews atomic.Int64
		registry := &kopf.Registry{}
		registry.OnValidate("configmaps", func(context.Context, *kopf.Admission) error {
			reviews.Add(1)
			return nil
		}, &kopf.AdmissionOptions{ID: "check", Operations: []kopf.Operation{kopf.OperationCreate}})
		h := &hooked{t: t, c: theCluster(t), namespace: "managed-rotation"}
		h.c.Create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": h.namespace}})
		settings := kopf.NewSettings()
		settings.Admission.Server, settings.Admission.Managed = server, "rotation.kopf.dev"
		op := &kopf.Operator{Registry: registry, Connection: h.c.ConnectionInfo(), Namespaces: []string{h.namespace}, Settings: settings, Logger: slog.New(slog.DiscardHandler)}
		runner := kopf.NewRunner(t, kopf.RunFunc(op.Run), nil)
		eventually(t, "the first review", func() bool { return h.try() == nil && reviews.Load() > 0 })
		rotate(t, h.try, renew, &reviews)
		if err := runner.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := h.c.Request(t.Context(), http.MethodDelete, validating+"/rotation.kopf.dev", nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("AC-12 people are told why a review was refused", func(t *testing.T) {
		var code atomic.Int64
		h := serveHooks(t, "refusals", &kopf.WebhookServer{Addr: "127.0.0.1"}, func(context.Context, *kopf.ReviewRequest) ([]byte, error) {
			return nil, &kopf.ReviewError{Code: int(code.Load()), Message: fmt.Sprint("because of ", code.Load())}
		})
		for _, want := range []int64{400, 404, 405, 408, 409, 413, 415, 500} {
			code.Store(want)
			var err error
			eventually(t, "a refusal", func() bool {
				err = h.try()
				return err != nil
			})
			if told := fmt.Sprint("failed to call webhook: because of ", want, `"`); !strings.Contains(err.Error(), told) {
				t.Errorf("%d: got %v, want %s in it", want, err, told)
			}
		}
	})
}

// rotating returns a server with its certificate in files, and a function that replaces the certificate and its authority.
func rotating(t *testing.T) (server *kopf.WebhookServer, renew func()) {
	dir := t.TempDir()
	server = &kopf.WebhookServer{
		Addr: "127.0.0.1", CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), CAFile: filepath.Join(dir, "ca.crt"),
		FileCheckInterval: 100 * time.Millisecond, RenewalOverlap: 3 * time.Second,
	}
	return server, func() {
		ca, cert, key := newPair(t)
		for path, data := range map[string][]byte{server.CAFile: ca, server.CertFile: cert, server.KeyFile: key} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// rotate reviews config maps, four at once, while certificates are replaced three times.
func rotate(t *testing.T, try func() error, renew func(), reviews *atomic.Int64) {
	t.Helper()
	var done atomic.Bool
	var tried, renewals atomic.Int64
	var writers sync.WaitGroup
	before := reviews.Load()
	for range 4 {
		writers.Go(func() {
			for !done.Load() {
				tried.Add(1)
				if err := try(); err != nil {
					t.Errorf("a review failed after %d renewals: %v", renewals.Load(), err)
					return
				}
			}
		})
	}
	for range 3 {
		renew()
		renewals.Add(1)
		time.Sleep(5 * time.Second) // real time, in which the API server uses the configuration
	}
	done.Store(true)
	writers.Wait()
	if asked := reviews.Load() - before; asked != tried.Load() || asked < 100 {
		t.Errorf("there were %d reviews of %d config maps", asked, tried.Load())
	}
	t.Logf("%d reviews, 3 renewals", tried.Load())
}

// newPair returns an authority, a certificate that it has signed for this machine, and its key.
func newPair(t *testing.T) (ca, cert, key []byte) {
	t.Helper()
	issue := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if parent == nil {
			parent, signer = template, private
		}
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		template.BasicConstraintsValid = true
		der, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		return private, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	authority := &x509.Certificate{Subject: pkix.Name{CommonName: fmt.Sprint("CA at ", time.Now().UnixNano())}, IsCA: true, KeyUsage: x509.KeyUsageCertSign}
	signer, ca := issue(authority, nil, nil)
	leaf := &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	private, cert := issue(leaf, authority, signer)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return ca, cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
