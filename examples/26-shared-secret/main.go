// Command 26-shared-secret copies a Secret to all namespaces of a team, and follows all changes of the Secret, the copies and the team.
package main

import (
	"context"

	"github.com/kopf-go/kopf"
)

type m = map[string]any

var shares, namespaces *kopf.Index[string, kopf.ObjectReference]

func main() {
	register(kopf.DefaultRegistry())
	kopf.NeedsNamed("customresourcedefinitions.apiextensions.k8s.io", "kopfexamples.kopf.dev", "get", "patch") // for children in other namespaces
	kopf.Main()
}

func register(g *kopf.Registry) {
	shares = kopf.OnIndexIn(g, "kopfexamples", func(_ context.Context, i *kopf.Indexing) (map[string]kopf.ObjectReference, error) {
		return map[string]kopf.ObjectReference{i.Namespace() + "/" + i.Spec().String("secret"): i.Body.Reference()}, nil
	}, &kopf.IndexOptions{ID: "by-secret"})
	namespaces = kopf.OnIndexIn(g, "namespaces", func(_ context.Context, i *kopf.Indexing) (map[string]kopf.ObjectReference, error) {
		return map[string]kopf.ObjectReference{i.Labels()["team"]: i.Body.Reference()}, nil
	}, &kopf.IndexOptions{ID: "by-team"})
	g.OnReconcile("kopfexamples", share, &kopf.ReconcileOptions{Owns: []kopf.Selector{"secrets"}, Watches: []kopf.Watch{
		{Of: "secrets", Objects: func(w *kopf.Watched) []kopf.ObjectReference { return shares.Get(w, w.Namespace()+"/"+w.Name()) }},
		{Of: "namespaces"}, // their changes trigger the handler for all objects
	}})
}

func share(ctx context.Context, r *kopf.Reconcile) error {
	var secret struct{ Type, Data any }
	err := r.Client.Get(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: r.Namespace(), Name: r.Spec().String("secret")}, &secret, nil)
	team := namespaces.Get(r, r.Spec().String("team"))
	if len(team) == 0 {
		r.NoChildren()
	}
	for _, namespace := range team {
		r.Desired(m{"apiVersion": "v1", "kind": "Secret", "metadata": m{"namespace": namespace.Name}, "type": secret.Type, "data": secret.Data}, nil)
	}
	return err // kopf applies nothing until the Secret exists
}
