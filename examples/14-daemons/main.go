// Command 14-daemons shows functions that run as long as their object exists. One checks whether it is stopped, and the other one uses its context.
package main

import (
	"context"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnDaemon("kopfexamples", watch, nil)
	kopf.OnDaemon("kopfexamples", listen, &kopf.DaemonOptions{
		CancellationBackoff: 2 * time.Second, // to end by itself
		CancellationTimeout: 5 * time.Second, // after its context was canceled
	})
	kopf.Main()
}

// watch gets the current object in each loop.
func watch(ctx context.Context, d *kopf.Daemon) error {
	for d.Sleep(time.Second) {
		d.Logger.Info("The object is watched.", "field", d.Spec().String("field"))
	}
	d.Logger.Info("The watch is over.", "reason", d.StopReason())
	return nil
}

// listen waits with its context, like most Go functions. After an error it starts again.
func listen(ctx context.Context, d *kopf.Daemon) error {
	d.Logger.Info("Listening begins.", "attempt", d.Retry+1)
	if d.Retry == 0 {
		return kopf.Temporary(context.DeadlineExceeded, time.Second)
	}
	<-ctx.Done()
	d.Logger.Info("Listening ends.", "reason", context.Cause(ctx))
	return nil
}
