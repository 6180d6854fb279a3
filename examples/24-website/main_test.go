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

// ready returns the status of the condition Ready of the example.
func (l *lab) ready() string {
	l.t.Helper()
	conditions, _ := l.get(example).Get("status.conditions").([]any)
	for _, one := range conditions {
		if c := one.(map[string]any); c["type"] == "Ready" {
			return c["status"].(string)
		}
	}
	return ""
}

func TestWebsite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.create(map[string]any{"html": "hello"})
		page, web, service := ref("v1", "ConfigMap", "example"), ref("apps/v1", "Deployment", "example"), ref("v1", "Service", "example")
		for _, child := range []kopf.ObjectReference{page, web, service} {
			if l.get(child) == nil {
				t.Fatalf("there is no %s", child.Kind)
			}
		}
		if got := l.ready(); got != "False" {
			t.Errorf("got Ready %q before there are pods, want False", got)
		}
		l.patch(web, "status", map[string]any{"status": map[string]any{ // like the controller of Deployments
			"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
			"conditions": []any{
				map[string]any{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "x"},
				map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "x"},
			},
		}})
		if got := l.ready(); got != "True" {
			t.Errorf("got Ready %q, want True", got)
		}
		l.patch(example, "", map[string]any{"spec": map[string]any{"html": "good bye"}})
		if got := l.get(page).View("data").String("index\\.html"); got != "good bye" {
			t.Errorf("got the page %q", got)
		}
		l.patch(web, "", map[string]any{"spec": map[string]any{"replicas": 3}}) // the field is not declared; an autoscaler changes it in this way
		if got := l.get(web).Spec().Int("replicas"); got != 3 {
			t.Errorf("got %d replicas, want those of the autoscaler", got)
		}
		before := len(l.server.Requests())
		time.Sleep(time.Hour)
		for _, q := range l.server.Requests()[before:] {
			if q.Verb != "watch" {
				t.Errorf("got the request %s %s at rest", q.Verb, q.Path)
			}
		}
	})
}
