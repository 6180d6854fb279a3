package main

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kopf.NewAPIServer(nil)
		definition, err := os.ReadFile("../crd.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Apply(definition); err != nil {
			t.Fatal(err)
		}
		registry := new(kopf.Registry)
		register(registry)
		kopf.NewRunner(t, &kopf.Operator{Registry: registry, Connection: server.ConnectionInfo()}, nil)
		client, err := kopf.NewClient(server.ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		example := kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Namespace: "default", Name: "example"}
		object := m{
			"apiVersion": example.APIVersion, "kind": example.Kind,
			"metadata": m{"namespace": example.Namespace, "name": example.Name}, "spec": m{"size": 3},
		}
		if err := client.Create(t.Context(), object, nil); err != nil {
			t.Fatal(err)
		}
		jobs := func() (names []string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			for job, err := range client.List(t.Context(), kopf.ObjectReference{APIVersion: "batch/v1", Kind: "Job"}, nil) {
				if err != nil {
					t.Fatal(err)
				}
				if job.View("metadata").String("deletionTimestamp") == "" {
					names = append(names, job.Name())
				}
			}
			return names
		}
		first := jobs()
		if len(first) != 3 {
			t.Fatalf("got the Jobs %v, want 3", first)
		}
		lost := kopf.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "default", Name: first[0]}
		if err := client.Delete(t.Context(), lost, nil); err != nil {
			t.Fatal(err)
		}
		if again := jobs(); len(again) != 3 {
			t.Errorf("got the Jobs %v, want one instead of the lost one", again)
		}
		if _, err := client.Patch(t.Context(), example, m{"spec": m{"size": 1}}, nil); err != nil {
			t.Fatal(err)
		}
		if left := jobs(); len(left) != 1 {
			t.Errorf("got the Jobs %v, want 1", left)
		}
	})
}
