package e2e

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// The clients of Kubernetes use the embedded server with TLS.

// secureServer returns an embedded server that listens with TLS.
func secureServer(t *testing.T) *kopf.APIServerListener {
	t.Helper()
	served, err := kopf.NewAPIServer(&kopf.APIServerOptions{TLS: true}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = served.Close() })
	return served
}

// restConfig returns the client-go configuration for a server.
func restConfig(info *kopf.ConnectionInfo) *rest.Config {
	return &rest.Config{Host: info.Server, TLSClientConfig: rest.TLSClientConfig{CAData: info.CAData}}
}

func TestKubectlTLS(t *testing.T) {
	c := theCluster(t)
	dir := t.TempDir()
	own, other := filepath.Join(dir, "own"), filepath.Join(dir, "other")
	if err := secureServer(t).WriteKubeconfig(own); err != nil {
		t.Fatal(err)
	}
	if err := secureServer(t).WriteKubeconfig(other); err != nil {
		t.Fatal(err)
	}
	run := func(config, command string) (string, error) {
		return cluster.RunKubectl(c.KubectlPath(), config, filepath.Join(dir, "cache"), "", strings.Fields(command)...)
	}
	for _, tt := range []struct{ command, want string }{
		{"create configmap a --from-literal=x=y", "configmap/a created\n"},
		{"get configmap a -o jsonpath={.data.x}", "y"},
		{"wait --for=delete configmap/b --timeout=5s", ""},
		{"delete configmap a", "configmap \"a\" deleted"}, // kubectl 1.34 and newer add the namespace
	} {
		if got, err := run(own, tt.command); err != nil || !strings.HasPrefix(got, tt.want) {
			t.Errorf("kubectl %s prints %q, want %q: %v", tt.command, got, tt.want, err)
		}
	}
	mine, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	authority := regexp.MustCompile(`"certificate-authority-data": "[^"]*"`)
	mixed := filepath.Join(dir, "mixed")
	if err := os.WriteFile(mixed, authority.ReplaceAll(mine, authority.Find(foreign)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(mixed, "get namespaces"); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("with the authority of another server, kubectl prints %q: %v", out, err)
	}
}

// protocols counts responses by their versions of HTTP.
type protocols struct {
	next   http.RoundTripper
	counts *[3]atomic.Int32
}

func (p protocols) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := p.next.RoundTrip(r)
	if err == nil {
		p.counts[resp.ProtoMajor].Add(1)
	}
	return resp, err
}

// TestClientGoTLS opens many watches of client-go on one connection.
func TestClientGoTLS(t *testing.T) {
	served := secureServer(t)
	var dials atomic.Int32
	var counts [3]atomic.Int32
	config := restConfig(served.ConnectionInfo())
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return protocols{next, &counts} })
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	maps := clientset.CoreV1().ConfigMaps("default")
	var watches []watch.Interface
	for range 50 {
		w, err := maps.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		watches = append(watches, w)
	}
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, w := range watches {
		if event := <-w.ResultChan(); event.Type != watch.Added {
			t.Errorf("watch %d shows %v, want an addition", i, event)
		}
	}
	if n := dials.Load(); n != 1 || counts[1].Load() != 0 || counts[2].Load() == 0 {
		t.Errorf("%d connections, %d answers by HTTP/1.1 and %d by HTTP/2, want one connection with HTTP/2", n, counts[1].Load(), counts[2].Load())
	}
	if err := served.Close(); err != nil {
		t.Fatal(err)
	}
	for i, w := range watches {
		for event := range w.ResultChan() {
			if event.Type != watch.Error {
				t.Errorf("watch %d shows %v after the end", i, event)
			}
		}
	}
}
