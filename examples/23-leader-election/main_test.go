package main

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

var ref = kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Namespace: "default", Name: "example"}

// lab is an in-memory API server for several replicas, and a client.
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
	return &lab{t, server, client}
}

// start starts a replica with its own handlers.
func (l *lab) start(name string) *kopf.Runner {
	l.t.Helper()
	registry := new(kopf.Registry)
	register(registry, &replica{name})
	return kopf.NewRunner(l.t, &kopf.Operator{Registry: registry, Connection: l.server.ConnectionInfo()}, nil)
}

func (l *lab) create() {
	l.t.Helper()
	object := map[string]any{"apiVersion": ref.APIVersion, "kind": ref.Kind, "metadata": map[string]any{"namespace": ref.Namespace, "name": ref.Name}}
	if err := l.client.Create(l.t.Context(), object, nil); err != nil {
		l.t.Fatal(err)
	}
}

// counts waits until a replica counts, and returns the resulting object.
func (l *lab) counts(name string) *kopf.Body {
	l.t.Helper()
	object, err := kopf.WaitFor(l.t.Context(), l.client, ref, "to be counted by "+name, func(object *kopf.Body) bool {
		return object != nil && object.Status().String("countedBy") == name
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return object
}

func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		first := l.start("first")
		l.create()
		l.counts("first") // after a LeaseDuration, because there was no Lease
		l.start("second")
		time.Sleep(time.Minute + time.Second/2) // in the bubble, it takes no time
		before := l.counts("first").Status().Int("count")
		if before < 50 {
			t.Errorf("got the count %d after a minute, want one a second", before)
		}
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
		stopped := time.Now()
		object := l.counts("second")
		if passed := time.Since(stopped); passed > 3*time.Second {
			t.Errorf("the second replica works after %s, want at most 3s", passed)
		}
		status := object.Status()
		if got := status.Int("count"); got != before+1 {
			t.Errorf("got the count %d, want %d: the second replica goes on where the first one was", got, before+1)
		}
		if by := status.String("createdBy"); by != "first" {
			t.Errorf("the object was created by the %s replica, want the first: what is done is not done again", by)
		}
	})
}

// TestIntruder has a user take the Lease from the leader.
func TestIntruder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.create()
		l.start("only")
		l.counts("only")
		lease := kopf.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: "default", Name: "kopf-example"}
		patch := map[string]any{"spec": map[string]any{"holderIdentity": "a person", "leaseDurationSeconds": 60}}
		if _, err := l.client.Patch(t.Context(), lease, patch, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		before := l.counts("only").Status().Int("count")
		time.Sleep(50 * time.Second)
		if now := l.counts("only").Status().Int("count"); now != before {
			t.Errorf("it has counted from %d to %d without the Lease", before, now)
		}
		time.Sleep(15 * time.Second) // the Lease of the user has expired
		if now := l.counts("only").Status().Int("count"); now <= before {
			t.Errorf("it does not count any more: %d, then %d", before, now)
		}
	})
}
