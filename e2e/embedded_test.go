package e2e

import (
	"net/http"
	"testing"

	"github.com/kopf-go/kopf"
)

// embedded starts the embedded API server.
func embedded(t *testing.T) *endpoint {
	t.Helper()
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
