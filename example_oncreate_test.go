package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/kopf-go/kopf"
)

// databaseManifests has the definition of the kind Database, and one object of it.
const databaseManifests = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: databases.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Database, plural: databases}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: example.com/v1
kind: Database
metadata: {namespace: default, name: orders}
spec: {size: 10}
`

// createDatabase handles new databases. kopf calls it again after a temporary error, and no more after a permanent one.
func createDatabase(ctx context.Context, c *kopf.Change) error {
	size := c.Spec().Int("size")
	if size <= 0 {
		return kopf.Permanent(errors.New("spec.size must be positive"))
	}
	fmt.Println("attempt", c.Retry, "to create", c.Name(), "of the size", size)
	if c.Retry == 0 {
		return kopf.Temporary(errors.New("the storage is not ready"), 10*time.Millisecond)
	}
	c.Patch.Set("status.phase", "Ready")
	c.SetResult(map[string]any{"url": "postgres://" + c.Name()}) // in status.createDatabase
	return nil
}

func ExampleOnCreate() {
	kopf.SetDefaultRegistry(new(kopf.Registry)) // without handlers of other examples
	kopf.OnCreate("databases", createDatabase, &kopf.ChangeOptions{Timeout: time.Hour})

	// A program for a cluster calls kopf.Main here. This one runs on an embedded API server.
	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(databaseManifests)); err != nil {
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
	database := kopf.ObjectReference{APIVersion: "example.com/v1", Kind: "Database", Namespace: "default", Name: "orders"}
	ready := func(b *kopf.Body) bool { return b.Status().String("phase") == "Ready" }
	stored, err := kopf.WaitFor(ctx, client, database, "to be ready", ready)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("its URL is", stored.Status().String("createDatabase.url"))

	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// attempt 0 to create orders of the size 10
	// attempt 1 to create orders of the size 10
	// its URL is postgres://orders
}
