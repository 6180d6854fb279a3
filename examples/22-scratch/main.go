// Command 22-scratch is an operator with everything to ship it: an image that contains only the operator, and the manifests in docs/deployment, which its
// command "manifests" has created. Its Dockerfile explains how to build and to install it.
package main

import (
	"context"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnStartup(configure, nil)
	kopf.OnCreate("kopfexamples", create, nil)
	kopf.OnDelete("kopfexamples", remove, nil)
	kopf.Needs("configmaps", "create", "patch") // create uses them by its client
	kopf.Main()
}

func configure(ctx context.Context, a *kopf.Activity) error {
	a.Settings.Queueing.ExitTimeout = 20 * time.Second // of the 30 of the pod's grace period
	a.Settings.Posting.ReportingComponent = "example.com/kopfexample-operator"
	return nil
}

func create(ctx context.Context, c *kopf.Change) error {
	child := map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"data":       map[string]any{"duration": c.Spec().String("duration")},
	}
	if err := c.Adopt(child, &kopf.HierarchyOptions{Strict: true}); err != nil {
		return err
	}
	if err := c.Client.Apply(ctx, child, nil); err != nil {
		return err
	}
	c.PostInfo("Created", "the config map is there")
	c.SetResult(map[string]any{"message": "from scratch"})
	return nil
}

func remove(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("The object goes, and the config map with it.")
	return nil
}
