package main

import (
	"maps"
	"os"
	"slices"
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

func ref(apiVersion, kind, namespace, name string) kopf.ObjectReference {
	return kopf.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
}

var (
	example = ref("kopf.dev/v1", "KopfExample", "default", "example")
	source  = ref("v1", "Secret", "default", "password")
)

// create creates an object.
func (l *lab) create(object map[string]any) { // in a bubble
	l.t.Helper()
	if err := l.client.Create(l.t.Context(), object, nil); err != nil {
		l.t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
}

// patch changes an object.
func (l *lab) patch(of kopf.ObjectReference, patch map[string]any) { // in a bubble
	l.t.Helper()
	if _, err := l.client.Patch(l.t.Context(), of, patch, nil); err != nil {
		l.t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
}

// remove deletes an object.
func (l *lab) remove(of kopf.ObjectReference) { // in a bubble
	l.t.Helper()
	if err := l.client.Delete(l.t.Context(), of, nil); err != nil {
		l.t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
}

// namespace creates a namespace of a team.
func (l *lab) namespace(name, team string) {
	l.t.Helper()
	l.create(m{"apiVersion": "v1", "kind": "Namespace", "metadata": m{"name": name, "labels": m{"team": team}}})
}

// wants checks the namespaces with copies, and their content.
func (l *lab) wants(value string, namespaces ...string) {
	l.t.Helper()
	copies := make(map[string]string)
	for secret, err := range l.client.List(l.t.Context(), ref("v1", "Secret", "", ""), nil) {
		if err != nil {
			l.t.Fatal(err)
		}
		if secret.Name() == "example" {
			copies[secret.Namespace()] = secret.View("data").String("value")
		}
	}
	want := make(map[string]string)
	for _, namespace := range namespaces {
		want[namespace] = value
	}
	if !maps.Equal(copies, want) {
		l.t.Errorf("got the copies %v, want them in %v with %q", copies, slices.Sorted(maps.Keys(want)), value)
	}
}

func TestSharedSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.namespace("red-1", "red")
		l.namespace("red-2", "red")
		l.namespace("blue-1", "blue")
		l.create(m{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": m{"namespace": "default", "name": "example"}, "spec": m{"secret": "password", "team": "red"}})
		l.wants("")
		l.create(m{"apiVersion": "v1", "kind": "Secret", "metadata": m{"namespace": "default", "name": "password"}, "data": m{"value": "b25l"}})
		l.wants("b25l", "red-1", "red-2")
		l.patch(source, m{"data": m{"value": "dHdv"}})
		l.wants("dHdv", "red-1", "red-2")
		l.namespace("red-3", "red")
		l.wants("dHdv", "red-1", "red-2", "red-3")
		l.patch(ref("v1", "Namespace", "", "red-1"), m{"metadata": m{"labels": m{"team": "blue"}}})
		l.wants("dHdv", "red-2", "red-3")
		l.patch(ref("v1", "Secret", "red-2", "example"), m{"data": m{"value": "dGhyZWU="}}) // by another client
		l.remove(ref("v1", "Secret", "red-3", "example"))
		l.wants("dHdv", "red-2", "red-3")
		l.patch(example, m{"spec": m{"team": "blue"}})
		l.wants("dHdv", "blue-1", "red-1")
		before := len(l.server.Requests())
		time.Sleep(time.Hour)
		for _, q := range l.server.Requests()[before:] {
			if q.Verb != "watch" {
				t.Errorf("got the request %s %s at rest", q.Verb, q.Path)
			}
		}
		l.remove(example)
		l.wants("")
		if err := l.client.Get(t.Context(), example, new(kopf.Body), nil); kopf.StatusCode(err) != 404 {
			t.Errorf("the object has outlived its copies: %v", err)
		}
	})
}
