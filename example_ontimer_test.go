package kopf_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/kopf-go/kopf"
)

// volumeManifests has the definition of the kind Volume, and one object of it.
const volumeManifests = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: volumes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Volume, plural: volumes}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: example.com/v1
kind: Volume
metadata: {namespace: default, name: photos}
spec: {capacity: 3}
`

// backups is in the memory of each volume, as long as the operator runs.
type backups struct{ number int }

// backUp is called for each volume when kopf sees it for the first time, and then once per interval.
func backUp(ctx context.Context, t *kopf.Timer) error {
	memo := kopf.MemoOf[backups](t)
	if int64(memo.number) == t.Spec().Int("capacity") {
		t.Patch.Set("status.phase", "Full") // kopf sends the patch when the function returns
		return nil
	}
	memo.number++
	fmt.Println("backup", memo.number, "of", t.Name())
	return nil
}

func ExampleOnTimer() {
	kopf.SetDefaultRegistry(new(kopf.Registry)) // without handlers of other examples
	kopf.OnTimer("volumes", backUp, &kopf.TimerOptions{Interval: 10 * time.Millisecond})

	// A program for a cluster calls kopf.Main here. This one runs on an embedded API server.
	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(volumeManifests)); err != nil {
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
	volume := kopf.ObjectReference{APIVersion: "example.com/v1", Kind: "Volume", Namespace: "default", Name: "photos"}
	full := func(b *kopf.Body) bool { return b.Status().String("phase") == "Full" }
	if _, err := kopf.WaitFor(ctx, client, volume, "to be full", full); err != nil {
		log.Fatal(err)
	}

	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// backup 1 of photos
	// backup 2 of photos
	// backup 3 of photos
}
