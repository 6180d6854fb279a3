package contract

import (
	"encoding/json"
	"testing"

	"github.com/kopf-go/kopf"
)

// The suites on the embedded API server: each leaf in a bubble with a server of its own.

func TestContract(t *testing.T) {
	Run(t, &Judge{Bubble: true, Open: func(t testing.TB) (*kopf.ConnectionInfo, string) {
		server := kopf.NewAPIServer(nil)
		const namespace = "leaf"
		manifests := append(Manifests(), map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}})
		for _, manifest := range manifests {
			data, err := json.Marshal(manifest)
			if err == nil {
				err = server.Apply(data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return server.ConnectionInfo(), namespace
	}})
}
