// Command 06-peering shows operators that pause for each other. Start it twice, with different priorities:
//
//	kubectl apply -f examples/crd.yaml -f examples/peering.yaml
//	kubectl wait --for=condition=Established -f examples/crd.yaml -f examples/peering.yaml
//	kubectl apply -f examples/peering-objects.yaml
//	go run ./examples/06-peering run --priority 1 # pauses for the other one.
//	go run ./examples/06-peering run --priority 2
//
// To pause both of them, and to resume them:
//
//	go run ./examples/06-peering freeze --peering default --lifetime 10m
//	go run ./examples/06-peering resume --peering default
package main

import (
	"context"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnStartup(configure, nil)
	kopf.OnCreate("kopfexamples", create, nil)
	kopf.OnDaemon("kopfexamples", guard, nil)
	kopf.Main()
}

func configure(ctx context.Context, a *kopf.Activity) error {
	p := &a.Settings.Peering
	a.Logger.Info("This operator has peers.", "peering", p.Name, "priority", p.Priority, "standalone", p.Standalone)
	return nil
}

func create(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("Of all operators, this one handles the object.")
	return nil
}

// guard is stopped while the operator pauses.
func guard(ctx context.Context, d *kopf.Daemon) error {
	d.Logger.Info("The guard begins.")
	<-ctx.Done()
	d.Logger.Info("The guard ends.", "reason", d.StopReason())
	return nil
}
