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

func TestDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.create(map[string]any{"version": "16"})
		database, migration, service := ref("apps/v1", "StatefulSet", "example"), ref("batch/v1", "Job", "example"), ref("v1", "Service", "example")
		running := map[string]any{"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "currentReplicas": 1, "updatedReplicas": 1, "currentRevision": "x", "updateRevision": "x"}
		if l.get(database) == nil || l.get(migration) != nil {
			t.Fatal("want the database, and no migration before it runs")
		}
		secret := ref("v1", "Secret", "example")
		password := l.get(secret).View("data").String("POSTGRES_PASSWORD")
		l.patch(database, "status", map[string]any{"status": running})
		first := l.get(migration)
		if first == nil || l.get(service) != nil {
			t.Fatal("want the migration, and no service before it has ended")
		}
		l.patch(migration, "status", map[string]any{"status": complete()})
		if l.get(service) == nil || l.ready() != "True" {
			t.Fatalf("want the service, and Ready True, not %q", l.ready())
		}
		l.patch(example, "", map[string]any{"spec": map[string]any{"version": "17"}})
		running["observedGeneration"] = 2
		l.patch(database, "status", map[string]any{"status": running})
		second := l.get(migration)
		if second == nil || second.UID() == first.UID() || l.ready() != "False" {
			t.Fatal("want another migration for another version")
		}
		if again := l.get(secret).View("data").String("POSTGRES_PASSWORD"); password == "" || again != password {
			t.Errorf("got the password %q, and later %q, want one that stays", password, again)
		}
		if err := l.client.Delete(t.Context(), secret, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if again := l.get(secret).View("data").String("POSTGRES_PASSWORD"); again == "" || again == password {
			t.Errorf("got the password %q of a lost Secret, want another one than %q", again, password)
		}
		uid := l.get(example).UID()
		if err := l.client.Delete(t.Context(), example, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		backups.mu.Lock()
		_, left := backups.counts[uid]
		backups.mu.Unlock()
		if left || l.get(example) != nil || l.get(database) != nil {
			t.Error("something has outlived the database")
		}
	})
}

// complete returns the status of a Job that has succeeded.
func complete() map[string]any {
	now := time.Now().UTC().Format(time.RFC3339)
	condition := func(name string) map[string]any {
		return map[string]any{"type": name, "status": "True", "lastTransitionTime": now, "lastProbeTime": now, "reason": "x", "message": "x"}
	}
	return map[string]any{"succeeded": 1, "startTime": now, "completionTime": now, "conditions": []any{condition("SuccessCriteriaMet"), condition("Complete")}, "uncountedTerminatedPods": map[string]any{}}
}
