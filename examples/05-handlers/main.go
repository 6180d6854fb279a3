// Command 05-handlers shows all handlers of an object's life, and their order. To see all calls, change an object with kubectl, restart the operator, and
// delete the object.
package main

import (
	"context"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnCreate("kopfexamples", first, &kopf.ChangeOptions{ID: "create_1"})
	kopf.OnCreate("kopfexamples", second, &kopf.ChangeOptions{ID: "create_2"})
	kopf.OnResume("kopfexamples", first, &kopf.ChangeOptions{ID: "resume_1"})
	kopf.OnResume("kopfexamples", second, &kopf.ChangeOptions{ID: "resume_2"})
	kopf.OnUpdate("kopfexamples", updated, nil)
	kopf.OnField("kopfexamples", "spec.field", changed, nil)
	kopf.OnDelete("kopfexamples", first, &kopf.ChangeOptions{ID: "delete_1"})
	kopf.OnDelete("kopfexamples", second, &kopf.ChangeOptions{ID: "delete_2"})
	kopf.Main()
}

func first(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("This is called first.", "reason", c.Reason)
	c.SetResult(map[string]any{"reason": c.Reason, "by": "first"})
	return nil
}

func second(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("This is called next.", "reason", c.Reason)
	return nil
}

func updated(ctx context.Context, c *kopf.Change) error {
	for _, item := range c.Diff() {
		c.Logger.Info("The object has changed.", "what", item.String())
	}
	c.Patch.Set("status.changes", c.Status().Int("changes")+1)
	return nil
}

func changed(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("The field has changed.", "old", c.Old.String(""), "new", c.New.String(""))
	return nil
}
