package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/kopf-go/kopf"

	"github.com/kopf-go/kopf/e2e/judges/rivalry"
)

// runOurs runs an operator of kopf with an election, whose handlers work.
func (r *rival) runOurs(ctx context.Context) error {
	registry := &kopf.Registry{}
	result := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: rivalry.Namespace, Name: rivalry.Result}
	work := func(ctx context.Context, client *kopf.Client, fence uint64, most time.Duration) {
		r.work(ctx, rand.N(most), func(ctx context.Context, call, n int) error {
			_, err := client.Patch(ctx, result, r.result(fence, call, n), nil)
			return err
		})
	}
	labels := kopf.Match{rivalry.Label: "yes"}
	registry.OnTimer("configmaps", func(ctx context.Context, t *kopf.Timer) error {
		work(ctx, t.Client, t.Fence(), time.Second)
		return nil
	}, &kopf.TimerOptions{ID: "timer", Labels: labels, Interval: 100 * time.Millisecond})
	registry.OnEvent("configmaps", func(ctx context.Context, e *kopf.WatchEvent) error {
		work(ctx, e.Client, e.Fence(), time.Second)
		return nil
	}, &kopf.EventOptions{ID: "event", Labels: labels})
	registry.OnUpdate("configmaps", func(ctx context.Context, c *kopf.Change) error {
		work(ctx, c.Client, c.Fence(), 1500*time.Millisecond)
		return nil
	}, &kopf.ChangeOptions{ID: "update", Labels: labels})
	settings := kopf.NewSettings()
	settings.Peering.Standalone = true
	settings.LeaderElection = kopf.LeaderElectionSettings{Name: rivalry.Lease, Namespace: rivalry.Namespace,
		LeaseDuration: r.LeaseDuration, RenewDeadline: r.RenewDeadline, RetryPeriod: r.RetryPeriod}
	op := &kopf.Operator{Registry: registry, Settings: settings, Namespaces: []string{rivalry.Namespace}, Identity: r.Identity,
		Connection: &kopf.ConnectionInfo{Server: r.Server, HTTPClient: r.client()},
		Logger:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	return op.Run(ctx)
}
