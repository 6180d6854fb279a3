// Command 14-daemons shows functions that run as long as their object exists: one looks at whether it is asked to stop,
// the other one lets its context tell.
package main

import (
	"context"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnDaemon("kopfexamples", watch, nil)
	kopf.OnDaemon("kopfexamples", listen, &kopf.DaemonOptions{
		CancellationBackoff: 2 * time.Second, // to end on its own account
		CancellationTimeout: 5 * time.Second, // after its context has ended
	})
	kopf.Main()
}

// watch sees the object as it is now, each time that it looks.
func watch(ctx context.Context, d *kopf.Daemon) error {
	for d.Sleep(time.Second) {
		d.Logger.Info("The object is watched.", "field", d.Spec().String("field"))
	}
	d.Logger.Info("The watch is over.", "reason", d.StopReason())
	return nil
}

// listen waits for something that takes a context, as most of Go does. An error makes it begin again.
func listen(ctx context.Context, d *kopf.Daemon) error {
	d.Logger.Info("Listening begins.", "attempt", d.Retry+1)
	if d.Retry == 0 {
		return kopf.Temporary(context.DeadlineExceeded, time.Second)
	}
	<-ctx.Done()
	d.Logger.Info("Listening ends.", "reason", context.Cause(ctx))
	return nil
}
