// Command 07-subhandlers shows a handler that delegates its work to sub-handlers, one for each item of the spec. Each of them has its own retries, and
// succeeds once.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnCreate("kopfexamples", create, nil)
	kopf.Main()
}

// create is called again until all of its sub-handlers have finished. It registers the same ones each time.
func create(ctx context.Context, c *kopf.Change) error {
	for _, item := range c.Spec().Strings("items") {
		c.Subhandler(kopf.HandlerID(item), func(ctx context.Context, c *kopf.Change) error {
			if item == "item2" && c.Retry < 1 {
				return kopf.Temporary(errors.New("item2 always needs a second attempt"), time.Second)
			}
			c.Logger.Info("The item is handled.", "item", item, "attempt", c.Retry+1)
			return nil
		}, nil)
	}
	return nil
}
