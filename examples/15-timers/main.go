// Command 15-timers shows functions that are called again and again while their object exists.
package main

import (
	"context"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnTimer("kopfexamples", tick, &kopf.TimerOptions{Interval: time.Second, Sharp: true})
	kopf.OnTimer("kopfexamples", rest, &kopf.TimerOptions{Idle: 2 * time.Second, Interval: 10 * time.Second})
	kopf.Main()
}

// tick is called on the grid of the first call, once a second. A call that lasts longer leaves out the seconds in which it runs.
func tick(ctx context.Context, t *kopf.Timer) error {
	count := t.Status().Int("tick.count") + 1
	t.SetResult(map[string]any{"count": count})
	t.Logger.Info("A tick.", "count", count)
	return nil
}

// rest is called when nobody has changed the spec for two seconds; the results of the timers do not count.
func rest(ctx context.Context, t *kopf.Timer) error {
	t.Logger.Info("The object rests.", "field", t.Spec().String("field"))
	return nil
}
