// Command 09-testing is an operator with long delays. Its tests are fast: an hour of retries takes no time.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	register(kopf.DefaultRegistry(), new(warehouse))
	kopf.Main()
}

// warehouse is the external system of the operator, which tests replace.
type warehouse struct {
	// delivered reports whether an item has arrived. In the zero value, no item ever arrives.
	delivered func(item string) bool
}

// register adds the handlers to a registry, so that tests can use their own.
func register(r *kopf.Registry, w *warehouse) {
	r.OnCreate("kopfexamples", w.order, &kopf.ChangeOptions{ID: "order", Timeout: 24 * time.Hour})
	r.OnDelete("kopfexamples", w.cancel, &kopf.ChangeOptions{ID: "cancel"})
}

func (w *warehouse) order(ctx context.Context, c *kopf.Change) error {
	item := c.Spec().String("field")
	if item == "" {
		return kopf.Permanent(errors.New("the field says nothing"))
	}
	if w.delivered == nil || !w.delivered(item) {
		c.Logger.Info("The item is on its way.", "item", item)
		return kopf.Temporary(errors.New("not delivered yet"), 10*time.Minute)
	}
	c.SetResult(map[string]any{"item": item, "attempts": c.Retry + 1})
	return nil
}

func (w *warehouse) cancel(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("The order is cancelled.")
	return nil
}
