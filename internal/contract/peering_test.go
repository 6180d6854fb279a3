package contract

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// TestShippedPeering proves that the shipped manifests for peering equal those of Kopf for Python, and that they work.
func TestShippedPeering(t *testing.T) {
	c := (&Judge{Bubble: true, Open: func(t testing.TB) (*kopf.ConnectionInfo, string) {
		server := newServer(t)
		for _, file := range []string{"peering.yaml", "peering-objects.yaml"} {
			manifest, err := os.ReadFile("../../examples/" + file)
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Apply(manifest); err != nil {
				t.Fatal(err)
			}
		}
		return server.ConnectionInfo(), "default"
	}}).suite(t, "peering")
	c.Run(t, "OP-76 the definitions and objects that are shipped", func(c *C) {
		for kind, scope := range map[string]string{"ClusterKopfPeering": "Cluster", "KopfPeering": "Namespaced"} {
			plural := map[string]string{"ClusterKopfPeering": "clusterkopfpeerings", "KopfPeering": "kopfpeerings"}[kind]
			spec := c.Of("apiextensions.k8s.io/v1", "CustomResourceDefinition").Get(plural + ".kopf.dev").Spec()
			versions, _ := spec.Get("versions").([]any)
			c.same("the versions of "+kind, []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				}}}}}, versions)
			if spec.String("group") != "kopf.dev" || spec.String("scope") != scope || spec.String("names.kind") != kind ||
				spec.String("names.plural") != plural || spec.Has("names.shortNames") {
				c.Errorf("got the definition %v", spec.Map())
			}
			if got := c.Of("kopf.dev/v1", kind).seats("default"); len(got) != 0 {
				c.Errorf("got the records %q in the object that is shipped", got)
			}
		}
		all := func(op *kopf.Operator) { op.Namespaces = nil }
		var l calls
		c.Operator(&kopf.Registry{}, as("inside"))
		first := c.Operator(worker(&l), as("all"), all)
		second := c.Operator(&kopf.Registry{}, as("boss"), all, func(op *kopf.Operator) { op.Settings.Peering.Priority = 1 })
		c.paused(first, 1)
		c.Pass(time.Second)
		c.idles(&l, "a")
		if got := c.Of("kopf.dev/v1", "ClusterKopfPeering").seats("default"); !slices.Equal(got, []string{"all", "boss"}) {
			c.Errorf("got the records %q", got)
		}
		if got := c.Of("kopf.dev/v1", "KopfPeering").seats("default"); !slices.Equal(got, []string{"inside"}) {
			c.Errorf("got the records %q", got)
		}
		second.Stop()
		c.expect(&l, "a")
	})
}
