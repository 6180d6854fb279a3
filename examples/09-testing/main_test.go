package main

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// lab is an operator on an in-memory API server, and a client for tests.
type lab struct {
	t      *testing.T
	client *kopf.Client
	runner *kopf.Runner
}

// newLab starts the operator. In a bubble of testing/synctest, the clock stands still until all goroutines wait.
func newLab(t *testing.T, w *warehouse) *lab {
	t.Helper()
	server := kopf.NewAPIServer(nil)
	definition, err := os.ReadFile("../crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Apply(definition); err != nil {
		t.Fatal(err)
	}
	registry := new(kopf.Registry)
	register(registry, w)
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &lab{t, client, kopf.NewRunner(t, &kopf.Operator{Registry: registry, Connection: server.ConnectionInfo()}, nil)}
}

var ref = kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Namespace: "default", Name: "order"}

func (l *lab) create(field string) {
	l.t.Helper()
	object := map[string]any{
		"apiVersion": ref.APIVersion, "kind": ref.Kind, "metadata": map[string]any{"namespace": ref.Namespace, "name": ref.Name},
		"spec": map[string]any{"field": field},
	}
	if err := l.client.Create(l.t.Context(), object, nil); err != nil {
		l.t.Fatal(err)
	}
}

// wait waits until a condition of the object holds. If that takes too long, the test fails with the description.
func (l *lab) wait(what string, condition func(object *kopf.Body) bool) *kopf.Body {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.runner.Context(), 24*time.Hour) // they take no time
	defer cancel()
	object, err := kopf.WaitFor(ctx, l.client, ref, what, condition)
	if err != nil {
		l.t.Fatal(err)
	}
	return object
}

func TestDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := time.Now().Add(time.Hour)
		l := newLab(t, &warehouse{delivered: func(string) bool { return !time.Now().Before(due) }})
		l.create("bolts")
		object := l.wait("to be delivered", func(object *kopf.Body) bool { return object.Status().Has("order") })
		if result := object.Status().View("order"); result.String("item") != "bolts" || result.Int("attempts") != 7 {
			t.Errorf("got the result %v, want one of seven attempts", result.Map())
		}
		if late := time.Since(due); late < 0 || late > time.Minute {
			t.Errorf("it came %s after the delivery", late)
		}
	})
}

func TestNothingIsOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, new(warehouse))
		l.create("")
		time.Sleep(25 * time.Hour) // there are no more attempts
		if object := l.wait("to be there", func(object *kopf.Body) bool { return object != nil }); object.Status().Len() > 0 {
			t.Errorf("got the status %v", object.Status().Map())
		}
	})
}

func TestCancelledOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, new(warehouse))
		l.create("bolts")
		l.wait("to be held", func(object *kopf.Body) bool { return object != nil && len(object.Finalizers()) > 0 })
		if err := l.client.Delete(t.Context(), ref, nil); err != nil {
			t.Fatal(err)
		}
		l.wait("to be gone", func(object *kopf.Body) bool { return object == nil })
	})
}
