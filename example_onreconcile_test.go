package kopf_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/kopf-go/kopf"
)

// menuManifests has the definition of the kind Menu, and one object of it.
const menuManifests = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: menus.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Menu, plural: menus}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: example.com/v1
kind: Menu
metadata: {namespace: default, name: lunch}
spec: {dishes: [soup, salad]}
`

// reconcileMenu declares the children of a menu: one config map for each dish. kopf applies what differs, deletes other children, and calls the handler again
// when the menu or a child changes.
func reconcileMenu(ctx context.Context, r *kopf.Reconcile) error {
	dishes := r.Spec().Strings("dishes")
	for _, dish := range dishes {
		r.Desired(map[string]any{
			"apiVersion": "v1",
			"kind":       "ConfigMap",
			"metadata":   map[string]any{"name": r.Name() + "-" + dish},
			"data":       map[string]any{"dish": dish},
		}, nil)
	}
	r.Patch.Set("status.dishes", len(dishes))
	return nil
}

func ExampleOnReconcile() {
	kopf.SetDefaultRegistry(new(kopf.Registry)) // without handlers of other examples
	kopf.OnReconcile("menus", reconcileMenu, &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps"}})

	// A program for a cluster calls kopf.Main here. This one runs on an embedded API server.
	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(menuManifests)); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error)
	go func() {
		operator := &kopf.Operator{Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}
		ended <- operator.Run(ctx)
	}()

	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"lunch-soup", "lunch-salad"} {
		child := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}
		made, err := kopf.WaitFor(ctx, client, child, "to be there", func(b *kopf.Body) bool { return b != nil })
		if err != nil {
			log.Fatal(err)
		}
		owner := made.Metadata().Views("ownerReferences")[0]
		fmt.Println(made.Name(), "belongs to", owner.String("kind"), owner.String("name"))
	}

	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// lunch-soup belongs to Menu lunch
	// lunch-salad belongs to Menu lunch
}
