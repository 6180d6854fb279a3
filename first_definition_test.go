package kopf_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// TestFirstDefinition runs an operator on a server without resource definitions, as a new cluster is. Then the definition comes, and goes, and comes again.
func TestFirstDefinition(t *testing.T) {
	definition := []byte(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.example.com"},
		"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`)
	gadget := []byte(`{"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a", "namespace": "default"}}`)
	synctest.Test(t, func(t *testing.T) {
		server := kopf.NewAPIServer(nil)
		client, err := kopf.NewClient(server.ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var calls atomic.Int64
		r := &kopf.Registry{}
		r.OnCreate("gadgets", func(context.Context, *kopf.Change) error { calls.Add(1); return nil }, &kopf.ChangeOptions{ID: "create"})
		operator := &kopf.Operator{Registry: r, Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- operator.Run(ctx) }()
		for round := 1; round <= 2; round++ {
			time.Sleep(time.Minute)
			if err := server.Apply(definition); err != nil {
				t.Fatal(err)
			}
			if err := server.Apply(gadget); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if got := calls.Load(); got != int64(round) {
				t.Errorf("round %d: got %d calls", round, got)
			}
			if err := client.Delete(t.Context(), kopf.ObjectReference{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "gadgets.example.com"}, nil); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
