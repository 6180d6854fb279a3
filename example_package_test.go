package kopf_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/kopf-go/kopf"
)

// manifests has the definition of the kind Website.
const manifests = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: websites.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Website, plural: websites}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// publish handles new websites.
func publish(ctx context.Context, c *kopf.Change) error {
	fmt.Println("publishing", c.Name(), "with", c.Spec().Int("replicas"), "replicas")
	c.Patch.Set("status.phase", "Published") // kopf sends the patch when the handler returns
	return nil
}

// resize handles changes of the field spec.replicas.
func resize(ctx context.Context, c *kopf.Change) error {
	fmt.Println("resizing", c.Name(), "from", c.Old.Int(""), "to", c.New.Int(""))
	c.Patch.Set("status.phase", "Resized")
	return nil
}

// remove handles deletions. The finalizer of kopf blocks the deletion until remove has succeeded.
func remove(ctx context.Context, c *kopf.Change) error {
	fmt.Println("removing", c.Name(), "in the phase", c.Status().String("phase"))
	return nil
}

// A program for a cluster registers its handlers in main, and then calls [kopf.Main]. This example runs the operator on an embedded API server instead,
// which needs no cluster, and acts as a user of it.
func Example() {
	kopf.SetDefaultRegistry(new(kopf.Registry)) // without handlers of other examples
	kopf.OnCreate("websites", publish, nil)
	kopf.OnUpdate("websites", resize, &kopf.ChangeOptions{Field: "spec.replicas", Retries: 3})
	kopf.OnDelete("websites", remove, nil)

	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(manifests)); err != nil {
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
	website := map[string]any{
		"apiVersion": "example.com/v1",
		"kind":       "Website",
		"metadata":   map[string]any{"namespace": "default", "name": "shop"},
		"spec":       map[string]any{"replicas": 1},
	}
	inPhase := func(phase string) func(*kopf.Body) bool {
		return func(b *kopf.Body) bool { return b != nil && b.Status().String("phase") == phase }
	}
	if err := client.Create(ctx, website, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := kopf.WaitFor(ctx, client, website, "to be published", inPhase("Published")); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Patch(ctx, website, map[string]any{"spec": map[string]any{"replicas": 3}}, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := kopf.WaitFor(ctx, client, website, "to be resized", inPhase("Resized")); err != nil {
		log.Fatal(err)
	}
	if err := client.Delete(ctx, website, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := kopf.WaitFor(ctx, client, website, "to be gone", func(b *kopf.Body) bool { return b == nil }); err != nil {
		log.Fatal(err)
	}

	cancel() // the operator shuts down
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// publishing shop with 1 replicas
	// resizing shop from 1 to 3
	// removing shop in the phase Resized
}
