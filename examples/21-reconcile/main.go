// Command 21-reconcile makes the children what they should be, whatever has become of them: those that are declared are applied, and others are deleted. While
// nothing differs, it makes no request.
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

// reconcile does not know what has happened, and needs no handler of it.
func reconcile(ctx context.Context, r *kopf.Reconcile) error {
	for _, item := range r.Spec().Strings("items") {
		r.Desired(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": r.Name() + "-" + item},
			"data":     map[string]any{"item": item},
		}, nil)
	}
	return nil
}
