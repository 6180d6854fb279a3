package kopf_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/kopf-go/kopf"
)

// cacheManifests has the definition of the kind Cache.
const cacheManifests = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: caches.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Cache, plural: caches}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// checkSize is called before the API server stores a cache. Its error goes to the client, and the cache is not stored then.
func checkSize(ctx context.Context, a *kopf.Admission) error {
	if size := a.Spec().Int("size"); size > 100 {
		return kopf.Deny(fmt.Sprintf("spec.size is %d, and at most 100", size), 422)
	}
	return nil
}

func ExampleOnValidate() {
	kopf.SetDefaultRegistry(new(kopf.Registry)) // without handlers of other examples
	kopf.OnValidate("caches", checkSize, nil)

	// A program for a cluster sets Server to a *kopf.WebhookServer in a start-up handler, and calls kopf.Main. This one runs on an embedded API server.
	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(cacheManifests)); err != nil {
		log.Fatal(err)
	}
	settings := kopf.NewSettings()
	settings.Admission = kopf.AdmissionSettings{Server: server.AdmissionServer(), Managed: "caches.example.com"}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error)
	go func() {
		operator := &kopf.Operator{Settings: settings, Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}
		ended <- operator.Run(ctx)
	}()

	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	webhooks := kopf.ObjectReference{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration", Name: "caches.example.com"}
	configured := func(b *kopf.Body) bool { return b != nil && b.Has("webhooks") }
	if _, err := kopf.WaitFor(ctx, client, webhooks, "to be there", configured); err != nil {
		log.Fatal(err)
	}
	for _, size := range []int{1000, 10} {
		cache := map[string]any{
			"apiVersion": "example.com/v1",
			"kind":       "Cache",
			"metadata":   map[string]any{"namespace": "default", "name": "sessions"},
			"spec":       map[string]any{"size": size},
		}
		fmt.Println(size, kopf.StatusCode(client.Create(ctx, cache, nil))) // 0 means success
	}

	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1000 422
	// 10 0
}
