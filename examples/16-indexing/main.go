// Command 16-indexing shows indices. By them, handlers, timers and probes use data of all other objects without requests.
package main

import (
	"context"
	"time"

	"github.com/kopf-go/kopf"
)

var (
	byLabel    = kopf.OnIndex("kopfexamples", label, nil)    // the names of the objects by the value of their label
	byDuration = kopf.OnIndex("kopfexamples", duration, nil) // and by their duration
)

func main() {
	kopf.OnCreate("kopfexamples", create, nil)
	kopf.OnTimer("kopfexamples", report, &kopf.TimerOptions{Interval: 5 * time.Second})
	kopf.OnProbe(labels, nil)
	kopf.Main()
}

// label is called for each new or changed object. An empty map removes the object from the index, nil keeps its entries.
func label(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
	return map[string]string{i.Labels()["somelabel"]: i.Name()}, nil
}

// duration indexes only valid durations. kopf logs the errors of others.
func duration(ctx context.Context, i *kopf.Indexing) (map[time.Duration]string, error) {
	d, err := time.ParseDuration(i.Spec().String("duration"))
	return map[time.Duration]string{d: i.Name()}, err
}

// create is called when the index contains all existing objects.
func create(ctx context.Context, c *kopf.Change) error {
	same := byLabel.Get(c, c.Labels()["somelabel"])
	c.Logger.Info("The object has company.", "objects", same)
	return nil
}

func report(ctx context.Context, t *kopf.Timer) error {
	for d, names := range byDuration.All(t) {
		t.Logger.Info("The index has an entry.", "duration", d, "objects", len(names))
	}
	return nil
}

func labels(ctx context.Context, p *kopf.Probe) (any, error) { return byLabel.Len(p), nil }
