// Command 21-reconcile keeps the children in their desired state, whatever changes them. It applies the declared ones, and deletes others. Without a
// difference, it sends no request.
package main

import (
	"context"

	"github.com/kopf-go/kopf"
)

func main() {
	register(kopf.DefaultRegistry())
	kopf.Main()
}

func register(g *kopf.Registry) {
	g.OnReconcile("kopfexamples", reconcile, &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps"}})
}

// reconcile does not depend on the change that triggers it, and needs no handler for each kind of change.
func reconcile(ctx context.Context, r *kopf.Reconcile) error {
	items := r.Spec().Strings("items")
	if len(items) == 0 {
		r.NoChildren() // kopf deletes the former ones; without this, it would keep them
	}
	for _, item := range items {
		r.Desired(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": r.Name() + "-" + item},
			"data":     map[string]any{"item": item},
		}, nil)
	}
	return nil
}
