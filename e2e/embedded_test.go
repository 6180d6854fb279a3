package e2e

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// embedded starts the embedded API server for comparisons with kube-apiserver.
func embedded(t *testing.T) *endpoint {
	t.Helper()
	needSameVersion(t, theCluster(t))
	served, err := kopf.NewAPIServer(&kopf.APIServerOptions{DisableGarbageCollector: true}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := served.Close(); err != nil {
			t.Error(err)
		}
	})
	return &endpoint{name: "embedded", url: served.URL, client: &http.Client{Transport: &http.Transport{}}}
}

// needSameVersion skips a test that compares the embedded server with a kube-apiserver of another minor version than the embedded one implements.
func needSameVersion(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ask := func(client *http.Client, url string) (minor string) {
		resp, err := client.Get(url + "/version")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var version struct{ Minor string }
		if err := json.NewDecoder(resp.Body).Decode(&version); err != nil {
			t.Fatal(err)
		}
		return version.Minor
	}
	info := kopf.NewAPIServer(nil).ConnectionInfo()
	want, got := ask(info.HTTPClient, info.Server), ask(c.HTTPClient(), c.URL())
	if got != want {
		t.Skipf("the embedded server implements Kubernetes 1.%s, and the control plane is of 1.%s", want, got)
	}
}
