package main

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// lab is an in-memory API server with an operator, and a client.
type lab struct {
	t      *testing.T
	server *kopf.APIServer
	client *kopf.Client
}

func newLab(t *testing.T) *lab {
	t.Helper()
	server := kopf.NewAPIServer(nil)
	definition, err := os.ReadFile("../crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Apply(definition); err != nil {
		t.Fatal(err)
	}
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		t.Fatal(err)
	}
	registry := new(kopf.Registry)
	register(registry)
	kopf.NewRunner(t, &kopf.Operator{Registry: registry, Connection: server.ConnectionInfo()}, nil)
	return &lab{t, server, client}
}

func ref(apiVersion, kind, name string) kopf.ObjectReference {
	return kopf.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: "default", Name: name}
}

var example = ref("kopf.dev/v1", "KopfExample", "example")

// create creates the example.
func (l *lab) create(spec map[string]any) { // in a bubble
	l.t.Helper()
	object := map[string]any{"apiVersion": example.APIVersion, "kind": example.Kind, "metadata": map[string]any{"namespace": "default", "name": "example"}, "spec": spec}
	if err := l.client.Create(l.t.Context(), object, nil); err != nil {
		l.t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
}

// patch changes an object.
func (l *lab) patch(of kopf.ObjectReference, subresource string, patch map[string]any) { // in a bubble
	l.t.Helper()
	if _, err := l.client.Patch(l.t.Context(), of, patch, &kopf.PatchOptions{Subresource: subresource}); err != nil {
		l.t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
}

// get returns an object, nil if there is none.
func (l *lab) get(of kopf.ObjectReference) *kopf.Body {
	l.t.Helper()
	body := new(kopf.Body)
	err := l.client.Get(l.t.Context(), of, body, nil)
	if kopf.StatusCode(err) == 404 {
		return nil
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return body
}

func TestReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.create(map[string]any{"items": []any{"a", "b"}})
		a, b := ref("v1", "ConfigMap", "example-a"), ref("v1", "ConfigMap", "example-b")
		if l.get(a) == nil || l.get(b) == nil {
			t.Fatal("a child was not made")
		}
		l.patch(a, "", map[string]any{"data": map[string]any{"item": "spoilt"}})
		if got := l.get(a).View("data").String("item"); got != "a" {
			t.Errorf("the child has %q, want what was declared", got)
		}
		if err := l.client.Delete(t.Context(), b, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if l.get(b) == nil {
			t.Error("the child was not made anew")
		}
		l.patch(example, "", map[string]any{"spec": map[string]any{"items": []any{"b"}}})
		if l.get(a) != nil || l.get(b) == nil {
			t.Error("want the one child that is declared")
		}
		before := len(l.server.Requests())
		time.Sleep(time.Hour)
		for _, q := range l.server.Requests()[before:] {
			if q.Verb != "watch" {
				t.Errorf("got the request %s %s while nothing differs", q.Verb, q.Path)
			}
		}
		if err := l.client.Delete(t.Context(), example, nil); err != nil {
			t.Fatal(err)
		}
		if l.get(b) != nil {
			t.Error("the child has outlived its owner")
		}
	})
}
