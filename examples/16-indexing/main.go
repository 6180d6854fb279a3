// Command 16-indexing shows an index: what handlers know of all other objects without asking the API server.
package main

import (
	"context"
	"time"

	"github.com/kopf-go/kopf"
)

// byLabel has the names of the objects by the value of their label.
var byLabel = kopf.OnIndex("kopfexamples", label, nil)

func main() {
	kopf.OnCreate("kopfexamples", create, nil)
	kopf.OnTimer("kopfexamples", report, &kopf.TimerOptions{Interval: 5 * time.Second})
	kopf.Main()
}

// label is called for each object, and each time that it changes. No result leaves the index as it was.
func label(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
	return map[string]string{i.Labels()["somelabel"]: i.Name()}, nil
}

// create is called when all objects that exist are in the index.
func create(ctx context.Context, c *kopf.Change) error {
	same := byLabel.Get(c, c.Labels()["somelabel"])
	c.Logger.Info("The object has company.", "objects", same)
	return nil
}

func report(ctx context.Context, t *kopf.Timer) error {
	for value, names := range byLabel.All(t) {
		t.Logger.Info("The index has an entry.", "label", value, "objects", len(names))
	}
	return nil
}
