package kopf_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// TestClientOfRedefinedKinds checks that the client finds a redefined kind, with another scope or plural.
func TestClientOfRedefinedKinds(t *testing.T) {
	definition := func(scope, plural string) map[string]any {
		return map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + ".example.com"},
			"spec": map[string]any{
				"group": "example.com", "scope": scope, "names": map[string]any{"plural": plural, "kind": "Gadget", "singular": "gadget", "listKind": "GadgetList"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
			},
		}
	}
	for name, tt := range map[string]struct {
		second    map[string]any
		namespace string
	}{
		"another scope":  {definition("Namespaced", "gadgets"), "default"},
		"another plural": {definition("Cluster", "gadgetses"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := kopf.NewClient(kopf.NewAPIServer(nil).ConnectionInfo(), nil)
				if err != nil {
					t.Fatal(err)
				}
				create := func(object map[string]any) {
					t.Helper()
					if err := client.Create(t.Context(), object, nil); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
				}
				gadget := func(namespace string) map[string]any {
					return map[string]any{"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": "a", "namespace": namespace}}
				}
				first := definition("Cluster", "gadgets")
				create(first)
				create(gadget(""))
				if err := client.Delete(t.Context(), first, nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if err := client.Get(t.Context(), gadget(""), &kopf.Body{}, nil); kopf.StatusCode(err) != 404 {
					t.Errorf("got %v without the definition, want the code 404", err)
				}
				create(tt.second)
				create(gadget(tt.namespace))
				if err := client.Get(t.Context(), gadget(tt.namespace), &kopf.Body{}, nil); err != nil {
					t.Error(err)
				}
				if err := client.Delete(t.Context(), gadget(tt.namespace), nil); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
