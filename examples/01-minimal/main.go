// Command 01-minimal is the smallest operator: it handles the creation of objects, and
// reports into their status.
package main

import (
	"context"

	"github.com/kopf-go/kopf"
)

func main() {
	// The result goes to status.create_fn, where the columns of "kubectl get" look for it.
	kopf.OnCreate("kopfexamples", create, &kopf.ChangeOptions{ID: "create_fn"})
	kopf.Main()
}

func create(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("Here is a new object.", "duration", c.Spec().String("duration"))
	c.SetResult(map[string]any{"message": "hello world"})
	return nil
}
