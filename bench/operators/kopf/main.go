// The operator of the bench, with kopf. It handles each new or resized widget, and writes a result to its status.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/kopf-go/kopf"
	_ "github.com/kopf-go/kopf/bench/operators/profile"
	"github.com/kopf-go/kopf/bench/operators/trace"
)

func main() {
	if os.Getenv("BENCH_WRITES") == "1" { // with the state next to the result, in the status
		kopf.OnStartup(keepInStatus, nil)
	}
	kopf.OnCreate("widgets.bench.kopf.dev", handle, nil)
	kopf.OnUpdate("widgets.bench.kopf.dev", handle, nil)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	kopf.Main()
}

func keepInStatus(ctx context.Context, a *kopf.Activity) error {
	a.Settings.Persistence.Storage = kopf.InStatus
	return nil
}

func handle(ctx context.Context, c *kopf.Change) error {
	trace.Called(c.Name())
	c.Patch.Set("status.size", c.Spec().Int("size"))
	c.Patch.Set("status.handled", true)
	return nil
}
