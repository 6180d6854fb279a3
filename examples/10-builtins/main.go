// Command 10-builtins shows that built-in kinds are handled like all others: the label "lifetime" of a pod limits its life. To see it: kubectl run sleeper
// --image=busybox --labels=lifetime=30s -- sleep 3600
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnEvent("pods", see, nil)
	kopf.OnDaemon("pods", limit, &kopf.DaemonOptions{
		Labels:           kopf.Match{"lifetime": kopf.Present},
		WithoutFinalizer: true, // the daemon must not block the deletion of the pod
	})
	kopf.OnCreate("namespaces", welcome, nil)
	kopf.Needs("pods", "delete") // limit uses it by its client
	kopf.Main()
}

// see is called for all events of pods. It stores nothing on them.
func see(ctx context.Context, e *kopf.WatchEvent) error {
	e.Logger.Info("A pod is seen.", "type", e.Type, "phase", e.Status().String("phase"))
	return nil
}

// limit deletes the pod after its lifetime. It ends earlier if the pod is deleted, or loses its label.
func limit(ctx context.Context, d *kopf.Daemon) error {
	lifetime, err := time.ParseDuration(d.Labels()["lifetime"])
	if err != nil {
		return kopf.Permanent(fmt.Errorf("the label of the pod: %w", err))
	}
	if !d.Sleep(lifetime) {
		d.Logger.Info("The pod goes by itself.", "reason", d.StopReason())
		return nil
	}
	d.Logger.Info("The time of the pod is over.")
	// The deletion stops the daemon, which must not cancel the request.
	return d.Client.Delete(context.WithoutCancel(ctx), d.Body.Reference(), nil)
}

func welcome(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("Here is a namespace.", "name", c.Name())
	return nil
}
