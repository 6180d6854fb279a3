package main

import (
	"context"
	"crypto/rand"
	"sync"

	"github.com/kopf-go/kopf"
)

type m = map[string]any

func labels(r *kopf.Reconcile) m { return m{"database": r.Name()} }

func statefulSet(r *kopf.Reconcile) m {
	return m{"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": m{
		"serviceName": r.Name(), "selector": m{"matchLabels": labels(r)},
		"template": m{"metadata": m{"labels": labels(r)}, "spec": m{"containers": []m{{
			"name": "database", "image": "postgres:" + r.Spec().String("version"),
			"envFrom": []m{{"secretRef": m{"name": r.Name()}}},
		}}}},
	}}
}

func secret() m { return m{"apiVersion": "v1", "kind": "Secret"} }

// generate returns a password. kopf calls it only if the Secret is missing, and never changes the Secret.
func generate(context.Context) (any, error) {
	return m{"stringData": m{"POSTGRES_PASSWORD": rand.Text()}}, nil
}

// job migrates to the version. Its template is immutable, so another version requires another Job.
func job(r *kopf.Reconcile) m {
	return m{"apiVersion": "batch/v1", "kind": "Job", "spec": m{"template": m{"spec": m{
		"restartPolicy": "Never", "containers": []m{{"name": "migrate", "image": "migrations:" + r.Spec().String("version")}},
	}}}}
}

func service(r *kopf.Reconcile) m {
	return m{"apiVersion": "v1", "kind": "Service", "spec": m{"selector": labels(r), "ports": []m{{"port": 5432}}}}
}

// backups replaces a store outside of the cluster.
var backups store

type store struct {
	mu     sync.Mutex // guards following
	counts map[string]int
}

func (s *store) count(_ context.Context, uid string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = make(map[string]int)
	}
	s.counts[uid] = max(s.counts[uid], 1)
	return s.counts[uid], nil
}

func (s *store) remove(_ context.Context, uid string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.counts, uid)
	return nil
}
