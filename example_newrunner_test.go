package kopf_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// orderManifests has the definition of the kind Order.
const orderManifests = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: orders.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Order, plural: orders}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// deliver is the handler to test. It needs seven attempts, which take an hour.
func deliver(ctx context.Context, c *kopf.Change) error {
	if c.Runtime < time.Hour {
		return kopf.Temporary(errors.New("not delivered yet"), 10*time.Minute)
	}
	c.Patch.Set("status.attempts", c.Retry+1)
	return nil
}

// deliveryTest is a test. In your package, name it TestDelivery, so that go test finds it. In the bubble of testing/synctest, the hour passes in milliseconds.
func deliveryTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kopf.NewAPIServer(nil)
		if err := server.Apply([]byte(orderManifests)); err != nil {
			t.Fatal(err)
		}
		registry := new(kopf.Registry)
		registry.OnCreate("orders", deliver, nil)
		runner := kopf.NewRunner(t, &kopf.Operator{Registry: registry, Connection: server.ConnectionInfo()}, nil)

		client, err := kopf.NewClient(server.ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		order := map[string]any{"apiVersion": "example.com/v1", "kind": "Order", "metadata": map[string]any{"namespace": "default", "name": "a"}}
		if err := client.Create(t.Context(), order, nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(runner.Context(), 2*time.Hour)
		defer cancel()
		delivered, err := kopf.WaitFor(ctx, client, order, "to be delivered", func(b *kopf.Body) bool { return b.Status().Has("attempts") })
		if err != nil {
			t.Fatal(err)
		}
		if n := delivered.Status().Int("attempts"); n != 7 {
			t.Errorf("got %d attempts, want 7", n)
		}
	}) // the operator stops at the end of the test
}

func ExampleNewRunner() {
	_ = deliveryTest // go test runs it
}
