package contract

import (
	"encoding/json"
	"os"
	"runtime/debug"
	"testing"

	"github.com/kopf-go/kopf"
)

// The suites on the embedded API server. Each leaf runs in a bubble with its own server.

const leafNamespace = "leaf"

func TestMain(m *testing.M) {
	// The leaves make much garbage on a heap of a few megabytes, which the collector would go through thousands of times.
	debug.SetGCPercent(1000)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}

func TestContract(t *testing.T) {
	Run(t, &Judge{Bubble: true, Open: func(t testing.TB) (*kopf.ConnectionInfo, string) {
		return newServer(t).ConnectionInfo(), leafNamespace
	}})
}

// newServer returns a server with the kinds of the suites, and the namespace.
func newServer(t testing.TB) *kopf.APIServer {
	server := kopf.NewAPIServer(&kopf.APIServerOptions{DisableGarbageCollector: true}) // the owners of the recorded objects do not exist
	manifests := append(Manifests(), map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": leafNamespace}})
	for _, manifest := range manifests {
		data, err := json.Marshal(manifest)
		if err == nil {
			err = server.Apply(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return server
}
