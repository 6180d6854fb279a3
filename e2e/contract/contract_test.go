// Package contract runs the suites of the contract on the real API server. They mostly wait. They are a separate package, so that they run in parallel with
// the other tests.
package contract

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
	"github.com/kopf-go/kopf/internal/contract"
)

// TestMain runs more suites at a time than there are processors, because they mostly wait. The option -parallel has the
// last word.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "10"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestContract(t *testing.T) {
	alone := []func(testing.TB) (*kopf.ConnectionInfo, string){opener(t), opener(t), opener(t)}
	contract.Run(t, &contract.Judge{Open: opener(t), OpenAlone: alone})
}

// opener starts a control plane, and returns a function that makes a namespace in it for a leaf.
func opener(t *testing.T) func(testing.TB) (*kopf.ConnectionInfo, string) {
	t.Helper()
	c, err := cluster.Start(context.Background(), &cluster.Options{Controllers: cluster.UsualControllers, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
		c.Stop()
	})
	for _, manifest := range contract.Manifests() {
		define(t, c, manifest)
	}
	var leaves atomic.Int64
	return func(t testing.TB) (*kopf.ConnectionInfo, string) {
		namespace := fmt.Sprintf("leaf-%04d", leaves.Add(1)) // no name is the beginning of another one
		c.Create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": namespace}})
		info := c.ConnectionInfo()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(info.CAData)
		info.CAData = nil
		info.HTTPClient = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
		return info, namespace
	}
}

// define creates a CRD and waits until its objects can be listed.
func define(t testing.TB, c *cluster.Cluster, manifest map[string]any) {
	t.Helper()
	c.Create(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", manifest)
	spec := manifest["spec"].(map[string]any)
	path := fmt.Sprintf("/apis/%s/v1/%s", spec["group"], spec["names"].(map[string]any)["plural"])
	late := time.After(time.Minute)
	for {
		_, err := c.Request(t.Context(), http.MethodGet, path, nil)
		if err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-late:
			t.Fatalf("%s is not served within a minute: %v", path, err)
		}
	}
}
