// Command 25-database migrates a database before it becomes reachable. On deletion, it removes the backups, which are outside of the cluster.
package main

import (
	"context"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	register(kopf.DefaultRegistry())
	kopf.Main()
}

func register(g *kopf.Registry) {
	g.OnReconcile("kopfexamples", reconcile, &kopf.ReconcileOptions{
		Owns:       []kopf.Selector{"statefulsets.apps", "jobs.batch", "services", "secrets"},
		Conditions: true,
		Resync:     time.Hour, // backups are outside of the cluster and send no events
	})
	g.OnDelete("kopfexamples", cleanUp, nil)
}

func reconcile(ctx context.Context, r *kopf.Reconcile) error {
	password := r.Desired(secret(), &kopf.DesiredOptions{Create: generate})
	store := r.Desired(statefulSet(r), &kopf.DesiredOptions{After: []*kopf.Child{password}})
	migration := r.Desired(job(r), &kopf.DesiredOptions{After: []*kopf.Child{store}, Recreate: true})
	r.Desired(service(r), &kopf.DesiredOptions{After: []*kopf.Child{migration}})
	r.SetCondition(kopf.Condition{Type: "Migrated", Status: kopf.ConditionOf(migration.Ready()), Reason: "Job", Message: migration.Reason()})
	count, err := backups.count(ctx, r.UID())
	r.Patch.Set("status.backups", count)
	return err
}

func cleanUp(ctx context.Context, c *kopf.Change) error { return backups.remove(ctx, c.UID()) }
