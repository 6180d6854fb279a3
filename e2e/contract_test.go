package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
	"github.com/kopf-go/kopf/internal/contract"
)

// The suites of the contract on the real API server: what holds in a bubble holds in the world.

func TestContract(t *testing.T) {
	c := theCluster(t)
	var once sync.Once
	var leaves atomic.Int64
	contract.Run(t, &contract.Judge{Open: func(t testing.TB) (*kopf.ConnectionInfo, string) {
		once.Do(func() {
			for _, manifest := range contract.Manifests() {
				define(t, c, manifest)
			}
		})
		namespace := fmt.Sprintf("leaf-%d", leaves.Add(1))
		post(t, c, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": namespace}})
		info := c.ConnectionInfo()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(info.CAData)
		info.CAData = nil
		info.HTTPClient = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
		return info, namespace
	}})
}

func post(t testing.TB, c *cluster.Cluster, path string, object map[string]any) {
	t.Helper()
	data, err := json.Marshal(object)
	if err == nil {
		_, err = c.Request(t.Context(), http.MethodPost, path, data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// define creates a custom resource definition and waits until its objects can be listed.
func define(t testing.TB, c *cluster.Cluster, manifest map[string]any) {
	t.Helper()
	post(t, c, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", manifest)
	spec := manifest["spec"].(map[string]any)
	path := fmt.Sprintf("/apis/%s/v1/%s", spec["group"], spec["names"].(map[string]any)["plural"])
	eventually(t, path+" is served", func() bool {
		_, err := c.Request(t.Context(), http.MethodGet, path, nil)
		return err == nil
	})
}
