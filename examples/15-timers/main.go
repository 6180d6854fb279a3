// Command 15-timers shows functions that are called repeatedly while their object exists.
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

// tick is called once a second, counted from the first call. A longer call skips the seconds in which it runs.
func tick(ctx context.Context, t *kopf.Timer) error {
	count := t.Status().Int("tick.count") + 1
	t.SetResult(map[string]any{"count": count})
	t.Logger.Info("A tick.", "count", count)
	return nil
}

// rest is called when the spec has not changed for two seconds. The results of the timers do not count as changes.
func rest(ctx context.Context, t *kopf.Timer) error {
	t.Logger.Info("The object rests.", "field", t.Spec().String("field"))
	return nil
}
