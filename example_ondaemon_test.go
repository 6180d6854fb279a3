package kopf_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/kopf-go/kopf"
)

// tunnelManifests has the definition of the kind Tunnel, and one object of it.
const tunnelManifests = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tunnels.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Tunnel, plural: tunnels}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: example.com/v1
kind: Tunnel
metadata: {namespace: default, name: office}
`

// keepTunnel runs for each tunnel as long as the object exists and the operator runs. kopf waits for it before the object is gone.
func keepTunnel(ctx context.Context, d *kopf.Daemon) error {
	fmt.Println("opening the tunnel", d.Name())
	// Deferred, because the object can be deleted at any time. A deletion cancels the context, and with it the request below.
	defer func() { fmt.Println("closing it, because of", d.StopReason()) }()
	open := map[string]any{"status": map[string]any{"phase": "Open"}}
	if _, err := d.Client.Patch(ctx, d.Body.Reference(), open, nil); err != nil {
		return err // kopf starts the daemon again
	}
	for d.Sleep(time.Second) { // until kopf stops the daemon
		d.Logger.Debug("Checking the tunnel")
	}
	return nil
}

func ExampleOnDaemon() {
	kopf.SetDefaultRegistry(new(kopf.Registry)) // without handlers of other examples
	kopf.OnDaemon("tunnels", keepTunnel, nil)

	// A program for a cluster calls kopf.Main here. This one runs on an embedded API server.
	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(tunnelManifests)); err != nil {
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
	tunnel := kopf.ObjectReference{APIVersion: "example.com/v1", Kind: "Tunnel", Namespace: "default", Name: "office"}
	// The daemon can be faster than the finalizer, without which the object would be gone before kopf sees its deletion.
	open := func(b *kopf.Body) bool { return b.Status().String("phase") == "Open" && len(b.Finalizers()) > 0 }
	if _, err := kopf.WaitFor(ctx, client, tunnel, "to be open", open); err != nil {
		log.Fatal(err)
	}
	if err := client.Delete(ctx, tunnel, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := kopf.WaitFor(ctx, client, tunnel, "to be gone", func(b *kopf.Body) bool { return b == nil }); err != nil {
		log.Fatal(err)
	}

	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// opening the tunnel office
	// closing it, because of ResourceDeleted
}
