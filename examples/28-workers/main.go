// Command 28-workers runs as many Jobs as each object wants, with names that the API server generates. It knows its Jobs from memory, also those that it
// has just created.
package main

import (
	"context"

	"github.com/kopf-go/kopf"
)

type m = map[string]any

func main() {
	register(kopf.DefaultRegistry())
	kopf.Main()
}

func register(g *kopf.Registry) {
	g.OnReconcile("kopfexamples", reconcile, &kopf.ReconcileOptions{Owns: []kopf.Selector{"jobs.batch"}})
}

// reconcile creates the Jobs with the client, because Desired needs a name for each child.
func reconcile(ctx context.Context, r *kopf.Reconcile) error {
	jobs := r.Children("jobs.batch")
	wanted, done := int(r.Spec().Int("size")), 0
	for i, job := range jobs {
		if i >= wanted {
			err := r.Client.Delete(ctx, job.Reference(), &kopf.DeleteOptions{Propagation: "Background"}) // with its pods
			if kopf.IgnoreNotFound(err) != nil {
				return err
			}
		} else if job.Ready() { // a Job is ready when it is complete
			done++
		}
	}
	for range wanted - len(jobs) {
		if err := start(ctx, r); err != nil {
			return err // the next call sees the Jobs that this one has created
		}
	}
	r.Patch.Set("status.done", done)
	return nil
}

func start(ctx context.Context, r *kopf.Reconcile) error {
	job := m{"apiVersion": "batch/v1", "kind": "Job", "metadata": m{"generateName": r.Name() + "-"}, "spec": m{"template": m{"spec": m{
		"restartPolicy": "Never", "containers": []m{{"name": "worker", "image": "worker:1"}},
	}}}}
	if err := r.Adopt(job, nil); err != nil {
		return err
	}
	return r.Client.Create(ctx, job, nil)
}
