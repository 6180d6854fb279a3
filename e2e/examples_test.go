package e2e

import (
	"testing"

	"github.com/kopf-go/kopf/internal/promises"
)

// TestExamples holds that the examples keep on the real API server what they promise; the API server in memory has seen them
// by their own test.
func TestExamples(t *testing.T) {
	c := ownCluster(t, nil)
	world := promises.NewWorld(t, "..", promises.Build(t, ".."), c.Kubeconfig(), c.ConnectionInfo())
	promises.PlayAll(t, "..", func(*testing.T) *promises.World { return world })
}
