// Command 02-children makes a config map for each object, which goes when the object goes.
package main

import (
	"context"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnCreate("kopfexamples", create, nil)
	kopf.Main()
}

func create(ctx context.Context, c *kopf.Change) error {
	child := map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"data":       map[string]any{"duration": c.Spec().String("duration")},
	}
	// The child is owned, named, placed and labelled like the object. There is nothing to do on deletion.
	if err := c.Adopt(child, nil); err != nil {
		return err
	}
	if err := c.Client.Create(ctx, child, nil); err != nil {
		return err
	}
	c.Logger.Info("The child is made.")
	return nil
}
