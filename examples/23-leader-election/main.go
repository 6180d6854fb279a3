// Command 23-leader-election is an operator with several replicas, one of which leads. Start it twice, on any cluster:
//
//	kubectl apply -f examples/crd.yaml && kubectl wait --for=condition=Established -f examples/crd.yaml
//	kubectl apply -f examples/obj.yaml
//	go run ./examples/23-leader-election run
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	register(kopf.DefaultRegistry(), &replica{name: fmt.Sprintf("process %d", os.Getpid())})
	kopf.Main()
}

type replica struct{ name string }

func register(r *kopf.Registry, a *replica) {
	r.OnStartup(configure, nil)
	r.OnStartedLeading(a.started, nil)
	r.OnStoppedLeading(a.stopped, nil)
	r.OnCreate("kopfexamples", a.create, &kopf.ChangeOptions{ID: "create"})
	r.OnTimer("kopfexamples", a.count, &kopf.TimerOptions{ID: "count", Interval: time.Second})
}

// configure has the effect of --leader-elect=kopf-example, unless the command line sets it.
func configure(ctx context.Context, a *kopf.Activity) error {
	a.Settings.LeaderElection.Name = cmp.Or(a.Settings.LeaderElection.Name, "kopf-example")
	return nil
}

func (r *replica) started(ctx context.Context, a *kopf.Activity) error {
	a.Logger.Info("From now on, this replica works.", "replica", r.name, "fence", a.Fence())
	return nil
}

func (r *replica) stopped(ctx context.Context, a *kopf.Activity) error {
	a.Logger.Info("Another replica may work now.", "replica", r.name)
	return nil
}

func (r *replica) create(ctx context.Context, c *kopf.Change) error {
	c.Patch.Set("status.createdBy", r.name)
	return nil
}

func (r *replica) count(ctx context.Context, t *kopf.Timer) error {
	t.Patch.Set("status.count", t.Status().Int("count")+1)
	t.Patch.Set("status.countedBy", r.name)
	return nil
}
